"""Scans and sorts along any axis, beyond the chunks of any kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calor.dtypes import DType, float32, int32, int64
from calor.ops.base import find

from ..language import NUMBERS, ORDERED, REALS, Array, ulp
from .drawing import extremes_of, numbers, rows_of_specials, whole
from .language import DEEP, LENGTHS, LONG, Problem, Subject, one, shape_of, wide
from .orders import ORDERS
from .pairwise import Scenario


def _along(function: Callable[..., Any], axis: int, reverse: bool) -> Callable[[Array], Array]:
    def of(x: Array) -> Array:
        turned = np.flip(x, axis) if reverse else x
        made = function(turned, axis)
        return np.asarray(np.flip(made, axis) if reverse else made)

    return of


def _scan(op: str, ufunc: np.ufunc, draw: Callable[..., Array]) -> Any:
    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
        shape, axis = shape_of(scenario, rng)
        x = draw(rng, dtype, shape)
        if op in ("cummax", "cummin") or dtype.is_integer:
            x = rows_of_specials(x, axis, dtype, rng)
        reverse = scenario["reverse"]

        def meaning(a: Array) -> Array:
            exact = a if op in ("cummax", "cummin") or a.dtype.kind in "iu" else wide(a)
            with_type = {"dtype": exact.dtype}
            made = _along(lambda t, i: ufunc.accumulate(t, i, **with_type), axis, reverse)
            return np.asarray(made(exact))

        def terms(a: Array) -> Array:
            size = np.abs(wide(a))
            return np.asarray(_along(np.add.accumulate, axis, reverse)(size))

        return one(
            [x],
            lambda t: find(op)(t, axis=axis, reverse=reverse),
            meaning,
            tol=ulp(24) if op == "cumsum" else ulp(0.5),
            scale=terms if op == "cumsum" else None,
            zeros=False,
        )

    return build


def _signs(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    if dtype.kind == "uint":
        return np.asarray(rng.integers(0, 255, shape).astype(dtype.numpy) | dtype.numpy.type(1))
    return np.asarray(np.where(rng.random(shape) < 0.5, -1, 1), dtype.numpy)


def _sort(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    n = shape[axis]
    if scenario["keys"] == "few":
        x = whole(rng, dtype, shape, 2)
    elif scenario["keys"] == "ends":
        # Nothing but neighbours at an end of the dtype, which are a pivot's last cases.
        ends = list(extremes_of(dtype).values())
        x = rng.choice(np.asarray(ends[int(rng.integers(len(ends)))], dtype.numpy), shape)
    elif scenario["keys"] == "ordered":
        x = np.broadcast_to(np.arange(n), (*shape[:axis], *shape[axis + 1 :], n))
        x = np.moveaxis(x % 100, -1, axis).astype(dtype.numpy)
    else:
        x = numbers(rng, dtype, shape)
    if scenario["keys"] != "ends":
        x = rows_of_specials(x, axis, dtype, rng)
    descending = scenario["descending"]

    # What nobody reads, a device need not carry along.
    read = _READ[scenario["read"]]
    front = (*[slice(None)] * axis, slice(scenario.get("front")))

    def want() -> list[Array]:
        at = np.argsort(_keys(x, descending), axis=axis, kind="stable")[front]
        return [np.take_along_axis(x, at, axis), at.astype(np.int64)][read]

    def run(t: Any) -> list[Any]:
        every = list(find("sort")(t, axis=axis, descending=descending))[read]
        return [made[front] for made in every] if "front" in scenario else every

    return Problem(
        [x],
        run,
        want,
        [dtype, int64][read],
    )


_READ = {"both": slice(None), "values": slice(1), "places": slice(1, None)}


def _keys(x: Array, descending: bool) -> Array:
    """Return keys in the order of the elements, NaN last in both directions."""
    if x.dtype.kind in "biu":
        return np.invert(x) if descending else x
    # Of types that NumPy lacks this is exact.
    key = x.astype(np.result_type(x.dtype, np.float32) if x.dtype.kind == "f" else np.float32)
    return -key if descending else key


# Each axis of each rank, the plainest first.
PLACES = tuple(sorted(((r, a) for r in range(1, 6) for a in range(r)), key=lambda p: p != (2, 0)))

_WHERE: dict[str, Any] = {
    "length": (*LENGTHS, 20_000, 4100),
    "place": PLACES,
    "order": ORDERS,
    "reverse": (False, True),
}
_KEYS: dict[str, Any] = {
    "length": (7, 1, 33, 257, 300, 1500, 20_000),
    "place": PLACES,
    "order": ORDERS,
    "descending": (False, True),
    "keys": ("any", "few", "ordered", "ends"),
    "read": tuple(_READ),
}
_FAR: dict[str, Any] = {"length": DEEP}
# Beyond several chunks of any kernel.
_LONG: dict[str, Any] = {
    "length": LONG[-1:],
    "place": ((2, 1), (1, 0)),
    "reverse": (False, True),
    "mode": ("eager",),
}

_SORT_FAR: dict[str, Any] = {"length": DEEP[:1]}

SUBJECTS: list[Subject] = [
    Subject("cumsum", _scan("cumsum", np.add, numbers), NUMBERS, _WHERE, _FAR,
            differentiable=True),
    Subject("cumprod", _scan("cumprod", np.multiply, _signs), REALS, _WHERE, _FAR,
            differentiable=True),
    Subject("cummax", _scan("cummax", np.maximum, numbers), ORDERED, _WHERE, _FAR),
    Subject("cummin", _scan("cummin", np.minimum, numbers), ORDERED, _WHERE, _FAR),
    Subject("sort", _sort, ORDERED, _KEYS, _SORT_FAR),
    Subject("sort", _sort, (float32, int32), {**_KEYS, "front": (1, 4, 16)}, _SORT_FAR,
            name="front"),
    Subject("cumsum", _scan("cumsum", np.add, numbers), (float32, int64), _LONG, name="long",
            whole=True),
    Subject("cumprod", _scan("cumprod", np.multiply, _signs), (float32,), _LONG, name="long",
            whole=True),
    Subject("cummax", _scan("cummax", np.maximum, numbers), (float32,), _LONG, name="long",
            whole=True),
]  # fmt: skip
