"""Entrances of host arrays, crossed with their layouts: the numbers come in as they are.

An array enters as a tensor, into a tensor, a file, a state, a pickle or another library's capsule,
and each entrance reads memory by its own code. Layouts are compositions: strides that are negative,
zero or swapped, bytes in the other order, memory that may not be written, sizes of zero and none.
Afterwards the array is as it was, and later writes to it do not change what came in.
"""

from __future__ import annotations

import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import as_dtype, float32

from .base import Array, Check, Place

CONTRACT: Final = "a host array enters with its numbers, by every way and in every layout"
_TURNS: Final = 340
_KINDS: Final = ("float32", "float64", "float16", "int8", "int32", "int64", "uint8", "uint16",
                 "uint32", "bool", "complex64")  # fmt: skip
_SHAPES: Final = ((), (3,), (2, 3), (4, 1), (1, 3), (2, 3, 2), (0,), (0, 3), (2, 0, 2), (5, 4))
Rng = np.random.Generator


def _swapped(a: Array, rng: Rng) -> Array:
    axes = rng.permutation(a.ndim)
    return a.transpose(axes).copy().transpose(np.argsort(axes))


def _turned(a: Array, rng: Rng) -> Array:
    """Some axes run backwards."""
    at = tuple(slice(None, None, -1 if rng.random() < 0.6 else 1) for _ in a.shape)
    return a[at].copy()[at] if a.ndim else a


def _stepped(a: Array, rng: Rng) -> Array:
    """Each axis is a part of a longer one."""
    steps = [int(n) for n in rng.integers(1, 4, a.ndim)]
    wide = np.zeros([n * s + 1 for n, s in zip(a.shape, steps, strict=True)], a.dtype)
    at = tuple(slice(1, None, s) if s > 1 else slice(1, None) for s in steps)
    if not a.ndim:
        return a
    part = wide[at][tuple(slice(n) for n in a.shape)]
    part[...] = a
    return part


def _broadcast(a: Array, rng: Rng) -> Array:
    """An axis, or all, repeat one number in the same memory."""
    if not a.size or not a.ndim:
        return a
    axis = int(rng.integers(a.ndim))
    one = a[(slice(None),) * axis + (slice(0, 1),)]
    return np.broadcast_to(one if rng.random() < 0.7 else one.reshape(-1)[0], a.shape)


def _other_order(a: Array, rng: Rng) -> Array:
    return a.astype(a.dtype.newbyteorder(">" if np.little_endian else "<"), order="K")


def _read_only(a: Array, rng: Rng) -> Array:
    made = a.view()
    made.setflags(write=False)
    return made


def _unaligned(a: Array, rng: Rng) -> Array:
    raw = np.frombuffer(b"\1" + a.tobytes(), a.dtype, a.size, 1).reshape(a.shape)
    return raw if rng.random() < 0.5 else raw.view()


def _by_columns(a: Array, rng: Rng) -> Array:
    return np.asfortranarray(a)


_LAYOUTS: Final[dict[str, Callable[[Array, Rng], Array]]] = {
    "swapped axes": _swapped, "backwards": _turned, "steps": _stepped, "broadcast": _broadcast,
    "the other byte order": _other_order, "read-only": _read_only, "unaligned": _unaligned,
    "by columns": _by_columns,
}  # fmt: skip


def _through_file(tree: Any) -> Any:
    file = io.BytesIO()
    calor.save(tree, file)
    file.seek(0)
    return calor.load(file)


def _array_file(a: Array) -> Any:
    """A file of NumPy, which keeps the order of axes and bytes."""
    file = io.BytesIO()
    np.save(file, a)
    file.seek(0)
    return calor.load(file)


def _set(a: Array) -> Any:
    made = calor.zeros(a.shape, dtype=as_dtype(a.dtype))
    made[...] = a
    return made


def _set_part(a: Array) -> Any:
    """A write to the middle of a longer tensor."""
    made = calor.zeros((3, *a.shape), dtype=as_dtype(a.dtype))
    made[1] = a
    return made[1]


def _jitted_set(a: Array) -> Any:
    def write(t: Any, x: Any) -> Any:
        made = t * 1 if as_dtype(a.dtype).kind != "bool" else ~t
        made[...] = x
        return made

    return calor.jit(write)(calor.zeros(a.shape, dtype=as_dtype(a.dtype)), a)


