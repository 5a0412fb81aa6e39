"""Rows of control flow: functions of tensors whose bodies are part of the row."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor.dtypes import bool_, float32, float64, int32, int64

from ..domains import chosen, normal, unit, whole
from ..language import FLOATS, NUMBERS, Array, Case, Domain, case, ulp


def cond(predicate: Any, x: Any, y: Any) -> Any:
    """One of two branches, each of which captures y."""
    return calor.cond(predicate, lambda x: x * y, lambda x: x + y * y, x)


def _cond(predicate: Array, x: Array, y: Array) -> Array:
    return np.asarray(x * y if predicate else x + y * y)


def while_loop(x: Any, limit: Any) -> Any:
    """Doubling below a captured limit; two carries."""
    return calor.while_loop(
        lambda state: calor.all(calor.abs(state[0]) < limit),
        lambda state: (state[0] * 2, state[1] + 1),
        (x, calor.asarray(0)),
    )


def _while_loop(x: Array, limit: Array) -> tuple[Array, Array]:
    steps = 0
    while np.all(np.abs(x) < limit):
        x, steps = x * 2, steps + 1
    return x, np.asarray(steps)


def _loop(name: str, dtypes: Any, x: Domain, limit: float) -> Case:
    return case(while_loop, x, chosen(np.array(limit)), oracle=_while_loop, dtypes=dtypes,
                out=lambda d: (d, int64), name=name, covers="while_loop")  # fmt: skip


def turning(a: Any, b: Any, count: Any) -> Any:
    """Carries that change places: each step reads what the other was before it."""
    made = calor.while_loop(
        lambda state: state[2] < count,
        lambda state: (state[1], state[0] + state[1], state[2] + 1),
        (a, b, calor.asarray(0)),
    )
    return made[:2]


def _turning(a: Array, b: Array, count: Array) -> tuple[Array, Array]:
    for _ in range(int(count)):
        a, b = b, a + b
    return np.asarray(a), np.asarray(b)


def counting(x: Any, count: Any) -> Any:
    """As many steps as another number says, one at a time."""
    made = calor.while_loop(
        lambda state: state[1] < count,
        lambda state: (state[0] + 1, state[1] + 1),
        (x, calor.asarray(0)),
    )
    return made[0]


def nested(x: Any, w: Any) -> Any:
    """A loop in a scan, with a branch inside; each reads what is around it."""

    def inner(carry: Any, row: Any) -> Any:
        made = calor.fori_loop(0, 2, lambda _, c: c * w + row, carry)
        made = calor.cond(calor.sum(row) > 0, lambda c: c + w, lambda c: c - row, made)
        return made, made

    return calor.scan(inner, w, x)


def _nested(x: Array, w: Array) -> tuple[Array, Array]:
    carry, outputs = w, []
    for row in x:
        for _ in range(2):
            carry = carry * w + row
        carry = carry + w if row.sum() > 0 else carry - row
        outputs.append(carry)
    return np.asarray(carry), np.array(outputs)


def scan(carry: Any, xs: Any, w: Any, *, reverse: bool) -> Any:
    """A recurrence with a captured weight; the last carry and every output."""
    return calor.scan(
        lambda c, x: ((made := c * w + x * c), made * x), carry, xs, reverse=reverse
    )  # fmt: skip


def _scan(carry: Array, xs: Array, w: Array, *, reverse: bool) -> tuple[Array, Array]:
    outputs: list[Any] = [None] * len(xs)
    for i in reversed(range(len(xs))) if reverse else range(len(xs)):
        carry = carry * w + xs[i] * carry
        outputs[i] = carry * xs[i]
    return np.asarray(carry), np.array(outputs, xs.dtype).reshape(xs.shape)


def recurrent(h: Any, xs: Any, w: Any, lengths: Any, *, reverse: bool) -> Any:
    """A recurrent layer over sequences of several lengths: devices may take its steps together."""

    def step(h: Any, given: Any) -> Any:
        x, t = given
        made = calor.where((t < lengths)[:, None], calor.tanh((h @ w) * 0.25 + x), h)
        return made, made

    return calor.scan(step, h, (xs, calor.arange(xs.shape[0])), reverse=reverse)


def _recurrent(h: Array, xs: Array, w: Array, lengths: Array, *, reverse: bool) -> Any:
    outputs: list[Any] = [None] * len(xs)
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        made = np.tanh((h @ w) * 0.25 + xs[t])
        h = outputs[t] = np.where((t < lengths)[:, None], made, h)
    return h, np.array(outputs)


def fori_loop(x: Any, w: Any) -> Any:
    """Fixed bounds; the counter takes part."""
    return calor.fori_loop(1, 4, lambda i, c: c * w + calor.astype(i, c.dtype) * x, x)


def _fori_loop(x: Array, w: Array) -> Array:
    made = x
    for i in range(1, 4):
        made = made * w + i * x
    return np.asarray(made)


CASES: list[Case] = [
    *(
        case(cond, chosen(np.array(truth), bool_), normal(3), normal(3), oracle=_cond,
             dtypes=NUMBERS, tol=ulp(2, scale=lambda p, x, y: np.abs(x) + np.abs(y) ** 2),
             name=str(truth).lower(), covers="cond")
        for truth in (True, False)
    ),
    _loop("float64", (float64,), unit(3), 10.0),
    _loop("float32", (float32,), unit(3), 10.0),
    _loop("int32", (int32,), chosen(np.array([1, -3, 2])), 50),
    _loop("int64", (int64,), chosen(np.array([1, -3, 2])), 50),
    # No step at all; and more than a byte counts.
    _loop("no-step", (float32, float64, int32), chosen(np.array([4, 5])), 2.0),
    case(counting, whole(0, 9, 2), chosen(np.array(300), int64), oracle=lambda x, n: x + n,
         dtypes=(float32, int32, int64), name="long", covers="while_loop"),
    case(turning, whole(1, 4, 2), whole(1, 4, 2), chosen(np.array(7), int64), oracle=_turning,
         dtypes=(float32, float64, int32), name="turning", covers="while_loop"),
    case(nested, unit(3, 2), unit(2), oracle=_nested, dtypes=(float32, float64),
         tol=ulp(64, scale=lambda *_, **__: 8.0), name="nested", covers="scan"),
    *(
        case(scan, unit(2), unit(n, 2), normal(2), reverse=reverse, oracle=_scan, dtypes=FLOATS[2:],
             tol=ulp(32, scale=lambda c, xs, w, **_: np.max(np.abs(w) + 1.5) ** 4),
             name=f"{n}{'-reverse' * reverse}", covers="scan")
        for n in (4, 1, 0)
        for reverse in (False, True)
    ),
    *(
        case(recurrent, unit(3, 5), unit(4, 3, 5), unit(5, 5), chosen(np.array([4, 0, 2]), int64),
             reverse=reverse, oracle=_recurrent, dtypes=FLOATS,
             tol=ulp(32, scale=lambda *_, **__: 4.0),
             name=f"recurrent{'-reverse' * reverse}", covers="scan")
        for reverse in (False, True)
    ),
    case(fori_loop, normal(3), unit(3), oracle=_fori_loop, dtypes=FLOATS[2:],
         tol=ulp(32, scale=lambda x, w: np.abs(x) * 12)),
]  # fmt: skip
