"""Moving arrays: up, down, to other devices, through DLPack; for every dtype there is."""

from __future__ import annotations

import numpy as np

import calor
from calor.dtypes import ALL, DType, float32, int32

from ..rows.domains import special
from .base import Array, Place, plain_array
from .contract import Contracts

contract = Contracts("transfers")
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


@contract("copies to another device and back are the same bits", dtypes=(float32, int32))
def to_another_device(place: Place) -> None:
    x = calor.asarray(np.array([1.5, -0.0, np.inf, 2.0**-140], np.float32))
    there = x.to("numpy")
    assert there.numpy().tobytes() == x.numpy().tobytes()
    back = (there * 1).to(place.device)
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
