"""Functions of calor-numerics that arrange, edit and multiply: splits, stacks, diagonals, grids."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import (
    Arguments,
    Rng,
    a_length,
    a_shape,
    an_axis,
    coin,
    counts,
    fitting,
    floats,
    numbers,
    of_one,
)
from .language import Function, Row


def _cut(rng: Rng, least: int, axis: int | None) -> tuple[Array, Any, int]:
    """Return a tensor, and counts or places at which an axis is cut into even parts."""
    shape = [int(n) for n in rng.choice((2, 4, 6), int(rng.integers(least, 4)))]
    along = an_axis(rng, len(shape)) if axis is None else axis
    places: Any = 2 if coin(rng) else sorted(int(n) for n in rng.integers(0, 5, 2))
    return numbers(rng, tuple(shape)), places, along


def _even(least: int) -> Callable[[Rng], Arguments]:
    return lambda rng: (list(_cut(rng, least, 0)[:2]), {})


def _uneven(rng: Rng) -> Arguments:
    x, places, axis = _cut(rng, 1, None)
    return [x, int(rng.integers(1, 6)) if coin(rng) else places], {"axis": axis}


def _stacked(least: int) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        shape = a_shape(rng, least, max(least, 2))
        return [[numbers(rng, shape) for _ in range(int(rng.integers(1, 4)))]], {}

    return drawn


def _turned(rng: Rng) -> Arguments:
    shape = a_shape(rng, 2)
    axes = tuple(int(a) for a in rng.permutation(len(shape))[:2])
    return [numbers(rng, shape), int(rng.integers(-5, 6))], {"axes": axes}


def _matrices(rng: Rng) -> Arguments:
    return [floats(rng, a_shape(rng, 0, 2)) for _ in range(int(rng.integers(1, 4)))], {}


def _block_diag(*arrays: Array) -> Array:
    blocks = [np.atleast_2d(a) for a in arrays]
    made = np.zeros(tuple(np.sum([b.shape for b in blocks], 0)), blocks[0].dtype)
    row = column = 0
    for b in blocks:
        made[row : row + b.shape[0], column : column + b.shape[1]] = b
        row, column = row + b.shape[0], column + b.shape[1]
    return made


def _line_or_grid(rng: Rng) -> Arguments:
    return [floats(rng, a_shape(rng, 1, 2))], {"k": int(rng.integers(-6, 7))}


def _embedded(rng: Rng) -> Arguments:
    x = floats(rng, a_shape(rng, 1))
    axes = (int(a) - x.ndim - 1 for a in rng.permutation(x.ndim + 1)[:2])
    return [x], {
        "offset": int(rng.integers(-3, 4)),
        **dict(zip(("axis1", "axis2"), axes, strict=True)),
    }


def _embed(x: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    n = x.shape[-1] + abs(offset)
    made = np.zeros((*x.shape[:-1], n, n), x.dtype)
    places = np.arange(x.shape[-1])
    made[..., places + max(-offset, 0), places + max(offset, 0)] = x
    return np.moveaxis(made, (-2, -1), (axis1, axis2))


def _on_diagonal(rng: Rng) -> Arguments:
    shape = a_shape(rng, 2)
    axes = tuple(int(a) for a in rng.permutation(len(shape))[:2])
    return [floats(rng, shape)], {
        "offset": int(rng.integers(-3, 4)), "axis1": axes[0], "axis2": axes[1],
    }  # fmt: skip


def _scattered(rng: Rng) -> Arguments:
    (x,), options = _on_diagonal(rng)
    return [x, floats(rng, np.diagonal(x, *options.values()).shape)], options


def _scatter(x: Array, values: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    made = x.copy()
    view = np.moveaxis(made, (axis1, axis2), (-2, -1))
    places = np.arange(values.shape[-1])
    view[..., places + max(-offset, 0), places + max(offset, 0)] = values
    return made


def _filled(rng: Rng) -> Arguments:
    rows, columns = (int(n) for n in rng.choice((1, 2, 3, 5), 2))
    return [floats(rng, (rows, columns)), np.float32(7.5)], {}


def _fill(x: Array, value: Any) -> Array:
    made = x.copy()
    np.fill_diagonal(made, value)
    return made


def _triangle(rng: Rng) -> Arguments:
    return [int(rng.integers(1, 6)), int(rng.integers(1, 6))], {"k": int(rng.integers(-5, 6))}


def _places(of: Function) -> Function:
    return lambda rows, columns, *, k: of(rows, k, columns)


def _edited(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis = None if rng.random() < 0.3 else an_axis(rng, len(shape))
    n = int(np.prod(shape)) if axis is None else shape[axis]
    where: Any = int(rng.integers(-n, n))
    if coin(rng):
        where = [int(v) for v in rng.integers(-n, n, int(rng.integers(0, 3)))]
    if rng.random() < 0.2:
        where = slice(int(rng.integers(0, n)), None, int(rng.integers(1, 3)))
    return [numbers(rng, shape), where], {"axis": axis}


def _inserted(rng: Rng) -> Arguments:
    (x, where), options = _edited(rng)
    if isinstance(where, slice) or where == []:
        where = 0
    return [x.astype(np.float32), where, np.float32(2.5)], options


def _chosen(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    many = int(rng.integers(1, 4))
    choices = [floats(rng, fitting(rng, shape)) for _ in range(many)]
    return [np.asarray(rng.integers(0, many, shape), np.int32), choices], {}


def _selected(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    many = int(rng.integers(1, 4))
    conditions = [rng.random(shape) < 0.5 for _ in range(many)]
    return [conditions, [floats(rng, shape) for _ in range(many)], 2.5], {}


def _flags(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [rng.random(shape) < 0.5], {"axis": None if coin(rng) else an_axis(rng, len(shape))}


def _bytes(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis = None if coin(rng) else an_axis(rng, len(shape))
    x = np.where(rng.random(shape) < 0.3, 255, rng.integers(0, 256, shape)).astype(np.uint8)
    return [x], {"axis": axis, "count": None if coin(rng) else int(rng.integers(1, 9))}


def _grid(rng: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 4)))), a_shape(rng)


def _raveled(rng: Rng) -> Arguments:
    shape, lead = _grid(rng)
    return [tuple(rng.integers(0, n, lead) for n in shape), shape], {}


def _unraveled(rng: Rng) -> Arguments:
    shape, lead = _grid(rng)
    return [np.asarray(rng.integers(0, int(np.prod(shape)), lead)), shape], {}


def _two_lines(rng: Rng) -> Arguments:
    lines = [floats(rng, (max(a_length(rng), 1),)) for _ in range(2)]
    return [*lines, str(rng.choice(("full", "same", "valid")))], {}


def _operands(first: str, second: str) -> Callable[[Rng], Arguments]:
    """Return what draws two operands by the letters of their last axes."""

    def drawn(rng: Rng) -> Arguments:
        sizes = {c: a_length(rng) for c in first + second}
        lead = a_shape(rng, 0, 1)
        one = (*lead, *(sizes[c] for c in first))
        other = (*fitting(rng, lead), *(sizes[c] for c in second))
        return [floats(rng, one), floats(rng, other)], {}

    return drawn


def _dotted(rng: Rng) -> Arguments:
    n = a_length(rng)
    return [floats(rng, (*a_shape(rng, 0, 1), n)), floats(rng, (*a_shape(rng, 0, 1), n))], {}


_ORDERS: Final = (0.0, 0.5, 1.0, 2.0, 3.0, float("inf"))


def _apart(two: bool) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        d, (m, n) = int(rng.integers(1, 4)), (max(a_length(rng), 1) for _ in range(2))
        given = [floats(rng, (m, d)), floats(rng, (n, d))] if two else [floats(rng, (m, d))]
        return given, {"p": float(rng.choice(_ORDERS))}

    return drawn


def _distances(a: Array, b: Array, *, p: float) -> Array:
    off: Any = np.abs(a[:, None] - b[None])
    if p == 0:
        return np.asarray((off != 0).sum(-1), float)
    return np.asarray(off.max(-1) if p == np.inf else (off**p).sum(-1) ** (1 / p))


def _pairs(a: Array, *, p: float) -> Array:
    return _distances(a, a, p=p)[np.triu_indices(len(a), 1)]


def _combined(rng: Rng) -> Arguments:
    options = {"with_replacement": coin(rng)}
    return [floats(rng, (int(rng.integers(2, 6)),)), int(rng.integers(1, 3))], options


def _combinations(x: Array, r: int, *, with_replacement: bool) -> Array:
    of: Any = (
        itertools.combinations_with_replacement if with_replacement else itertools.combinations
    )
    return np.array([x[list(at)] for at in of(range(len(x)), r)])


def _polynomials(rng: Rng) -> Arguments:
    return [floats(rng, (int(rng.integers(1, 5)),)) for _ in range(2)], {}


def _derived(rng: Rng) -> Arguments:
    return [floats(rng, (int(rng.integers(1, 6)),)), int(rng.integers(0, 4))], {}


def _runs(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [counts(rng, shape) % 2], {"axis": None if coin(rng) else an_axis(rng, len(shape))}


def _consecutive(x: Array, *, axis: int | None) -> Any:
    lines = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    new = [n == 0 or bool((lines[n] != lines[n - 1]).any()) for n in range(len(lines))]
    inverse = np.cumsum(new, dtype=np.int64) - 1
    found = lines[np.array(new, bool)]
    values = found if axis is None else np.moveaxis(found, 0, axis)
    if axis is None:
        inverse = inverse.reshape(x.shape)
    return values, inverse, np.bincount(inverse.ravel()).astype(np.int64)


def _consecutive_fields(package: Any, x: Any, **options: Any) -> Any:
    made = package.unique_consecutive(x, **options)
    return made.values, made.inverse_indices, made.counts


_UPDATES: Final = ("add", "mul", "max", "min", "mean")


def _updated(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis = an_axis(rng, len(shape))
    places = rng.integers(-shape[axis], shape[axis], int(rng.integers(1, 4)))
    values = list(shape)
    values[axis] = len(places)
    options = {"axis": axis, "update": str(rng.choice(_UPDATES)), "include_self": coin(rng)}
    return [floats(rng, shape), places, floats(rng, tuple(values))], options


def _update(
    x: Array, places: Array, values: Array, *, axis: int, update: str, include_self: bool
) -> Array:
    made, rows = np.moveaxis(x, axis, 0).copy(), np.moveaxis(values, axis, 0)
    of: dict[str, Function] = {
        "add": np.sum, "mul": np.prod, "max": np.max, "min": np.min, "mean": np.mean,
    }  # fmt: skip
    for place in range(len(made)):
        chosen = [rows[n] for n, at in enumerate(places) if at % len(made) == place]
        if chosen:
            parts = [made[place], *chosen] if include_self else chosen
            made[place] = of[update](np.stack(parts), axis=0)
    return np.moveaxis(made, 0, axis)


def _masked(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    mask = rng.random(shape) < float(rng.choice((0.0, 0.5, 1.0)))
    return [floats(rng, shape), mask, floats(rng, (int(np.prod(shape)),))], {}


def _mask(x: Array, mask: Array, values: Array) -> Array:
    made = np.array(x)
    made[mask] = values[: int(mask.sum())]
    return made


def _stepped(rng: Rng) -> Arguments:
    x = floats(rng, a_shape(rng, 1))
    return [x * np.float32(3)], {"axis": an_axis(rng, x.ndim)}


# Zeros beside an operand are multiplied, too.
_PADDED: Final = "nan infinite"
ROWS: Final[list[Row]] = [
    *(Row(name, of_one(numbers), getattr(np, name))
      for name in ("atleast_1d", "atleast_2d", "atleast_3d")),
    Row("fliplr", of_one(numbers, 2), np.fliplr), Row("flipud", of_one(numbers, 1), np.flipud),
    Row("array_split", _uneven, np.array_split),
    *(Row(name, _even(least), getattr(np, name)) for name, least in (("vsplit", 2),)),
    Row("hsplit", lambda rng: (list(_cut(rng, 2, 1)[:2]), {}), np.hsplit),
    Row("dsplit", lambda rng: (list(_cut(rng, 3, 2)[:2]), {}), np.dsplit),
    *(Row(name, _stacked(0), getattr(np, name)) for name in ("dstack", "hstack", "vstack")),
    Row("column_stack", _stacked(1), np.column_stack), Row("rot90", _turned, np.rot90),
    Row("block_diag", _matrices, _block_diag, without="short"),
    Row("block", lambda rng: ([[[(x := numbers(rng, a_shape(rng, 2, 2))), x], [x, x]]], {}),
        np.block),
    Row("diag", _line_or_grid, np.diag), Row("diag_embed", _embedded, _embed),
    Row("diagonal", _on_diagonal, np.diagonal),
    Row("diagonal_scatter", _scattered, _scatter), Row("fill_diagonal", _filled, _fill),
    Row("tri", _triangle, lambda n, m, *, k: np.tri(n, m, k, np.float32)),
    Row("tril_indices", _triangle, _places(np.tril_indices)),
    Row("triu_indices", _triangle, _places(np.triu_indices)),
    Row("diag_indices", lambda rng: ([int(rng.integers(1, 6)), 3], {}), np.diag_indices),
    Row("delete", _edited, np.delete, without="short"),
    Row("insert", _inserted, np.insert, without="short"),
    Row("choose", _chosen, np.choose), Row("select", _selected, np.select),
    Row("packbits", _flags, np.packbits), Row("unpackbits", _bytes, np.unpackbits, without="short"),
    Row("ravel_multi_index", _raveled, np.ravel_multi_index),
    Row("unravel_index", _unraveled, np.unravel_index),
    Row("indices", lambda rng: ([a_shape(rng, 1)], {}), np.indices),
    Row("ix_", lambda rng: ([counts(rng, (int(n),)) for n in rng.integers(1, 4, 2)], {}), np.ix_),
    Row("vander", lambda rng: ([floats(rng, (3,)), 4], {"increasing": coin(rng)}), np.vander),
    Row("convolve", _two_lines, np.convolve, moves=True, smooth=True, without=_PADDED),
    Row("correlate", _two_lines, np.correlate, moves=True, smooth=True, without=_PADDED),
    Row("unwrap", _stepped, np.unwrap, without="infinite large ties equal limits"),
    Row("dot", lambda rng: ([floats(rng, (2, (n := a_length(rng)))), floats(rng, (n, 3))], {}),
        np.dot, moves=True, smooth=True),
    Row("inner", _dotted, np.inner, moves=True, smooth=True),
    Row("outer", lambda rng: ([floats(rng, a_shape(rng)), floats(rng, a_shape(rng))], {}),
        np.outer),
    Row("kron", lambda rng: ([floats(rng, a_shape(rng, 1, 2)),
        floats(rng, a_shape(rng, 1, 2))], {}), np.kron, smooth=True),
    Row("matvec", _operands("mn", "n"), np.matvec, moves=True, smooth=True),
    Row("vecmat", _operands("m", "mn"), np.vecmat, moves=True, smooth=True),
    Row("cdist", _apart(True), _distances, moves=True, smooth=True),
    Row("pdist", _apart(False), _pairs, moves=True, smooth=True),
    Row("combinations", _combined, _combinations),
    Row("polyadd", _polynomials, np.polyadd), Row("polysub", _polynomials, np.polysub),
    Row("polymul", _polynomials, np.convolve, moves=True, without=_PADDED),
    Row("polyder", _derived, np.polyder), Row("polyint", _derived, np.polyint),
    Row("polyval", _polynomials, np.polyval, moves=True, smooth=True),
    Row("unique_consecutive", _runs, _consecutive, call=_consecutive_fields),
    Row("index_update", _updated, _update, moves=True, smooth=True),
    Row("masked_scatter", _masked, _mask),
]  # fmt: skip
