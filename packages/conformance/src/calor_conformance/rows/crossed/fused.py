"""Large ops with work before and behind them, which a compiler may make one launch of.

What stands before a product is done as its operands are loaded, and what stands behind as its
results are stored, for parts of tiles too. Numbers are small and whole, so every way to do it has
one result. Other operands go along a row, a column, a batch, or all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bfloat16, float16, float32, float64, int32
from calor.ops import movement as m
from calor.ops.base import find

from ..language import Array
from .language import Problem, Subject, wide
from .pairwise import Scenario
from .windows import convolved, outputs, pooled

Rng = np.random.Generator
_SIDES: Final = (33, 7, 1, 4, 65, 130, 257)
# What comes before an operand: what calor does, and what it means.
Pair = tuple[Callable[[Any], Any], Callable[[Array], Array]]
_BEFORE: Final[dict[str, Pair]] = {
    "none": (lambda t: t, lambda a: a),
    "scaled": (lambda t: t * 2 - 1, lambda a: a * 2 - 1),
    "positive": (lambda t: calor.maximum(t, 0), lambda a: np.maximum(a, 0)),
    "turned": (
        lambda t: calor.flip(calor.matrix_transpose(calor.matrix_transpose(t)), axis=-1),
        lambda a: np.flip(a, -1),
    ),
    "less-its-row": (lambda t: t - t[..., :1], lambda a: a - a[..., :1]),
    "less-its-column": (lambda t: t - t[..., :1, :], lambda a: a - a[..., :1, :]),
}
# What comes behind, with another operand of a result's shape with some axes of one.
Behind = tuple[Callable[[Any, Any], Any], Callable[[Array, Array], Array]]
_BEHIND: Final[dict[str, Behind]] = {
    "add": (lambda t, b: t + b, lambda a, b: a + b),
    "subtract-from": (lambda t, b: b - t, lambda a, b: b - a),
    "choose": (lambda t, b: calor.where(b > 0, t, b), lambda a, b: np.where(b > 0, a, b)),
    "least": (calor.minimum, np.minimum),
    "positive": (lambda t, b: calor.maximum(t, 0) + b, lambda a, b: np.maximum(a, 0) + b),
    "magnitude": (lambda t, b: calor.abs(t - b), lambda a, b: np.abs(a - b)),
}
_ALONG: Final = ("column", "row", "all", "one", "first", "outer")
_READERS: Final = ("one", "kept", "sum", "max", "turned", "moved")


def _sparse(rng: Rng, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return zeros and few ones of either sign, whose sums stay exact in types of few digits."""
    chosen = rng.choice((-1, 0, 0, 0, 1), shape)
    return np.asarray(chosen).astype(dtype.numpy)


def _other(rng: Rng, dtype: DType, shape: tuple[int, ...], along: str) -> Array:
    """Return an operand that broadcasts along some axes of a result."""
    rank = len(shape)
    kept = {
        "column": {rank - 1}, "row": {rank - 2}, "all": set(range(rank)), "one": set(),
        "first": {0}, "outer": set(range(rank - 1)),
    }[along]  # fmt: skip
    sizes = tuple(n if k in kept else 1 for k, n in enumerate(shape))
    return np.asarray(rng.integers(-3, 4, sizes)).astype(dtype.numpy)


def _read(reader: str, before: Any, after: Any, lib: Any) -> list[Any]:
    """Return results: what is behind, perhaps with the large op's own, or reduced or moved."""
    match reader:
        case "kept":
            return [after, before]
        case "sum":
            return [after, lib.sum(after)]
        case "max":
            return [lib.max(after)]
        case "turned":
            return [lib.turned(after) + 1]
        case "moved":
            return [lib.moved(after), after]
    return [after]


class _Calor:
    """The functions of readers on a device, in the dtype of their operand."""

    @staticmethod
    def sum(t: Any) -> Any:
        """Return the sums along the last axis."""
        return calor.sum(t, axis=-1, dtype=t.dtype)

    @staticmethod
    def max(t: Any) -> Any:
        """Return the largest along the axis before the last."""
        return calor.max(t, axis=-2, keepdims=True)

    @staticmethod
    def turned(t: Any) -> Any:
        """Return the last two axes in the other order."""
        return calor.matrix_transpose(t)

    @staticmethod
    def moved(t: Any) -> Any:
        """Return every other element, from the last on."""
        return m.flip(t, axes=(t.ndim - 1,))[..., ::2]


class _Numpy:
    """The same in NumPy."""

    @staticmethod
    def sum(a: Array) -> Array:
        """Return the sums along the last axis."""
        return np.asarray(np.sum(a, -1))

    @staticmethod
    def max(a: Array) -> Array:
        """Return the largest along the axis before the last."""
        return np.asarray(np.max(a, -2, keepdims=True))

    @staticmethod
    def turned(a: Array) -> Array:
        """Return the last two axes in the other order."""
        return np.swapaxes(a, -1, -2)

    @staticmethod
    def moved(a: Array) -> Array:
        """Return every other element, from the last on."""
        return a[..., ::-1][..., ::2]


