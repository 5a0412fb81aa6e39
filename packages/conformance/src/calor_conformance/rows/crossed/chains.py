"""Programs of several ops: what a compiler may join, drop or move, with the numbers that tell."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, complex64, complex128, float32, float64, int32
from calor.ops import elementwise as e
from calor.ops import movement as m

from ..domains import special
from ..flushing import flushed, taken
from ..language import Array, Tolerance
from .drawing import numbers
from .language import Problem, Subject
from .orders import placed
from .pairwise import Scenario

_STEPS = ("flipped", "permuted", "stepped", "cut", "reshaped", "turned")


def _movements(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """A chain of views, each of the one before; equal sides hide a wrong order from the shape."""
    side = scenario["side"]
    target = np.arange(side ** scenario["rank"]) % 1009
    target = target.reshape((side,) * scenario["rank"]).astype(dtype.numpy)
    array, steps = target, []
    for _ in range(scenario["steps"]):
        kind = scenario["kind"] if rng.random() < 0.6 else str(rng.choice(_STEPS))
        array, step = placed(array, kind, rng)
        steps.append(step)

    def run(t: Any) -> Any:
        for step in reversed(steps):
            t = step(t)
        return t + t if scenario["then"] else t

    return Problem([array], run, lambda: [target + target if scenario["then"] else target], [dtype])


# An operation on a value and a constant that a compiler may take for one that changes nothing.
_NEUTRAL: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Array, Any], Array]]] = {
    "add": (e.add, np.add),
    "sub": (e.sub, np.subtract),
    "mul": (e.mul, np.multiply),
    "div": (e.div, np.divide),
    "maximum": (calor.maximum, np.maximum),
    "minimum": (calor.minimum, np.minimum),
    "reversed-sub": (lambda t, c: e.sub(c, t), lambda a, c: np.subtract(c, a)),
}
_CONSTANTS = (0.0, -0.0, 1.0, -1.0, 2.0, np.inf, np.nan)


Between = Callable[[Array], Array]


def _same(a: Array) -> Array:
    return a


def _flushing(
    results: Callable[[Array, Between], list[Array]], x: Array
) -> Callable[[Collection[DType]], list[list[Array]]]:
    """Return the results of a chain whose operand, or what it makes between, is flushed."""

    def of(flushes: Collection[DType]) -> list[list[Array]]:
        every = [a for (a,) in taken([x], flushes)]
        steps: list[Between] = [_same, lambda a: flushed(a, flushes)]
        return [results(a, step) for a in every for step in steps][1:]

    return of


def _constants(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """Arithmetic with constants at the numbers for which they are not neutral."""
    values = special(dtype)
    x = rng.permutation(values)[np.arange(scenario["length"]) % values.size]
    names = [scenario["first"], scenario["second"]]
    constants = [dtype.numpy.type(scenario["number"]), dtype.numpy.type(scenario["other"])]

    def run(t: Any) -> Any:
        for name, c in zip(names, constants, strict=True):
            t = _NEUTRAL[name][0](t, calor.full(t.shape, c.item(), dtype=dtype))
        return t

    def results(made: Array, then: Between = _same) -> list[Array]:
        with np.errstate(all="ignore"):
            for name, c in zip(names, constants, strict=True):
                before = then(made)
                made = np.asarray(_NEUTRAL[name][1](before, c), dtype.numpy)
                if name in ("maximum", "minimum"):
                    made = _signed(name, before, c, made)
        return [made]

    return Problem([x], run, lambda: results(x), [dtype], flushing=_flushing(results, x))


def _signed(name: str, a: Array, c: Any, made: Array) -> Array:
    """Return an extreme with −0 below +0."""
    both = (a == 0) & (c == 0)
    negative = np.signbit(a) & np.signbit(c) if name == "maximum" else np.signbit(a) | np.signbit(c)
    return np.where(both, np.where(negative, -0.0, 0.0), made).astype(a.dtype)


def _there_and_back(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    """A cast to another dtype and back, which changes what that one does not hold."""
    through = scenario["through"]
    if through is dtype:
        return None
    values = np.concatenate([special(dtype), numbers(rng, dtype, (40,))])
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        more = rng.integers(limits.min, limits.max, 40, endpoint=True, dtype=dtype.numpy)
        values = np.concatenate([values, more])
    x = values[np.arange(scenario["length"]) % values.size]

    def run(t: Any) -> Any:
        return e.cast(e.cast(t, dtype=through), dtype=dtype)

    def results(a: Array, then: Between = _same) -> list[Array]:
        from ..oracle_casts import cast

        with np.errstate(all="ignore"):
            return [cast(then(cast(a, dtype=through)), dtype=dtype)]

    return Problem([x], run, lambda: results(x), [dtype], flushing=_flushing(results, x))


def _choices(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """Constants that a condition of the device chooses between, moved and joined."""
    n = scenario["length"]
    a, b = scenario["numbers"]
    x = rng.permutation(np.resize(np.array([0.0, 1.0, -1.0]), n)).astype(dtype.numpy)

    def run(t: Any) -> Any:
        one, other = (calor.full(t.shape, v, dtype=dtype) for v in (a, b))
        chosen = e.where(t > 0, one, other)
        padded = m.flip(calor.concat([chosen, t, other], axis=0), axes=(0,))
        return padded if scenario["joined"] else chosen

    def want() -> list[Array]:
        chosen = np.where(x > 0, a, b).astype(dtype.numpy)
        other = np.full(n, b, dtype.numpy)
        return [np.concatenate([chosen, x, other])[::-1] if scenario["joined"] else chosen]

    return Problem([x], run, want, [dtype])


def _shared(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """A value that is read as it is and as a view, by ops that could write over it."""
    shape = (scenario["side"], scenario["side"])
    x = rng.integers(-50, 50, shape).astype(dtype.numpy)
    y = rng.integers(-50, 50, shape).astype(dtype.numpy)
    array, step = placed(y, "plain", rng)
    view = scenario["view"]

    def run(s: Any, t: Any) -> Any:
        made = s + step(t)
        turned = _VIEWS[view][0](made)
        product = made * 2 - turned
        last = turned - product
        return (last, product) if scenario["kept"] else last

    def want() -> list[Array]:
        made = x + y
        turned = _VIEWS[view][1](made)
        product = made * 2 - turned
        last = turned - product
        return [last, product] if scenario["kept"] else [last]

    return Problem([x, array], run, want, [dtype] * (1 + scenario["kept"]))


_VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "transposed": (lambda t: m.permute(t, axes=(1, 0)), lambda a: a.T),
    "flipped": (lambda t: m.flip(t, axes=(0,)), lambda a: a[::-1]),
    "rolled": (
        lambda t: calor.concat([t[1:], t[:1]], axis=0),
        lambda a: np.concatenate([a[1:], a[:1]]),
    ),
    "row": (
        lambda t: m.expand(t[:1], shape=t.shape),
        lambda a: np.broadcast_to(a[:1], a.shape),
    ),
}


def _squared(a: Any) -> Any:
    return a * a


# What a compiler takes for a pattern: which of two values each part of it reads.
_PATTERNS: dict[str, Callable[[Any, Any, Any, Any, Any], Any]] = {
    "moments": lambda lib, x, y, n, k: lib.sum(
        _squared(x - lib.sum(y, axis=k, keepdims=True) / n), axis=k, keepdims=True),
    "softmax": lambda lib, x, y, n, k: lib.exp(x - lib.max(y, axis=k, keepdims=True)) / lib.sum(
        lib.exp(x - lib.max(x, axis=k, keepdims=True)), axis=k, keepdims=True),
    "shares": lambda lib, x, y, n, k: lib.exp(x - lib.max(x, axis=k, keepdims=True)) / lib.sum(
        lib.exp(y - lib.max(x, axis=k, keepdims=True)), axis=k, keepdims=True),
    "norm": lambda lib, x, y, n, k: x / lib.sqrt(lib.sum(y * y, axis=k, keepdims=True) / n + 1),
    "gate": lambda lib, x, y, n, k: x / (1 + lib.exp(-y)) + lib.sum(x, axis=k, keepdims=True) / n,
}  # fmt: skip


def _look_alikes(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """Programs that are a known pattern if two values are one, and are not if they differ."""
    pattern, same = scenario["pattern"]
    (n, along), function = scenario["length"], _PATTERNS[pattern]
    shape: tuple[int, ...] = (scenario["rows"], n)
    axes: Any = -1
    if along == "apart":
        # As of channels: along axes that are not beside each other.
        shape, axes = (shape[0] + 1, 3, n), (0, 2)
        n *= shape[0]
    x, y = (rng.integers(-8, 9, shape) / 4 for _ in range(2))
    count = n - 1 if scenario["count"] == "less" and n > 1 else n

    def apply(lib: Any, a: Any, b: Any) -> Any:
        return function(lib, a, a if same else b, count, axes)

    given = [x.astype(dtype.numpy), y.astype(dtype.numpy)]
    with np.errstate(all="ignore"):
        want = np.asarray(apply(np, x, y))
    size = np.full(want.shape, 1 + np.abs(want).max(initial=0.0))
    return Problem(
        given, lambda a, b: apply(calor, a, b), lambda: [want], [dtype], Tolerance(64, 8),
        lambda: [size], zeros=False, slope=False,
    )  # fmt: skip


def _siblings(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """The same ops on several parts of one array, and on the parts of another in another order."""
    parts, n = scenario["parts"], scenario["length"]
    x, y = (rng.integers(-50, 50, (parts, n)).astype(dtype.numpy) for _ in range(2))
    order = [int(k) for k in rng.permutation(parts)]
    along = scenario["op"]

    def apply(lib: Any, a: Any, b: Any) -> list[Any]:
        made = [a[k] * 2 - b[j] for k, j in enumerate(order)]
        if along == "scan":
            made = [lib.cumsum(m, 0) for m in made]
        elif along == "reduce":
            made = [m - lib.max(m) for m in made]
        return made

    def run(a: Any, b: Any) -> list[Any]:
        return apply(_Numbers, a, b)

    def want() -> list[Array]:
        return [np.asarray(m).astype(dtype.numpy) for m in apply(np, x, y)]

    return Problem([x, y], run, want, [dtype] * parts)


def _numbered(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """The same ops on numbers of one array, each of which is repeated, and on parts of another."""
    parts, n, op = scenario["parts"], scenario["length"], scenario["op"]
    x, y = _whole(rng, (parts, n), dtype), _whole(rng, (parts + 1,), dtype)
    order = [int(k) for k in rng.permutation(parts + 1)[:parts]]

    def apply(lib: Any, a: Any, b: Any) -> list[Any]:
        if op == "scaled":
            return [a[k] * b[j : j + 1] - a[k] for k, j in enumerate(order)]
        return [lib.broadcast_to(b, (n, parts + 1))[:, j : j + 1] * 2 for j in order]

    def run(a: Any, b: Any) -> list[Any]:
        return apply(calor, a, b)

    return Problem([x, y], run, lambda: apply(np, x, y), [dtype] * parts)


def _whole(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return small whole numbers, also in imaginary parts."""
    made = rng.integers(-9, 10, shape)
    if dtype.is_complex:
        return np.asarray(made + 1j * rng.integers(-9, 10, shape), dtype.numpy)
    return np.asarray(made, dtype.numpy)


