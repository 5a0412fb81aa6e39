"""A test kernel for the planes of a device's description.

Requirements: a device whose driver does not tell calls this once, when it is made. The kernel tests
every plane operation of the language, as kernels use it, and has what else is assembly: a fence,
copies of elements to shared memory, some of them masked off, and floats' extremes and roundings to
bfloat16. Any error of the driver or compiler means no.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calor.dtypes import bfloat16, float32, uint32, uint64
from calor.errors import CalorError
from calor_kernel import language as kl
from calor_kernel.device.protocol import Device, Slot, Step

# The output of the kernel: one row per operation.
ROWS: Final = 13
_ROUNDS, _PLANES = 3, 2
_UP, _DOWN, _XOR, _DIVISOR = 3, 2, 5, 5


@kl.kernel
def try_planes(x: Any, y: Any) -> None:
    """Write each unit's result of each operation, accumulated over rounds."""
    i, rows = kl.unit_position(), _PLANES * kl.plane_size()
    tile = kl.Tile(uint32, kl.Layout((rows,), (1,)))
    pipe = kl.Pipeline(1, tile, how=kl.way_of_units())
    for j in kl.loop_range(_ROUNDS):
        mine = x[i] + j.to(uint32)
        pipe.acquire()
        pipe.copy(0, i, x, i, mask=i % _DIVISOR != 0)
        pipe.commit()
        pipe.wait(0)
        copied = pipe.stage(0)[rows - 1 - i]
        pipe.release()
        number = mine.to(float32)
        unknown = kl.select(mine % _DIVISOR == 0, float("nan"), number)
        greatest, pair = kl.max(unknown, copied.to(float32)), kl.pack([number, unknown])
        rounded = pair.to(bfloat16).to(float32)
        made = (
            kl.lane_position().to(uint32),
            kl.plane_position().to(uint32),
            kl.plane_shuffle(mine, kl.plane_size() - 1 - kl.lane_position()),
            kl.plane_shuffle(mine, _UP, "up"),
            kl.plane_shuffle(mine.to(uint64) << 32, _DOWN, "down") >> 32,
            kl.plane_shuffle(mine, _XOR, "xor"),
            kl.plane_ballot(mine % _DIVISOR == 0),
            kl.plane_reduce("max", mine),
            kl.plane_scan("add", mine),
            copied,
            kl.select(greatest == greatest, greatest, 1.0).to(uint32),
            rounded[0].to(uint32),
            (rounded[1] == rounded[1]).to(uint32),
        )
        kl.barrier("plane")
        kl.fence()
        for row, value in enumerate(made):
            y[row * rows + i] = y[row * rows + i] + value.to(uint32)


def expected(x: np.ndarray[Any, Any], plane: int) -> np.ndarray[Any, Any]:
    """Return the expected output for the numbers of one cube."""
    lane, total = np.arange(plane), np.zeros((ROWS, _PLANES, plane), np.uint64)
    copied = np.where(np.arange(x.size) % _DIVISOR != 0, x, 0)[::-1].reshape(_PLANES, plane)
    up = np.where(lane < _UP, lane, lane - _UP)
    down = np.where(lane + _DOWN < plane, lane + _DOWN, lane)
    for j in range(_ROUNDS):
        mine = x.reshape(_PLANES, plane).astype(np.uint64) + np.uint64(j)
        unknown = mine % _DIVISOR == 0
        # To the nearest number of eight bits, and to the even one between two.
        bits = mine.astype(np.float32).view(np.uint32)
        halves = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        total += np.stack(
            [
                np.broadcast_to(lane, mine.shape),
                np.broadcast_to(np.arange(_PLANES)[:, None], mine.shape),
                mine[:, ::-1],
                mine[:, up],
                mine[:, down],
                mine[:, lane ^ _XOR],
                np.broadcast_to(((mine % _DIVISOR == 0) << lane).sum(1)[:, None], mine.shape),
                np.broadcast_to(mine.max(1)[:, None], mine.shape),
                mine.cumsum(1),
                copied,
                np.where(unknown, 1, np.maximum(mine, copied)),
                halves.view(np.float32),
                ~unknown,
            ]
        ).astype(np.uint64)
    return total.astype(np.uint32).reshape(-1)


def planes_hold(device: Device) -> bool:
    """Return whether a device's first plane size computes correctly."""
    plane = device.info.planes[0]
    signature = [kl.Buffer(uint32, writable=False), kl.Buffer(uint32)]
    x = (np.arange(_PLANES * plane, dtype=np.uint32) * 7919) % 1000
    got = np.zeros(ROWS * x.size, np.uint32)
    memory, queue, handles = device.memory, device.queue, []
    try:
        cube, features = (x.size, 1, 1), device.info.features
        made = try_planes.build(signature, cube=cube, plane=plane, features=features)
        image = device.toolchain.compile(device.toolchain.source(made), made.name)
        function = queue.load(image, made)
        for array in (x, got):
            handles.append(memory.alloc(array.nbytes))
            memory.copy_in(handles[-1], 0, array)
        queue.run(queue.record([Step(function, (1, 1, 1), (Slot(0), Slot(1)))], 2), handles)
        memory.copy_out(handles[1], 0, got)
    except CalorError:
        return False
    finally:
        for handle in handles:
            memory.free(handle)
    return np.array_equal(got, expected(x, plane))