def _around(
    scenario: Scenario,
    rng: Rng,
    dtype: DType,
    arrays: list[Array],
    run: Callable[..., Any],
    meaning: Callable[..., Array],
    shape: tuple[int, ...],
) -> Problem:
    """Return a problem of a large op of two operands with work before and behind."""
    prepared = _BEFORE[scenario["left"]], _BEFORE[scenario["right"]]
    behind = [_BEHIND[str(name)] for name in rng.choice(list(_BEHIND), scenario["steps"])]
    others = [
        _other(rng, dtype, shape, scenario["along"] if not k else str(rng.choice(_ALONG)))
        for k in range(len(behind))
    ]
    reader = scenario["reader"]

    def ours(a: Any, b: Any, *more: Any) -> list[Any]:
        made = last = run(prepared[0][0](a), prepared[1][0](b))
        for (step, _), other in zip(behind, more, strict=True):
            last = step(last, other)
        return _read(reader, made, last, _Calor)

    def theirs() -> list[Array]:
        a, b = (wide(x) for x in arrays)
        made = last = meaning(prepared[0][1](a), prepared[1][1](b))
        for (_, step), other in zip(behind, others, strict=True):
            last = step(last, wide(other))
        return [np.asarray(r) for r in _read(reader, made, last, _Numpy)]

    count = len(_read(reader, np.zeros((1, 1)), np.zeros((1, 1)), _Numpy))
    return Problem([*arrays, *others], ours, theirs, [dtype] * count, zeros=False, slope=False)


def _product(scenario: Scenario, rng: Rng, dtype: DType) -> Problem | None:
    rows, columns, depth = scenario["rows"], scenario["columns"], scenario["depth"]
    if dtype.itemsize == 2 and depth * max(rows, columns) > 10_000:
        return None
    lead = (scenario["batch"],) * bool(scenario["batch"])
    a_shape, b_shape = (*lead, rows, depth), (*lead, depth, columns)
    if scenario["operands"] == "shared":
        b_shape = b_shape[len(lead) :]
    turned = scenario["operands"] == "turned"
    b_shape = (*b_shape[:-2], columns, depth) if turned else b_shape

    def run(a: Any, b: Any) -> Any:
        return calor.matmul(a, calor.matrix_transpose(b) if turned else b)

    def meaning(a: Array, b: Array) -> Array:
        return np.asarray(np.matmul(a, np.swapaxes(b, -1, -2) if turned else b))

    arrays = [_sparse(rng, dtype, s) for s in (a_shape, b_shape)]
    return _around(scenario, rng, dtype, arrays, run, meaning, (*lead, rows, columns))


def _convolution(scenario: Scenario, rng: Rng, dtype: DType) -> Problem | None:
    """A convolution, perhaps of groups, with work around it, and perhaps windows behind."""
    groups, inner, outer = scenario["groups"]
    side, k = scenario["side"], scenario["window"]
    room, stride, dilation = scenario["padding"], scenario["stride"], scenario["dilation"]
    how: dict[str, Any] = {
        "window": (k, k), "stride": (stride, stride), "padding": ((room, room), (0, room)),
        "dilation": (dilation, 1),
    }  # fmt: skip
    sizes = (side, side + 3)
    counts = outputs(sizes, how)
    if min(counts) < 1:
        return None
    given = {name: how[name] for name in ("stride", "padding", "dilation")}
    pools = scenario["pool"] and min(counts) > 1

    def run(a: Any, b: Any) -> Any:
        made = find("conv")(a, b, groups=groups, **given)
        return find("window_reduce")(made, kind="max", **_TWO) if pools else made

    def meaning(a: Array, b: Array) -> Array:
        made = convolved(a, b, how, groups)
        return pooled(made, _TWO, "max") if pools else made

    shape = (scenario["batch"], groups * outer, *(outputs(counts, _TWO) if pools else counts))
    arrays = [
        _sparse(rng, dtype, s)
        for s in ((scenario["batch"], groups * inner, *sizes), (groups * outer, inner, k, k))
    ]
    return _around(scenario, rng, dtype, arrays, run, meaning, shape)


_TWO: Final[dict[str, Any]] = {
    "window": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1),
}  # fmt: skip
_TYPES: Final = (float32, bfloat16, float16, float64, int32)
_WORK: Final[dict[str, Any]] = {
    "left": tuple(_BEFORE), "right": tuple(_BEFORE), "along": _ALONG, "steps": (1, 0, 2, 3),
    "reader": _READERS, "mode": ("jit", "again", "kept"),
}  # fmt: skip

SUBJECTS: list[Subject] = [
    Subject("dot_general", _product, _TYPES,
            {"rows": _SIDES, "columns": _SIDES, "depth": _SIDES, "batch": (0, 2, 3),
             "operands": ("plain", "turned", "shared"), **_WORK},
            {"depth": (1500,), "rows": (1025,)}, name="with-work-around"),
    Subject("conv", _convolution, _TYPES,
            {"side": (9, 14, 28, 5), "window": (3, 1, 2), "stride": (1, 2), "dilation": (1, 2),
             "padding": (1, 0, 2), "groups": ((1, 3, 8), (1, 16, 16), (8, 1, 1), (2, 4, 3)),
             "batch": (2, 1), "pool": (False, True), **_WORK}, name="with-work-around"),
]  # fmt: skip