class _Numbers:
    """The functions of NumPy's names that siblings use, in the dtype of their operand."""

    max = staticmethod(calor.max)

    @staticmethod
    def cumsum(x: Any, axis: int) -> Any:
        """Return the running sum in the dtype of x."""
        return calor.cumulative_sum(x, axis=axis, dtype=x.dtype)


def _large(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """Several values of a mebibyte or more that live at once, and that nothing can join."""
    rows, columns = scenario["shape"]
    x = rng.integers(-3, 4, (rows, columns)).astype(dtype.numpy)

    def apply(scan: Any, turn: Any, a: Any) -> Any:
        one, other = scan(a, 0), scan(a, 1)
        third = turn(scan(turn(one - a), 0))
        last = scan(other - third, 1)
        return [last - one, third + other, last - third]

    def run(t: Any) -> Any:
        return apply(_Numbers.cumsum, lambda a: m.flip(a, axes=(0, 1)), t)

    def want() -> list[Array]:
        with np.errstate(all="ignore"):
            made = apply(lambda a, k: np.cumsum(a, k, dtype=a.dtype), lambda a: a[::-1, ::-1],
                         x.astype(np.int64))  # fmt: skip
        return [np.asarray(m).astype(dtype.numpy) for m in made]

    return Problem([x], run, want, [dtype] * 3)


_EVERY = (float32, int32)
_THROUGH = (
    calor.int32, calor.float32, calor.int8, calor.uint8, calor.float16, calor.int64,
    calor.bfloat16, calor.float64, calor.uint32,
)  # fmt: skip
_WHOLE = (
    int32, float32, calor.int64, calor.uint32, calor.int8, float64, calor.float16, calor.bfloat16,
    calor.uint8,
)  # fmt: skip
# A compiler sees programs that are traced.
_TRACED: dict[str, Any] = {"mode": ("jit", "again")}

SUBJECTS: list[Subject] = [
    Subject("", _movements, _EVERY,
            {"kind": _STEPS, "rank": (3, 2, 4, 1, 5), "side": (3, 2, 4, 8), "steps": (2, 3, 4, 5),
             "then": (False, True)}, name="chain-of-views"),
    Subject("", _constants, (float32, float64),
            {"length": (33, 7, 257), "first": tuple(_NEUTRAL), "second": tuple(_NEUTRAL),
             "number": _CONSTANTS, "other": _CONSTANTS, **_TRACED}, name="chain-with-constants",
            whole=True),
    Subject("", _there_and_back, _WHOLE, {"length": (257, 33), "through": _THROUGH, **_TRACED},
            name="chain-of-casts", whole=True),
    Subject("", _choices, _EVERY,
            {"length": (33, 7, 257, 1500), "numbers": ((1, 0), (0, 1), (2, 2), (-1, 3)),
             "joined": (False, True)}, name="chain-of-constants"),
    Subject("", _shared, _EVERY,
            {"side": (33, 7, 130), "view": tuple(_VIEWS), "kept": (False, True)},
            {"side": (700, 1030)}, name="chain-of-readers"),
    Subject("", _look_alikes, (float32,),
            {"pattern": (*((name, False) for name in _PATTERNS), ("moments", True)),
             "length": ((33, "last"), (1500, "last"), (70_001, "last"), (33, "apart"),
                        (70_001, "apart")),
             "rows": (3, 1), "count": ("all", "less"), **_TRACED},
            name="chain-like-a-pattern", whole=True),
    Subject("", _siblings, _EVERY,
            {"parts": (2, 3, 5, 9), "length": (33, 7, 257, 1500), "op": ("", "scan", "reduce"),
             **_TRACED}, name="chain-of-siblings"),
    Subject("", _numbered, (complex64, *_EVERY, complex128),
            {"parts": (3, 2, 5, 9), "length": (7, 2, 257, 1500), "op": ("scaled", "repeated"),
             **_TRACED}, name="chain-of-numbered-siblings"),
    Subject("", _large, (int32,),
            {"shape": ((520, 530), (1031, 400), (130, 4100)), **_TRACED}, name="chain-of-large"),
]  # fmt: skip
