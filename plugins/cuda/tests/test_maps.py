"""Descriptors of tensors: they follow a launch's buffers, also in a graph, and match the text."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor.errors import CompileError, DeviceError
from calor_cuda.maps import Tensor, tensors
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.language import (
    Buffer,
    Layout,
    Mbarriers,
    Scalar,
    Swizzle,
    Swizzled,
    barrier,
    cube_position,
    kernel,
    role,
    shared,
    tensor_map,
    unit_index,
    wait_puts,
)

AT = Swizzled(Swizzle(3, 2, 3), Layout.rows(8, 32))


@kernel
def doubled(x: Any, y: Any, m: Any, n: Any, stride: Any, *, at: Any) -> None:
    """y = 2 x, by boxes of 8 x 32 of which one is outside in part."""
    source = tensor_map(x, (m, n), (stride, 1), (8, 32), at)
    target = tensor_map(y, (m, n), (n, 1), (8, 32), at)
    box = shared(256, float32, align=1024)
    full = Mbarriers(1, 1)
    place = (cube_position(0) * 8, cube_position(1) * 32)
    with role(0, registers=40):
        if unit_index() == 0:
            full.expect(0, source.nbytes)
            source.fetch(box, place, full, 0)
            full.arrive(0)
    with role(1, registers=104):
        unit = unit_index() - 128
        full.wait(0, 0)
        for i in range(2):
            box[unit + 128 * i] = box[unit + 128 * i] * 2.0
        barrier(name=1, count=128)
        target.put(box, place, unit, 128)
        wait_puts(read=True)


def built(device: Any, at: Any = AT) -> Any:
    read = Buffer(float32, writable=False, align=16)
    size = Scalar(int64, divisible=4, nonnegative=True)
    return doubled.build(
        [read, Buffer(float32, align=16), size, size, size],
        cube=(256, 1, 1),
        plane=32,
        features=device.info.features,
        at=at,
    )


@pytest.fixture(params=["imitated", "by_pycuda", "gpu"])
def device(request: pytest.FixtureRequest) -> Any:
    found = request.getfixturevalue(request.param)
    if not found.info.has("tensor_copy"):
        pytest.skip("this GPU has no copy engine")
    return found


def test_descriptors_follow_their_buffers(device: Any) -> None:
    memory, queue, made = device.memory, device.queue, built(device)
    text = device.toolchain.source(made)
    assert "const __grid_constant__ tensor_map launched_map_1" in text
    assert "} else {" in text
    function = queue.load(device.toolchain.compile(text, made.name), made)
    m, n = 12, 40
    pieces = [memory.alloc(4 * m * n + 64) for _ in range(3)]
    steps = [
        Step(function, (2, 2, 1), (Slot(i % 2, 16), Slot(1 - i % 2, 16), m, n, n)) for i in range(5)
    ]
    recorded = queue.record(steps, 2)
    got = np.empty((m, n), np.float32)
    first = np.arange(m * n, dtype=np.float32).reshape(m, n)
    for a, b in ((0, 1), (0, 1), (2, 1), (1, 2)):
        memory.copy_in(pieces[a], 16, first)
        queue.run(recorded, (pieces[a], pieces[b]))
        memory.copy_out(pieces[b], 16, got)
        assert (got == first * 32).all()
    for piece in pieces:
        memory.free(piece)


def test_what_could_not_be_described_leaves_nothing_behind(
    imitated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, queue, made = imitated.memory, imitated.queue, built(imitated)
    function = queue.load(imitated.toolchain.compile(imitated.toolchain.source(made), "m"), made)
    pieces = [memory.alloc(4 * 8 * 32) for _ in range(3)]
    recorded = queue.record([Step(function, (1, 1, 1), (Slot(0), Slot(1), 8, 32, 32))], 2)
    first, got = np.ones((8, 32), np.float32), np.empty((8, 32), np.float32)
    memory.copy_in(pieces[0], 0, first)
    queue.run(recorded, (pieces[0], pieces[1]))

    def refuse(address: int, said: Tensor) -> bytes:
        raise DeviceError("the engine refuses")

    with monkeypatch.context() as patch:
        patch.setattr(recorded, "block", refuse)
        with pytest.raises(DeviceError, match="refuses"):
            queue.run(recorded, (pieces[2], pieces[1]))
    memory.copy_in(pieces[0], 0, first * 3)
    queue.run(recorded, (pieces[0], pieces[1]))
    memory.copy_out(pieces[1], 0, got)
    assert (got == 6).all()
    for piece in pieces:
        memory.free(piece)


def test_a_descriptor_is_of_the_arguments(imitated: Any) -> None:
    made = built(imitated)
    (place, first), (other, _) = tensors(made, (Slot(0), Slot(1), 12, 40, 44))
    assert (place, other) == (0, 1)
    assert first == Tensor(float32, (40, 12), (176,), (32, 8), 3, False)


def test_what_the_engine_leaves_otherwise_is_refused(imitated: Any) -> None:
    slanted = Swizzled(Swizzle(2, 2, 3), Layout.rows(8, 32))
    with pytest.raises(CompileError, match="boxes of"):
        imitated.toolchain.source(built(imitated, slanted))
    columns = replace(AT, layout=Layout((8, 32), (1, 8)))
    with pytest.raises(CompileError, match="boxes of"):
        imitated.toolchain.source(built(imitated, columns))
