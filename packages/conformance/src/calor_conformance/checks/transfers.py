"""Transfers: uploads, downloads, copies to other devices and DLPack, for every dtype."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import calor
from calor.dtypes import ALL, DType
from calor.graph.graph import Graph
from calor.specs import Spec, spec

from ..rows.domains import special
from .base import Array, Place, compiled, plain_array, plain_type
from .contract import Contracts

contract = Contracts("transfers")
# Around what a device may move at a time, and beyond it.
LARGE = (4097, 65_537, (1 << 20) + 3)
SHAPES = ((), (0,), (1,), (7,), (2, 3), (2, 0, 3), (1, 2, 1, 3), (2, 1, 2, 1, 2))


def every_bit(dtype: DType) -> Array:
    """Return numbers of a dtype that any conversion would change."""
    if dtype.itemsize == 1:
        bits = np.arange(2 if dtype is calor.bool_ else 256, dtype=np.uint8)
        return bits.view(dtype.numpy)
    return special(dtype)


@contract("what is uploaded is downloaded bit by bit", of=ALL, looks=False)
def round_trip(place: Place, dtype: DType) -> None:
    numbers = every_bit(dtype)
    got = calor.asarray(numbers).numpy()
    assert got.dtype == numbers.dtype, f"{got.dtype}, not {numbers.dtype}"
    assert got.tobytes() == numbers.tobytes(), f"{got!r}\nnot\n{numbers!r}"


@contract(
    "arrays of ranks 0 to 5, empty ones too, keep their shape and numbers", of=ALL, looks=False
)
def shapes(place: Place, dtype: DType) -> None:
    numbers = every_bit(dtype)
    for shape in SHAPES:
        array = np.resize(numbers, shape)
        got = calor.asarray(array).numpy()
        assert got.shape == shape, f"{got.shape}, not {shape}"
        assert got.tobytes() == array.tobytes(), f"at shape {shape}"


@contract("arrays of many bytes arrive whole, whatever a device moves at a time", looks=False)
def large(place: Place) -> None:
    most = place.plain.info.limits.get("max_buffer_bytes", 1 << 40)
    for size in (n for n in LARGE if n * plain_type().itemsize <= most):
        array = (np.arange(size) * 37 % 101).astype(plain_type().numpy)
        got = calor.asarray(array).numpy()
        wrong = np.flatnonzero(got != array)
        assert not wrong.size, f"element {wrong[0]} of {size} is {got[wrong[0]]}"


@contract(
    "values go to wait on the host and come back while programs run; each has memory of its own",
    looks=False,
)
def waiting_on_the_host(place: Place) -> None:
    device = place.plain
    backend, index = device.backend, device.index
    rng = np.random.default_rng([place.seed, 11])
    sizes = [1, *rng.integers(2, 5000, 2), 40_000 + int(rng.integers(0, 9000))]
    values = {int(n): rng.integers(-50, 50, n).astype(plain_type().numpy) for n in sizes}
    known = {n: spec((n,), plain_type()) for n in values}
    twice = {n: compiled(place, _doubled(known[n])) for n in values}
    there = {n: backend.upload(index, array) for n, array in values.items()}
    away = {n: backend.offload(index, buffer, known[n]) for n, buffer in there.items()}
    for n, array in away.items():
        same = array.dtype == values[n].dtype and array.tolist() == values[n].tolist()
        assert same, f"{n} elements went to the host as others"
        array[...] = 0
        kept = np.array(backend.download(index, there[n], known[n]))
        assert kept.tolist() == values[n].tolist(), f"{n} elements are shared with the host"
    # They come back before the host has seen that they were gone.
    gone = {n: backend.unload(index, buffer, known[n]) for n, buffer in there.items()}
    there = {n: backend.load(index, array) for n, array in gone.items()}
    backend.loaded(index, [*there.values()])
    backend.unloaded(index)
    for n, array in gone.items():
        assert array.tolist() == values[n].tolist(), f"{n} elements came to the host as others"
        kept = np.array(backend.download(index, there[n], known[n]))
        assert kept.tolist() == values[n].tolist(), f"{n} elements went and came back as others"
    rooms = {n: backend.host_array(index, array.nbytes) for n, array in values.items()}
    for n, room in rooms.items():
        assert (room.dtype, room.shape) == (np.uint8, (values[n].nbytes,)), f"{room.dtype}"
        room[...] = values[n].view(np.uint8)
    held = {n: room.view(plain_type().numpy) for n, room in rooms.items()}
    # They are under way in one order, and read in another.
    order = list(values)
    loads = {n: backend.load(index, held[n]) for n in order}
    for here in order[1::-1] + order[2:]:
        backend.loaded(index, [loads[here]])
        (made,) = twice[here]([loads[here]])
        got = np.array(backend.download(index, made, known[here]))
        wrong = np.flatnonzero(got != 2 * values[here])
        assert not wrong.size, f"element {wrong[0]} of {here} that came is {got[wrong[0]]}"
    last = backend.load(index, held[order[0]])
    backend.loaded(index)
    (made,) = twice[order[0]]([last])
    got = np.array(backend.download(index, made, known[order[0]]))
    assert got.tolist() == (2 * values[order[0]]).tolist(), "what came for all is read"


def _doubled(known: Spec) -> Graph:
    return calor.trace(lambda x: x + x, calor.zeros(known.shape, dtype=known.dtype))


@contract(
    "a copy, to the same device or another of the backend, has memory of its own and the same bits",
    looks=False,
)
def copies(place: Place) -> None:
    backend, index = place.plain.backend, place.plain.index
    array, known = plain_array([1, 2, 3]), spec((3,), plain_type())
    for target in range(backend.enumerate()):
        buffer = backend.upload(index, array)
        copied = backend.copy(index, buffer, known, target)
        assert copied is not buffer, "the copy is the buffer itself"
        for _ in range(2):
            got = np.array(backend.download(target, copied, known))
            assert got.tolist() == array.tolist(), f"on device {target}: {got}, not {array}"
            if target != index:
                copied, target = backend.copy(target, copied, known, index), index
    if place.plain.info.feature("in_place"):
        x = calor.asarray(array)
        negate = compiled(place, calor.trace(lambda x: -x, x))
        copied = backend.copy(index, buffer, known, index)
        negate([backend.upload(index, plain_array([7, 8, 9]))], [copied])
        got = np.array(backend.download(index, buffer, known))
        assert got.tolist() == array.tolist(), f"what was copied is written over: {got}"


_COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": lambda x: x.copy(),
    "asarray": lambda x: calor.asarray(x, copy=True),
    "astype": lambda x: calor.astype(x, x.dtype),
    "from_dlpack": lambda x: calor.from_dlpack(x, copy=True),
    "index": lambda x: x[...],
    "reshape": lambda x: calor.reshape(x, x.shape),
    "expand": lambda x: calor.broadcast_to(x, x.shape),
    "transpose": lambda x: calor.permute_dims(x, tuple(range(x.ndim))),
    "host": lambda x: calor.asarray(np.array(x.numpy())),
}


@contract("whichever way a tensor is copied, a write to the one leaves the other")
def ways_to_copy(place: Place) -> None:
    array = plain_array([[1, 2, 3], [4, 5, 6]])
    for name, way in _COPIES.items():
        for first in (True, False):
            x = calor.asarray(array)
            if first:
                x = x * 1
            made = way(x)
            written, other = (made, x) if first else (x, made)
            with warnings.catch_warnings():
                # Writes to views say that they are none.
                warnings.simplefilter("ignore")
                written += 10
            assert written.tolist() == (array + 10).tolist(), f"{name}: {written}"
            assert other.tolist() == array.tolist(), f"{name}: the other tensor became {other}"


@contract("what was downloaded stays when the tensor has died, and others come", looks=False)
def views_outlive_tensors(place: Place) -> None:
    double = calor.jit(lambda x: x * 2)
    views = [double(calor.asarray(plain_array([n, n + 1]))).numpy() for n in range(20)]
    others = [double(calor.asarray(plain_array([90, 90]))) for _ in range(20)]
    for n, view in enumerate(views):
        assert view.tolist() == [2 * n, 2 * n + 2], f"view {n} shows {view}"
    del others


@contract("upload copies: the host array may change afterwards", looks=False)
def snapshot(place: Place) -> None:
    array = plain_array(np.arange(6))
    tensor = calor.asarray(array)
    array[:] = -1
    assert tensor.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@contract("host arrays with any strides arrive in row-major order", looks=False)
def strides(place: Place) -> None:
    base = plain_array(np.arange(24)).reshape(4, 6)
    for view in (
        base.T,
        base[::-1],
        base[:, ::-2],
        base[1:3, 2:5],
        np.broadcast_to(base[0], (3, 6)),
    ):
        assert calor.asarray(view).tolist() == view.tolist()


@contract("a downloaded array cannot change the tensor", looks=False)
def downloads(place: Place) -> None:
    tensor = calor.asarray(plain_array(np.arange(4)))
    array = tensor.numpy()
    if array.flags.writeable:
        array[:] = -1
    copied = np.array(array)
    copied[:] = -2
    assert tensor.tolist() == [0.0, 1.0, 2.0, 3.0]


@contract("results download while other work is pending")
def interleaved(place: Place) -> None:
    x = calor.asarray(plain_array(np.arange(5)))
    for n in range(8):
        y = x + x
        assert x.tolist() == [float(i * 2**n) for i in range(5)]
        x = y


@contract("copies to another device and back are the same bits", looks=False)
def to_another_device(place: Place) -> None:
    x = calor.asarray(every_bit(plain_type()))
    there = x.to("numpy")
    assert there.numpy().tobytes() == x.numpy().tobytes()
    back = there.copy().to(place.device)
    assert back.device == place.device
    assert back.numpy().tobytes() == x.numpy().tobytes()


@contract("buffers go through DLPack and keep their numbers", features=("dlpack",), tier="full")
def dlpack(place: Place) -> None:
    if place.plain.backend.dlpack_device(place.plain.index)[0] != 1:
        return  # Another library of that device would have to read it.
    with calor.device(place.plain):
        x = calor.asarray(plain_array(np.arange(6)).reshape(2, 3)) * 2
        array = np.from_dlpack(x)
        assert array.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]
        x += 1
        assert array.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]], "an export was overwritten"
        exported = [np.from_dlpack(calor.asarray(plain_array([n, n])) * 2) for n in range(20)]
        for n, array in enumerate(exported):
            assert array.tolist() == [2 * n, 2 * n], f"an export is {array} after its tensor died"


# DLPack's codes of kinds of numbers, and of the dtypes that have codes of their own.
_CODES = {"int": 0, "uint": 1, "float": 2, "complex": 5, "bool": 6}
_OWN_CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}


class _Described(ctypes.Structure):
    """The head of a DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
    )  # fmt: skip


@contract(
    "DLPack says the dtype by the standard's number", of=ALL, features=("dlpack",), tier="full"
)
def dlpack_types(place: Place, dtype: DType) -> None:
    x = calor.asarray(np.ones((2, 3), dtype.numpy))
    capsule = x.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    told = _Described.from_address(pointer(capsule, b"dltensor"))
    want = (_OWN_CODES.get(dtype.name, _CODES.get(dtype.kind)), 8 * dtype.itemsize, 1)
    assert (told.code, told.bits, told.lanes) == want, f"{(told.code, told.bits, told.lanes)}"
    assert [told.shape[k] for k in range(told.rank)] == [2, 3]


CHECKS = contract.checks
