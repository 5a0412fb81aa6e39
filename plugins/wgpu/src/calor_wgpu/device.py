"""A device of wgpu: memory, a queue that batches dispatches, and its description."""

from __future__ import annotations

import wgpu

from calor.errors import DeviceError
from calor_kernel.device.protocol import Device
from calor_wgpu.probes.cores import with_cores
from calor_wgpu.probes.last_cache import with_last_cache

from ._bindings import Stream, adapters, device
from .description import describe, language
from .memory import WgpuMemory
from .queue import WgpuQueue
from .toolchain import WgpuToolchain


class WgpuDevice(Device):
    """The device with a number in the list of all adapters."""

    memory: WgpuMemory
    toolchain: WgpuToolchain
    queue: WgpuQueue

    def __init__(self, number: int = 0) -> None:
        found = adapters()
        if number >= len(found):
            raise DeviceError(
                f"there is no wgpu device {number}; the drivers list {len(found)}, numbered from "
                f"0: install a driver of Vulkan, Metal or Direct3D 12"
            )
        opened = device(number)
        dialect = language(opened, number)
        info = opened.adapter.info
        words = (info["backend_type"], info["device"], info["description"], wgpu.__version__)
        self.info = describe(opened, dialect)
        self.toolchain = WgpuToolchain(dialect, f"wgpu {' '.join(words)} {dialect.key}", number)
        stream = Stream(opened, dialect.limited)
        align = opened.limits["min-storage-buffer-offset-alignment"]
        self.memory = WgpuMemory(stream, parts=align <= 64)
        self.queue = WgpuQueue(stream, self.toolchain)
        if "timestamp-query" in opened.features and info["adapter_type"] != "CPU":
            self.info = with_last_cache(with_cores(self), info)
