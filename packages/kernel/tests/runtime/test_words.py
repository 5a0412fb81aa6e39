"""Memory whose copies are of whole words, and arguments as a struct."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import bfloat16, float32, int64
from calor.errors import ArgumentError, DeviceError
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.device.words import WORD, Piece, WordMemory
from calor_kernel.ir.nodes import Parameter
from calor_kernel.ir.types import Buffer, Scalar
from calor_wgpu.probes.arithmetic import given, seen
from calor_wgpu.structs import folded, pack, struct_of


class Words(WordMemory):
    """Memory of the host that refuses what is no whole word."""

    def alloc(self, nbytes: int) -> Piece:
        return Piece(np.arange(nbytes, dtype=np.uint8), 0, nbytes)

    def free(self, handle: Piece) -> None:
        pass

    def read(self, buffer: Any, start: int, nbytes: int) -> Any:
        assert start % WORD == nbytes % WORD == 0
        return buffer[start : start + nbytes]

    def put(self, buffer: Any, start: int, data: Any) -> None:
        assert start % WORD == len(data) % WORD == 0
        buffer[start : start + len(data)] = data

    def move(self, target: Any, at: int, source: Any, start: int, nbytes: int) -> None:
        self.put(target, at, self.read(source, start, nbytes).copy())


@pytest.mark.parametrize("nbytes", [0, 1, 3, 4, 7, 8, 13])
@pytest.mark.parametrize("start", [0, 1, 4, 6])
def test_bytes_of_any_place_are_copied(start: int, nbytes: int) -> None:
    memory, data = Words(), np.arange(200, 200 + nbytes, dtype=np.uint8)
    piece = memory.part(memory.alloc(64), 8, 56)
    other = memory.alloc(64)
    assert piece is not None
    expected = piece.buffer.copy()
    memory.copy_in(piece, start, data)
    expected[8 + start :][:nbytes] = data
    assert piece.buffer.tolist() == expected.tolist()
    got = np.zeros(nbytes, np.uint8)
    memory.copy_out(piece, start, got)
    assert got.tolist() == data.tolist()
    memory.copy(other, 5, piece, start, nbytes)
    expected = np.arange(64)
    expected[5 : 5 + nbytes] = data
    assert other.buffer.tolist() == expected.tolist()


PARAMETERS = [
    Parameter("x", Buffer(float32)),
    Parameter("n", Scalar(int64)),
    Parameter("half", Scalar(bfloat16)),
]


def test_arguments_are_a_struct() -> None:
    step = Step(None, (3, 4, 5), (Slot(0, 1040), 7, 1.5))
    for format, places in (("<i8", [0, 8, 16, 20]), ("<i4", [0, 4, 8, 12])):
        fields = struct_of(PARAMETERS, {int64: format, bfloat16: "<u4"}.__getitem__)
        assert fields.fields is not None
        assert [fields.fields[n][1] for n in ("a0", "a1", "a2", "cubes_x")] == places
        row = np.frombuffer(pack(fields, PARAMETERS, step, [1024]), fields)[0]
        assert row.tolist() == (4, 7, 0x3FC0, 3, 4, 5, 0)


def test_what_fits_nowhere_is_an_error() -> None:
    fields = struct_of(PARAMETERS, lambda dtype: "<i4")
    step = Step(None, (1, 1, 1), (Slot(0), 2**40, 0.0))
    with pytest.raises(ArgumentError, match="argument n is 1099511627776"):
        pack(fields, PARAMETERS, step)
    with pytest.raises(DeviceError, match="exceeds the device's maximum"):
        folded((70000, 40000, 1), 65535)


def test_what_a_device_does_is_seen_in_numbers() -> None:
    data = given()
    x, y = data[0, :, 0], data[0, :, 1]
    near = (x + np.float32(2**24)) - np.float32(2**24)
    data[1] = np.stack([x / y, np.sqrt(x), np.zeros_like(x), near], axis=1)
    data[2, :, 1:3] = 65535, 8
    found = seen(data)
    assert (found.fused, found.changes, found.rounded) == (False, "", True)
    assert (found.flushes, found.limited, found.lanes) == (True, True, 8)
    data[1, :, 2:] = 1e-9
    assert seen(data).changes == "reassociates"
