"""Functions of a tensor, an index array and values, each beside what NumPy makes of them.

The oracle counts places in numbers of 64 bits, so it has no offset that an index's type cannot
hold. Indices of a function have a form: a vector along an axis, an array beside the tensor, or rows
of one index for each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor

from .base import Array

# Of a tensor, indices and values, along an axis.
Function = Callable[[Any, Any, Any, int], Any]
_UFUNCS: Final = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
KINDS: Final = ("assign", *_UFUNCS)


@dataclass(frozen=True)
class Indexed:
    """A function of indices.

    ``form``: "vector", "along" or "points". ``function`` and ``meaning``: of tensors, and of arrays
    with indices of 64 bits. ``values``: whether the shape of the values is that of a read
    ("read"), of the indices with the width behind ("rows"), or there are none (""). ``axes``:
    whether the axis may be another one than the first. ``negative``: whether indices may count from
    the end. ``many``: whether axes may have many thousands of elements. ``apart``: whether no two
    name one place. ``linear``: whether it is linear in tensor and values. ``static``: whether the
    shape of the result depends on no value. ``package``: what it needs.
    """

    form: str
    function: Function
    meaning: Callable[[Array, Array, Array, int], Any]
    values: str = ""
    axes: bool = False
    negative: bool = True
    many: bool = True
    apart: bool = False
    linear: bool = True
    static: bool = True
    package: str = "calor"


def _layers() -> Any:
    return import_module("calor_nn.functional")


# What NumPy makes of it.
def _at(i: Array, axis: int) -> tuple[Any, ...]:
    return (*(slice(None) for _ in range(axis)), i)


def _columns(i: Array) -> tuple[Array, ...]:
    return tuple(np.moveaxis(i, -1, 0))


def _written(x: Array, places: Any, u: Array, kind: str) -> Array:
    made = np.array(x)
    if kind == "assign":
        made[places] = u
    else:
        _UFUNCS[kind].at(made, places, u)
    return made


def _beside(i: Array, axis: int) -> tuple[Array, ...]:
    grid: list[Array] = list(np.indices(i.shape))
    grid[axis] = i
    return tuple(grid)


def _segments(u: Array, i: Array, length: int) -> Array:
    return _written(np.zeros((length, *u.shape[1:]), u.dtype), i, u, "add")


def _flat(x: Array, i: Array, u: Array, kind: str) -> Array:
    return _written(x.reshape(-1), i, u, kind).reshape(x.shape)


def _block(x: Array, i: Array) -> tuple[slice, ...]:
    first = min(int(i[0]), len(x) - 2)
    return (slice(first, first + 2),)


# What tensors make of it.
def _set(x: Any, i: Any, u: Any, axis: int, add: bool = False) -> Any:
    made = x * 1
    key = (*(slice(None) for _ in range(axis)), i)
    made[key] = made[key] + u if add else u
    return made


def _searched(x: Any, i: Any, u: Any, axis: int) -> Any:
    """Take at places that a search found, in the type of the indices."""
    order = calor.arange(x.shape[0], dtype=calor.float32)
    places = calor.searchsorted(order, calor.astype(i, calor.float32))
    return calor.take(x, calor.astype(places, i.dtype), axis=0)


def _starts(i: Any) -> Any:
    return calor.concat([i[:1], calor.zeros_like(i[:1])])


_READS: Final[dict[str, Indexed]] = {
    "take": Indexed(
        "vector", lambda x, i, u, axis: calor.take(x, i, axis=axis),
        lambda x, i, u, axis: np.take(x, i, axis), axes=True,
    ),
    "take-of-all": Indexed(
        "vector", lambda x, i, u, axis: calor.take(calor.reshape(x, (-1,)), i),
        lambda x, i, u, axis: x.reshape(-1)[i],
    ),
    "item": Indexed(
        "vector", lambda x, i, u, axis: x[_at(i, axis)], lambda x, i, u, axis: x[_at(i, axis)],
        axes=True,
    ),
    "item-of-two": Indexed(
        "points", lambda x, i, u, axis: x[i[..., 0], i[..., 1]],
        lambda x, i, u, axis: x[_columns(i)],
    ),
    "take_along_axis": Indexed(
        "along", lambda x, i, u, axis: calor.take_along_axis(x, i, axis=axis),
        lambda x, i, u, axis: np.take_along_axis(x, i, axis), axes=True,
    ),
    "gather_nd": Indexed(
        "points", lambda x, i, u, axis: calor.gather_nd(x, i),
        lambda x, i, u, axis: x[_columns(i)],
    ),
    "searchsorted": Indexed(
        "vector", _searched, lambda x, i, u, axis: x[i], negative=False,
    ),
    "choose": Indexed(
        "along", lambda x, i, u, axis: calor.choose(i[0], x),
        lambda x, i, u, axis: np.take_along_axis(x, i[:1], 0)[0], many=False,
    ),
    "dynamic_slice": Indexed(
        "vector", lambda x, i, u, axis: calor.dynamic_slice(x, _starts(i), (2, x.shape[1])),
        lambda x, i, u, axis: x[_block(x, i)], negative=False,
    ),
    "repeat": Indexed(
        "vector", lambda x, i, u, axis: calor.repeat(x[: i.shape[0]], i % 120, axis=0),
        lambda x, i, u, axis: np.repeat(x[: len(i)], i % 120, 0), negative=False, static=False,
    ),
    "delete": Indexed(
        "vector", lambda x, i, u, axis: calor.delete(x, i, axis=0),
        lambda x, i, u, axis: np.delete(x, i, 0), static=False, apart=True,
    ),
    "embedding": Indexed(
        "vector", lambda x, i, u, axis: _layers().embedding(i, x),
        lambda x, i, u, axis: x[i], package="calor_nn",
    ),
    "embedding_bag": Indexed(
        "vector", lambda x, i, u, axis: _layers().embedding_bag(
            calor.stack([i, i]), x, mode="sum"),
        lambda x, i, u, axis: np.stack([x[i].sum(0)] * 2), package="calor_nn",
    ),
    "nll_loss": Indexed(
        "along", lambda x, i, u, axis: _layers().nll_loss(
            calor.permute_dims(x, (1, 0)), i[0], reduction="none"),
        lambda x, i, u, axis: -np.take_along_axis(x, i[:1], 0)[0], negative=False,
        package="calor_nn",
    ),
}  # fmt: skip


def _updates(kind: Any) -> dict[str, Indexed]:
    """Return what combines values with places, for one kind of update."""
    apart, linear = kind == "assign", kind == "add"
    return {
        f"index_update-{kind}": Indexed(
            "vector", lambda x, i, u, axis: calor.index_update(x, i, u, axis=axis, update=kind),
            lambda x, i, u, axis: np.moveaxis(
                _written(np.moveaxis(x, axis, 0), i, np.moveaxis(u, axis, 0), kind), 0, axis),
            "read", axes=True, apart=apart, linear=linear,
        ),
        f"scatter_along_axis-{kind}": Indexed(
            "along", lambda x, i, u, axis: calor.scatter_along_axis(x, i, u, axis, update=kind),
            lambda x, i, u, axis: _written(x, _beside(i, axis), u, kind),
            "read", axes=True, apart=apart, linear=linear,
        ),
        f"scatter_nd-{kind}": Indexed(
            "points", lambda x, i, u, axis: calor.scatter_nd(x, i, u, update=kind),
            lambda x, i, u, axis: _written(x, _columns(i), u, kind),
            "read", apart=apart, linear=linear,
        ),
        f"put-{kind}": Indexed(
            "vector", lambda x, i, u, axis: calor.put(x, i, u[:, 0], update=kind),
            lambda x, i, u, axis: _flat(x, i, u[:, 0], kind), "rows", apart=apart, linear=linear,
        ),
    }  # fmt: skip


_WRITES: Final[dict[str, Indexed]] = {
    "item-assigned": Indexed(
        "vector", _set, lambda x, i, u, axis: _written(x, _at(i, axis), u, "assign"),
        "read", axes=True, apart=True, linear=False,
    ),
    "item-added": Indexed(
        "vector", lambda x, i, u, axis: _set(x, i, u, axis, add=True),
        lambda x, i, u, axis: _written(x, _at(i, axis), u, "add"),
        "read", axes=True, apart=True,
    ),
    "dynamic_update_slice": Indexed(
        "vector", lambda x, i, u, axis: calor.dynamic_update_slice(x, u[:2], _starts(i)),
        lambda x, i, u, axis: _written(x, _block(x, i), u[:2], "assign"),
        "rows", negative=False, linear=False,
    ),
    "segment_sum": Indexed(
        "vector", lambda x, i, u, axis: calor.segment_sum(u, i, x.shape[0]) + x * 0,
        lambda x, i, u, axis: _segments(u, i, len(x)), "rows", negative=False,
    ),
    "bincount": Indexed(
        "vector", lambda x, i, u, axis: calor.bincount(i, u[:, 0], length=x.shape[0]) + x[0, 0] * 0,
        lambda x, i, u, axis: _segments(u[:, 0], i, len(x)), "rows", negative=False,
    ),
}  # fmt: skip
_PLACES: Final[dict[str, Indexed]] = {
    "unravel_index": Indexed(
        "vector", lambda x, i, u, axis: calor.stack(calor.unravel_index(i, x.shape)),
        lambda x, i, u, axis: np.stack(np.unravel_index(i, x.shape)), negative=False, linear=False,
    ),
    "ravel_multi_index": Indexed(
        "points",
        lambda x, i, u, axis: calor.ravel_multi_index((i[..., 0], i[..., 1]), x.shape),
        lambda x, i, u, axis: np.asarray(np.ravel_multi_index(_columns(i), x.shape)),
        negative=False, linear=False,
    ),
    "one_hot": Indexed(
        "vector", lambda x, i, u, axis: _layers().one_hot(i, x.shape[0]),
        lambda x, i, u, axis: (i[..., None] == np.arange(len(x))).astype(np.int64),
        negative=False, linear=False, package="calor_nn",
    ),
}  # fmt: skip
FUNCTIONS: Final[Mapping[str, Indexed]] = {
    **_READS,
    **{name: made for kind in KINDS for name, made in _updates(kind).items()},
    **_WRITES,
    **_PLACES,
}
