"""Further ways to call functions: more axes, dtypes, orders and defaults of what NumPy has too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import as_dtype

from ..language import Array
from .definitions import quantile
from .drawing import (
    Arguments,
    Rng,
    a_shape,
    an_axis,
    coin,
    counts,
    different,
    fitting,
    floats,
    numbers,
    whole,
)

Function = Callable[..., Any]


def _axes(rng: Rng, rank: int) -> tuple[int, ...] | int | None:
    """Return some axes, one axis or None, counted from either end."""
    if coin(rng):
        return None if rng.random() < 0.3 else an_axis(rng, rank)
    chosen = rng.permutation(rank)[: int(rng.integers(1, rank + 1))]
    return tuple(int(a) - (rank if coin(rng) else 0) for a in chosen)


def _narrow(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Return small integers of any width, or truths."""
    kind = str(rng.choice(("bool", "int8", "uint8", "int16", "uint32", "int64")))
    return np.asarray(rng.integers(0, 5, shape), kind)


def _with_nan(rng: Rng, shape: tuple[int, ...]) -> Array:
    made = floats(rng, shape)
    special = np.array([np.nan, np.inf, -np.inf], np.float32)
    return np.where(rng.random(shape) < 0.2, rng.choice(special, shape), made)


def _over(numbers: Callable[[Rng, tuple[int, ...]], Array]) -> Callable[[Rng], Arguments]:
    """Return what draws a tensor, some axes, and whether they stay."""

    def draw(rng: Rng) -> Arguments:
        shape = a_shape(rng, 1)
        return [numbers(rng, shape)], {"axis": _axes(rng, len(shape)), "keepdims": coin(rng)}

    return draw


def _corrected(rng: Rng) -> Arguments:
    given, options = _over(floats)(rng)
    return given, {**options, "correction": float(rng.choice((0.0, 0.5)))}


