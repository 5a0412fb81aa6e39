"""Arrays of the host in any layout: byte order, strides, alignment, views and subclasses.

An array as a file, a table or another program left it is taken as its numbers are, wherever calor
takes arrays: as a tensor, an operand, an index, a value to write, and its dtype as a dtype. What is
computed with it is computed with a plain copy, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import as_dtype, float32, int64

from .base import Array, Check, Place

CONTRACT: Final = "an array of the host is its numbers, whatever its bytes' order and places are"
_TURNS: Final = 90
_NUMBERS: Final = ("float32", "float64", "float16", "int16", "int32", "int64", "uint16", "uint32",
                   "uint64", "complex64", "int8", "bool")  # fmt: skip
Rng = np.random.Generator


class _Named(np.ndarray[Any, Any]):
    """A subclass, as libraries of tables and units have one."""


def _other_order(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder(">" if np.little_endian else "<"))


def _unaligned(array: Array) -> Array:
    raw = b"\1" + array.tobytes()
    return np.frombuffer(raw, array.dtype, array.size, 1).reshape(array.shape)


def _field(array: Array) -> Array:
    table = np.zeros(array.shape, [("flag", "i1"), ("number", array.dtype), ("rest", "f8")])
    table["number"] = array
    return table["number"]


def _stepped(array: Array) -> Array:
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., 1::2] = array
    return wide[..., 1::2]


def _packed_field(array: Array) -> Array:
    """Unaligned, stepped and of the other order at once."""
    return _field(_other_order(array))


def _read_only(array: Array) -> Array:
    made = array.copy()
    made.setflags(write=False)
    return made


def _repeated(array: Array) -> Array:
    """Each row is the first one, in the same memory."""
    return np.broadcast_to(array[:1], array.shape)


_LAYOUTS: Final[dict[str, Callable[[Array], Array]]] = {
    "the other byte order": _other_order, "no alignment": _unaligned, "a field": _field,
    "every second": _stepped, "a field of the other byte order": _packed_field,
    "backwards": lambda a: a[::-1].copy()[::-1], "by columns": np.asfortranarray,
    "read-only": _read_only, "one row many times": _repeated,
    "a subclass": lambda a: a.view(_Named),
    "the other byte order, backwards": lambda a: _other_order(a[::-1])[::-1],
    "a subclass of the other byte order": lambda a: _other_order(a).view(_Named),
}  # fmt: skip


def _written(x: Any, a: Any) -> Any:
    made = x * 1
    made[...] = a
    return made


def _row_written(x: Any, a: Any) -> Any:
    made = x * 1
    made[1] = a[0]
    return made


# A function of a tensor of the array's shape and dtype, and of the array.
_WAYS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "asarray": lambda x, a: calor.asarray(a),
    "asarray as float32": lambda x, a: calor.asarray(a, dtype=float32),
    "asarray, copied": lambda x, a: calor.asarray(a, copy=True),
    "a list of rows": lambda x, a: calor.asarray(list(a)),
    "x == a": lambda x, a: x == a, "where": lambda x, a: calor.where(x == x, a, x),
    "a == x": lambda x, a: calor.equal(a, x), "concat": lambda x, a: calor.concat([x, a]),
    "x[...] = a": _written, "x[1] = a[0]": _row_written,
    "an element": lambda x, a: calor.asarray(a[0, 0]),
    "of no axes": lambda x, a: calor.asarray(a[:1, :1].reshape(())),
    "the dtype": lambda x, a: calor.zeros(2, dtype=a.dtype),
    "astype": lambda x, a: x.astype(a.dtype), "full": lambda x, a: calor.full((2,), a[0, 1]),
    "jitted": lambda x, a: calor.jit(lambda t: t == x)(a),
    "of a tree": lambda x, a: calor.jit(lambda held: calor.asarray(held["a"][0]))({"a": [a]}),
}  # fmt: skip
_INDEX_WAYS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "x[i]": lambda x, i: x[i], "take": lambda x, i: calor.take(x, i, axis=0),
    "x[:, i]": lambda x, i: x[:, i], "x[i, i]": lambda x, i: x[i, i],
    "repeat": lambda x, i: calor.repeat(x, abs(i) % 3, axis=0),
}  # fmt: skip


def _compare(made: Any, want: Any, what: str) -> None:
    assert made.dtype is want.dtype, f"{what}: {made.dtype}, not {want.dtype}"
    got, wanted = made.numpy(), want.numpy()
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, not {wanted.shape}"
    assert np.array_equal(got, wanted), f"{what}: {got.tolist()}, not {wanted.tolist()}"


def _numbers(rng: Rng, kind: str) -> Array:
    shape = tuple(int(n) for n in rng.integers(2, 5, 2))
    made = rng.integers(-90, 91, shape)
    if kind.startswith("u"):
        made = abs(made)
    scaled = made / 4 if kind.startswith(("float", "complex")) else made
    return np.asarray(scaled % 2 > 0.5 if kind == "bool" else scaled).astype(kind)


def _turn(rng: Rng, kinds: list[str], layout: str) -> None:
    if rng.random() < 0.25:
        name = str(rng.choice(list(_INDEX_WAYS)))
        integers = [k for k in kinds if k.startswith(("int", "uint"))]
        plain = np.asarray(rng.integers(0, 3, (3, 2)), str(rng.choice(integers)))
        given: Any = _LAYOUTS[layout](plain)
        plain = np.ascontiguousarray(given).astype(plain.dtype).view(np.ndarray)[:, 0]
        given, way = given[:, 0], _INDEX_WAYS[name]
        x = calor.asarray(np.asarray(rng.normal(size=(3, 3)), np.float32))
    else:
        name = str(rng.choice(list(_WAYS)))
        first = _numbers(rng, str(rng.choice(kinds)))
        given, way = _LAYOUTS[layout](first), _WAYS[name]
        plain = np.array(given, first.dtype, order="C", subok=False)
        x = calor.asarray(plain[::-1].copy() if name.startswith("x[") else plain.copy())
    before = given.tobytes()
    what = f"{name} of {layout}, {given.dtype.str}{list(given.shape)}"
    _compare(way(x, given), way(x, plain), what)
    assert given.tobytes() == before, f"{what}: the array changed"


def _dtypes(kinds: list[str]) -> None:
    """A dtype of NumPy in the other byte order, or a string that says so, is that dtype."""
    for kind in kinds:
        orders: tuple[Any, ...] = ("<", ">", "=")
        for order in orders:
            host = np.dtype(kind).newbyteorder(order)
            for given in (host, host.str, host.type):
                found = as_dtype(given)
                assert found is as_dtype(kind), f"as_dtype({given!r}) is {found}, not {kind}"


def _run(place: Place) -> None:
    kinds = [k for k in _NUMBERS if place.plain.info.dtypes.get(as_dtype(k))]
    _dtypes(kinds)
    layouts = list(_LAYOUTS)
    for turn in range(_TURNS):
        rng = np.random.default_rng([place.seed, 184, turn])
        with np.errstate(all="ignore"):
            _turn(rng, kinds, layouts[turn % len(layouts)])


def host_arrays() -> Iterator[Check]:
    """Yield the check of arrays of the host."""
    yield Check(
        kind="transfers",
        subject="host-arrays",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _turn),
        op="equal",
        dtypes=(float32, int64),
        looks=True,
    )
