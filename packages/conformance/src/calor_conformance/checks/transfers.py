"""Moving arrays: up, down, to other devices, through DLPack; for every dtype there is."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor.dtypes import ALL, DType
from calor.specs import Spec, spec

from ..rows.domains import special
from .base import Array, Place, compiled, plain_array, plain_type
from .contract import Contracts

contract = Contracts("transfers")
# Around what a device may move at a time, and beyond it.
LARGE = (4097, 65_537, (1 << 20) + 3)
SHAPES = ((), (0,), (1,), (7,), (2, 3), (2, 0, 3), (1, 2, 1, 3), (2, 1, 2, 1, 2))


def every_bit(dtype: DType) -> Array:
    """Return numbers of a dtype that no conversion on the way would leave as they are."""
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
    for size in LARGE:
        array = (np.arange(size) * 37 % 101).astype(plain_type().numpy)
        got = calor.asarray(array).numpy()
        wrong = np.flatnonzero(got != array)
        assert not wrong.size, f"element {wrong[0]} of {size} is {got[wrong[0]]}"


@contract("a copy has memory of its own, and the same bits", looks=False)
def copies(place: Place) -> None:
    device, array = place.plain, plain_array([1, 2, 3])
    backend, index, known = device.backend, device.index, spec((3,), plain_type())
    buffer = backend.upload(index, array)
    copied = backend.copy(index, buffer, known, index)
    assert copied is not buffer, "the copy is the buffer itself"
    _same(place, copied, known, array)
    if device.info.feature("in_place"):
        x = calor.asarray(array)
        negate = compiled(place, calor.trace(lambda x: -x, x))
        negate([backend.upload(index, plain_array([7, 8, 9]))], [copied])
        _same(place, buffer, known, array)


def _same(place: Place, buffer: Any, known: Spec, want: Array) -> None:
    got = np.array(place.plain.backend.download(place.plain.index, buffer, known))
    assert got.tolist() == want.tolist(), f"{got}, not {want}"


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


CHECKS = contract.checks