def _one_axis(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis = None if rng.random() < 0.3 else an_axis(rng, len(shape))
    return [floats(rng, shape)], {"axis": axis, "keepdims": coin(rng)}


def _levels(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    level: Any = np.round(rng.random(2), 2).astype(np.float32) if coin(rng) else 0.25
    method = str(rng.choice(("linear", "lower", "higher", "midpoint", "nearest")))
    options = {"axis": _axes(rng, len(shape)), "keepdims": coin(rng), "method": method}
    return [different(rng, shape), level], options


def _cumulative(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [numbers(rng, shape)], {"axis": an_axis(rng, len(shape)), "include_initial": coin(rng)}


def _ordered(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [different(rng, shape)], {"axis": an_axis(rng, len(shape)), "descending": coin(rng)}


def _ordering(of: Function) -> Function:
    def meaning(x: Array, *, axis: int, descending: bool) -> Any:
        return of(-x, axis=axis) * (-1 if of is np.sort else 1) if descending else of(x, axis=axis)

    return meaning


def _shifts(rng: Rng) -> Arguments:
    shape = a_shape(rng, 2)
    axes = tuple(int(a) for a in rng.permutation(len(shape))[:2] - len(shape))
    return [numbers(rng, shape), tuple(rng.integers(-4, 5, 2).tolist())], {"axis": axes}


def _each_time(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis = an_axis(rng, len(shape))
    return [numbers(rng, shape), rng.integers(0, 4, shape[axis])], {"axis": axis}


def _within(rng: Rng) -> Arguments:
    ends = sorted(float(n) for n in rng.integers(-3, 4, 2))
    bounds = [None if rng.random() < 0.3 else end for end in ends]
    return [
        floats(rng, a_shape(rng)),
        *([0.0, *bounds[1:]] if bounds == [None] * 2 else bounds),
    ], {}


def _replaced(rng: Rng) -> Arguments:
    ends = {"nan": 7.0, "posinf": 11.0 if coin(rng) else None, "neginf": None}
    return [_with_nan(rng, a_shape(rng))], ends


def _replacing(x: Array, **ends: Any) -> Array:
    # The largest numbers are those of the narrow dtype.
    return np.asarray(np.nan_to_num(x.astype(np.float32), **ends))


def _digits(rng: Rng) -> Arguments:
    return [floats(rng, a_shape(rng))], {"decimals": int(rng.integers(-1, 3))}


def _halves(rng: Rng) -> Arguments:
    """Return whole numbers at, and beside, the middle of two multiples of a power of ten."""
    shape, digits = a_shape(rng), int(rng.integers(1, 4))
    unit = 10**digits
    beside = rng.choice([0, 1, unit // 2 - 1, unit // 2, unit // 2, unit // 2 + 1], shape)
    made = rng.integers(-30, 30, shape) * unit + beside
    return [np.asarray(made, np.int32)], {"decimals": -digits}


def _rows(rng: Rng) -> Arguments:
    """Return a tensor with equal slices along an axis, and others that share some elements.

    Each line along the axis has few numbers, or each number once, so that the numbers of a slice
    are of any rank beside those of the other slices, up to the last one.
    """
    shape = [int(n) for n in rng.integers(1, 6, int(rng.integers(1, 4)))]
    axis = an_axis(rng, len(shape))
    count = shape[axis] = int(rng.integers(2, 7))
    x = rng.integers(0, 3, shape)
    if coin(rng):
        x = rng.permuted(np.indices(shape)[axis], axis=axis)
    kept = np.arange(count) if coin(rng) else rng.integers(0, count, count)
    return [np.take(x, kept, axis).astype(np.int32)], {"axis": axis}


def _unique(kinds: str) -> Function:
    """Return the meaning of a function that gives some of values, places, inverse and counts."""

    def meaning(x: Array, *, axis: int) -> Any:
        found = np.unique(x, axis=axis, return_index=True, return_inverse=True, return_counts=True)
        return tuple(np.asarray(found["vpic".index(k)]) for k in kinds)

    return meaning


def _sized(rng: Rng) -> Arguments:
    size = int(rng.integers(1, 9))
    return [counts(rng, a_shape(rng, 1)) % 3], {"size": size, "fill_value": -2}


def _places(x: Array, *, size: int, fill_value: int) -> Any:
    return tuple(
        np.concatenate([at, np.full(size, fill_value)])[:size].astype(np.int64)
        for at in np.nonzero(x)
    )


def _lines_of_places(x: Array, **given: Any) -> Array:
    return np.stack(_places(x, **given), 1)


def _weighted(rng: Rng) -> Arguments:
    line = counts(rng, (int(rng.integers(1, 9)),))
    return [line, floats(rng, line.shape)], {"minlength": int(rng.integers(0, 12))}


def _with_sorter(rng: Rng) -> Arguments:
    line = floats(rng, (int(rng.integers(2, 9)),))
    sides = {"side": str(rng.choice(("left", "right"))), "sorter": np.argsort(line)}
    return [line, floats(rng, a_shape(rng))], sides


def _ends(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis = an_axis(rng, len(shape))
    more = list(shape)
    more[axis] = int(rng.integers(1, 3))
    options = {"axis": axis, "n": int(rng.integers(1, 3))}
    given = {name: floats(rng, tuple(more)) for name in ("prepend", "append") if coin(rng)}
    return [floats(rng, shape)], {**options, **given}


_MODES: Final = ("constant", "reflect", "symmetric", "edge", "wrap")


def _bordered(rng: Rng) -> Arguments:
    shape = tuple(int(n) for n in rng.integers(3, 6, int(rng.integers(1, 4))))
    wide = [tuple(p) for p in rng.integers(0, 3, (len(shape), 2)).tolist()]
    return [numbers(rng, shape), wide], {"mode": str(rng.choice(_MODES))}


def _filled(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    wide = [tuple(p) for p in rng.integers(0, 3, (len(shape), 2)).tolist()]
    return [floats(rng, shape), wide], {"value": float(rng.integers(-3, 4))}


def _filling(x: Array, wide: Any, *, value: float) -> Array:
    return np.pad(x, wide, constant_values=value)


def _new_axes(rng: Rng) -> Arguments:
    shape = a_shape(rng, 0, 2)
    rank = len(shape) + 2
    axes = rng.permutation(rank)[:2]
    return [floats(rng, shape)], {"axis": tuple(int(a) - (rank if coin(rng) else 0) for a in axes)}


def _multiplied(rng: Rng) -> Arguments:
    """Return operands of matmul: vectors, matrices, and stacks that broadcast."""
    lead = a_shape(rng, 0, 2)
    m, k, n = (int(v) for v in rng.choice((1, 2, 3, 5), 3))
    left = (*fitting(rng, lead), m, k) if rng.random() < 0.8 else (k,)
    right = (*fitting(rng, lead), k, n) if rng.random() < 0.8 else (k,)
    kind = floats if coin(rng) else whole
    return [kind(rng, left), kind(rng, right)], {}


def _contracted(rng: Rng) -> Arguments:
    """Return two tensors and the axes over which they are summed."""
    sizes = [int(n) for n in rng.choice((2, 3, 4), 2)]
    count = int(rng.integers(0, 3))
    left, right = list(a_shape(rng, 1, 2)), list(a_shape(rng, 1, 2))
    if coin(rng):
        shapes = (*left, *sizes[:count]), (*sizes[:count], *right)
        return [floats(rng, shapes[0]), floats(rng, shapes[1]), count], {}
    axes: tuple[list[int], list[int]] = ([], [])
    for shape, chosen in ((left, axes[0]), (right, axes[1])):
        places = sorted(int(p) for p in rng.permutation(len(shape) + count)[:count])
        for place, size in zip(places, sizes, strict=False):
            shape.insert(place, size)
            chosen.append(place)
    return [floats(rng, tuple(left)), floats(rng, tuple(right)), axes], {}


def _summed(rng: Rng) -> Arguments:
    """Return a formula of Einstein's convention and its operands."""
    sizes = dict(zip("ijkl", (int(n) for n in rng.choice((1, 2, 3, 4), 4)), strict=True))
    names = []
    for _ in range(int(rng.integers(1, 4))):
        letters = rng.permutation(list("ijkl"))[: int(rng.integers(1, 4))].tolist()
        if rng.random() < 0.2:
            letters.append(letters[0])
        names.append("".join(letters))
    there = sorted(set("".join(names)))
    kept = rng.permutation(there)[: int(rng.integers(0, len(there) + 1))].tolist()
    operands = [floats(rng, tuple(sizes[c] for c in name)) for name in names]
    return [f"{','.join(names)}->{''.join(kept)}", *operands], {}


def _implied(rng: Rng) -> Arguments:
    """Return a formula that names no result: letters that come once, in their order."""
    formula, *operands = _summed(rng)[0]
    return [formula.partition("->")[0], *operands], {}


def _to_shape(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    return [numbers(rng, fitting(rng, shape)), shape], {}


def _cut(rng: Rng) -> Arguments:
    """Return a tensor and another shape of as many elements, perhaps with one left open."""
    shape = a_shape(rng)
    size = int(np.prod(shape))
    wide = int(rng.choice([n for n in range(1, size + 1) if size % n == 0]))
    wanted = [wide, size // wide, 1][: int(rng.integers(2, 4))]
    if coin(rng):
        wanted[int(rng.integers(2))] = -1
    return [numbers(rng, shape), tuple(wanted)], {}


def _turned(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    return [numbers(rng, shape), *([tuple(rng.permutation(len(shape)).tolist())] * coin(rng))], {}


def _shapes(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    return [fitting(rng, shape), shape, fitting(rng, shape)], {}


def _of_shape(rng: Rng) -> Arguments:
    return [a_shape(rng)], {}


def _near(rng: Rng) -> Arguments:
    x = _with_nan(rng, a_shape(rng))
    step = np.float32(rng.choice((0.0, 1e-6, 1e-3)))
    return [x, np.where(np.isfinite(x), x * (1 + step), x)], {"rtol": 1e-4, "equal_nan": coin(rng)}


def _equal(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    x = counts(rng, shape) % 2
    return [x, x if coin(rng) else counts(rng, fitting(rng, shape)) % 2], {}


def _moved(rng: Rng) -> Arguments:
    """Return numbers and counts of places by which their bits are moved."""
    shape = a_shape(rng)
    return [whole(rng, shape), rng.integers(0, 8, fitting(rng, shape)).astype(np.int32)], {}


def _powers(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    return [np.abs(floats(rng, shape)) + np.float32(0.1), floats(rng, fitting(rng, shape))], {}


def _positive(rng: Rng) -> Arguments:
    return [np.abs(floats(rng, a_shape(rng))) + np.float32(1.01)], {}


def _within_one(rng: Rng) -> Arguments:
    return [rng.uniform(-0.95, 0.95, a_shape(rng)).astype(np.float32)], {}


def _some_whole(rng: Rng) -> Arguments:
    """Numbers of an integer dtype, for which a function of reals computes in a floating one."""
    return [counts(rng, a_shape(rng)) + 1], {}


def _outer(rng: Rng) -> Arguments:
    return [int(n) for n in rng.integers(1, 6, 1)], {"k": int(rng.integers(-3, 4))}


def _one_end(rng: Rng) -> Arguments:
    return [int(rng.integers(-2, 7))], {}


def _whole_steps(rng: Rng) -> Arguments:
    kind = str(rng.choice(("int32", "float32", "float64")))
    ends = [float(n) for n in rng.integers(-9, 10, 2)]
    options = {"num": int(rng.integers(0, 6)), "dtype": np.dtype(kind), "endpoint": coin(rng)}
    return ends, options


def _spaced(start: float, stop: float, *, num: int, dtype: Any, endpoint: bool) -> Any:
    return calor.linspace(start, stop, num, dtype=as_dtype(dtype), endpoint=endpoint)


# The names of functions, what tells their way from others, and how their arguments are drawn.
WAYS: Final[tuple[tuple[str, str, Callable[[Rng], Arguments]], ...]] = (
    ("all any count_nonzero max mean median min prod sum", "over axes", _over(floats)),
    ("all any count_nonzero max min", "of special numbers", _over(_with_nan)),
    ("mean prod sum max min any all", "of narrow numbers", _over(_narrow)),
    ("std var", "corrected", _corrected),
    ("argmax argmin", "kept", _one_axis), ("quantile", "by method", _levels),
    ("cumulative_sum cumulative_prod", "with the first", _cumulative),
    ("sort argsort", "both ways", _ordered),
    ("roll", "several", _shifts), ("repeat", "each", _each_time), ("clip", "within", _within),
    ("nan_to_num", "to others", _replaced), ("round", "digits", _digits),
    ("round", "to tens", _halves),
    ("unique_values unique_counts unique_inverse unique_all", "along", _rows),
    ("nonzero argwhere", "sized", _sized), ("bincount", "weighted", _weighted),
    ("searchsorted", "sorter", _with_sorter), ("diff", "with ends", _ends),
    ("pad", "by mode", _bordered), ("pad", "by value", _filled),
    ("expand_dims", "several", _new_axes), ("flip squeeze", "over axes", _over(numbers)),
    ("matmul", "", _multiplied), ("tensordot", "", _contracted), ("einsum", "", _summed),
    ("einsum", "implied", _implied),
    ("broadcast_to", "", _to_shape), ("reshape", "", _cut), ("transpose", "", _turned),
    ("broadcast_shapes", "", _shapes), ("ones zeros", "", _of_shape),
    ("allclose isclose", "near", _near), ("array_equal", "", _equal),
    ("bitwise_left_shift bitwise_right_shift", "", _moved), ("pow atan2 nextafter", "", _powers),
    ("acosh log log10 log1p log2 reciprocal", "", _positive),
    ("acos asin atan atanh asinh sinh cosh sin tan exp2", "", _within_one),
    ("log log2 log10 log1p sin cosh sqrt exp2 acosh atan asinh expm1 sinc", "of integers",
     _some_whole),
    ("eye", "square", _outer), ("arange", "to an end", _one_end),
    ("linspace", "whole", _whole_steps),
)  # fmt: skip


def _squeezed(x: Array, *, axis: Any, keepdims: bool) -> Any:
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    ones = tuple(a for a in axes if x.shape[a] == 1)
    return np.squeeze(x, ones)


def _squeezing(x: Any, *, axis: Any, keepdims: bool) -> Any:
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return calor.squeeze(x, axis=tuple(a for a in axes if x.shape[a] == 1))


OURS: Final[dict[str, Function]] = {
    "linspace-whole": _spaced,
    "nonzero-sized": lambda x, **given: calor.nonzero(x, **given),
    "flip-over axes": lambda x, axis, keepdims: calor.flip(x, axis=axis),
    "squeeze-over axes": _squeezing,
}
THEIRS: Final[dict[str, Function]] = {
    "quantile-by method": quantile,
    "nextafter": lambda x, y: np.nextafter(*(t.astype(np.float32) for t in (x, y))),
    "sort-both ways": _ordering(np.sort), "argsort-both ways": _ordering(np.argsort),
    "nan_to_num-to others": _replacing,
    "unique_values-along": _unique("v"), "unique_counts-along": _unique("vc"),
    "unique_inverse-along": _unique("vi"), "unique_all-along": _unique("vpic"),
    "nonzero-sized": _places, "argwhere-sized": _lines_of_places, "pad-by value": _filling,
    "flip-over axes": lambda x, axis, keepdims: np.flip(x, axis), "squeeze-over axes": _squeezed,
}  # fmt: skip
