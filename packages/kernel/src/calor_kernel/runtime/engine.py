"""What belongs to one open device: its pool, its kernels, and what families answered for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property

from calor.backends.protocol import Info
from calor.plugins.discovery import fusers as installed_fusers
from calor_kernel.planning.cost import Ceilings
from calor_kernel.planning.fuser import Fuser
from calor_kernel.planning.lowering import Lowerings, load_families
from calor_kernel.planning.recording import Launched
from calor_kernel.runtime.autotune import Tuner
from calor_kernel.runtime.buffers import KernelBuffer
from calor_kernel.runtime.ceilings import measured
from calor_kernel.runtime.claims import describe
from calor_kernel.runtime.device import Device
from calor_kernel.runtime.kernels import Kernels
from calor_kernel.runtime.pool import Pool

Profiler = Callable[[Sequence[Launched], float, Sequence[float]], None]


class Engine:
    """A device with everything that running graphs on it needs."""

    def __init__(self, device: Device, fusers: Sequence[Fuser] = ()) -> None:
        load_families()
        self.device = device
        self.own_fusers = tuple(fusers)
        self.pool = Pool(device.memory)
        self.kernels = Kernels(device)
        self.deterministic = os.environ.get("CALOR_DETERMINISTIC", "0") not in ("", "0")
        self.lowerings = Lowerings(device.info)
        self.tuner = Tuner(self)
        # What takes the times of launches while a profile is taken.
        self.profiler: Profiler | None = None
        # What a run hands over where it needs no memory.
        self.nothing = KernelBuffer(self.pool, *self.pool.raw(1), 0)
        # Whether the host reads the device's memory.
        self.host_memory = device.memory.address(self.nothing.handle) is not None

    @cached_property
    def fusers(self) -> tuple[Fuser, ...]:
        """The backend's own fusers, and those that are installed."""
        return (*self.own_fusers, *installed_fusers().values())

    @cached_property
    def ceilings(self) -> Ceilings:
        """What the device does at most, measured when it is first asked for."""
        return measured(self, self.tuner.lines)

    @cached_property
    def described(self) -> Info:
        """What core is told of the device."""
        return describe(self)

    def restart(self) -> None:
        """Work on in a forked child."""
        self.device.restart()
        for part in self._locked():
            part.unlock()

    def _locked(self) -> Sequence[Pool | Kernels]:
        return (self.pool, self.kernels)