def _dlpack(a: Array) -> Any:
    """What NumPy cannot lend, it refuses itself."""
    try:
        return calor.from_dlpack(a)
    except (BufferError, TypeError, RuntimeError, ValueError):
        return None


def _shared(a: Array) -> Any:
    """Memory is shared where it can be; else that is refused."""
    try:
        return calor.asarray(a, copy=False) + calor.zeros((), dtype=as_dtype(a.dtype))
    except (ValueError, TypeError):
        return None


def _loaded(a: Array) -> Any:
    """The state of a module, by its names."""
    nn = import_module("calor_nn")
    module = nn.Module()
    module.w = calor.zeros(a.shape, dtype=as_dtype(a.dtype))
    module.load_state_dict({"w": a})
    return module.w


_ENTRANCES: Final[dict[str, Callable[[Array], Any]]] = {
    "asarray": calor.asarray, "asarray, copied": lambda a: calor.asarray(a, copy=True),
    "asarray of another dtype": lambda a: calor.asarray(a, dtype=as_dtype(a.dtype)),
    "a list": lambda a: calor.asarray([a], dtype=as_dtype(a.dtype))[0], "shared": _shared,
    "save": lambda a: calor.asarray(_through_file({"a": [a, 1]})["a"][0]),
    "save of a tensor": lambda a: _through_file([calor.asarray(a)])[0], "np.save": _array_file,
    "a pickle": lambda a: pickle.loads(pickle.dumps(calor.asarray(a))),
    "from_dlpack": _dlpack, "set": _set, "set of a part": _set_part, "a jitted set": _jitted_set,
    "an argument": lambda a: calor.jit(lambda x: calor.reshape(x, x.shape))(a),
    "a captured array": lambda a: calor.jit(lambda x: calor.asarray(a))(calor.zeros(1)),
    "an operand": lambda a: calor.where(calor.ones(a.shape, dtype="bool"), a, a),
    "stack": lambda a: calor.stack([calor.asarray(a), calor.asarray(a)])[1],
}  # fmt: skip


def _turn(rng: Rng, kinds: list[str], name: str) -> None:
    kind = kinds[int(rng.integers(len(kinds)))]
    shape = _SHAPES[int(rng.integers(len(_SHAPES)))]
    numbers = rng.integers(0, 90, shape)
    given = np.asarray(numbers % 2 > 0 if kind == "bool" else numbers).astype(kind)
    layouts = [str(n) for n in rng.choice(list(_LAYOUTS), int(rng.integers(1, 4)), replace=False)]
    for layout in layouts:
        given = _LAYOUTS[layout](given, rng)
    want = np.array(given, np.dtype(kind), order="C", subok=False)
    what = f"{name} of {given.dtype.str}{list(shape)}: {', '.join(layouts)}"
    strides, before = given.strides, given.tobytes()
    got = (_ENTRANCES | _OF_MODULES)[name](given)
    if got is None:
        return
    assert given.tobytes() == before, f"{what}: the array changed"
    assert given.strides == strides, f"{what}: the array's layout changed"
    assert got.dtype is as_dtype(kind), f"{what}: {got.dtype}, not {kind}"
    held = got.numpy().copy()
    assert held.shape == want.shape, f"{what}: shape {held.shape}, not {want.shape}"
    assert np.array_equal(held, want), f"{what}: {held.tolist()}, not {want.tolist()}"
    if given.flags.writeable and given.size and name != "shared":
        given[...] = ~want if kind == "bool" else 1 - want
        later = got.numpy()
        assert np.array_equal(later, want), f"{what}: a later write to the array shows"


_OF_MODULES: Final[dict[str, Callable[[Array], Any]]] = {"load_state_dict": _loaded}


def _run(place: Place) -> None:
    kinds = [k for k in _KINDS if place.plain.info.dtypes.get(as_dtype(k))]
    names = [*_ENTRANCES, *(_OF_MODULES if find_spec("calor_nn") is not None else ())]
    for turn in range(_TURNS):
        rng = np.random.default_rng([place.seed, 409, turn])
        _turn(rng, kinds, names[turn % len(names)])


def entrances_of_arrays() -> Iterator[Check]:
    """Yield the check of entrances of host arrays."""
    yield Check(
        kind="transfers",
        subject="entrances-of-host-arrays",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _turn),
        op="equal",
        dtypes=(float32,),
        looks=True,
    )
