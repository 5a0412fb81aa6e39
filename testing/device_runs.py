"""Runs one kernel on a device as a plan does, over NumPy arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor_kernel.device.protocol import Device, Slot, Step
from calor_kernel.ir.nodes import Kernel


def run(
    device: Device, kernel: Kernel, cubes: tuple[int, int, int], arguments: Sequence[Any]
) -> None:
    """Run a kernel; arrays lie a while into their buffers, and are changed in place."""
    image = device.toolchain.compile(device.toolchain.source(kernel), kernel.name)
    function = device.queue.load(image, kernel)
    memory, before = device.memory, device.info.align
    handles: list[Any] = []
    given: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            handle = memory.alloc(argument.nbytes + before)
            memory.copy_in(handle, before, argument)
            given.append(Slot(len(handles), before))
            handles.append(handle)
        else:
            given.append(argument)
    recorded = device.queue.record([Step(function, cubes, tuple(given))], len(handles))
    device.queue.run(recorded, handles)
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    for handle, array in zip(handles, arrays, strict=True):
        memory.copy_out(handle, before, array)
        memory.free(handle)
