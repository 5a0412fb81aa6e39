"""What belongs to one open device: its pool, its kernels, and what families answered for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from calor.backends.protocol import Info
from calor.plugins.discovery import fusers as installed_fusers
from calor_kernel.planning.fuser import Fuser
from calor_kernel.planning.lowering import Lowerings, load_families
from calor_kernel.runtime.buffers import KernelBuffer
from calor_kernel.runtime.claims import describe
from calor_kernel.runtime.device import Device
from calor_kernel.runtime.kernels import Kernels
from calor_kernel.runtime.pool import Pool


class Engine:
    """A device with everything that running graphs on it needs."""

    def __init__(self, device: Device, fusers: Sequence[Fuser] = ()) -> None:
        load_families()
        self.device = device
        self.own_fusers = tuple(fusers)
        self.pool = Pool(device.memory)
        self.kernels = Kernels(device)
        self.lowerings = Lowerings(device.info)
        # What a run hands over where it needs no memory.
        self.nothing = KernelBuffer(self.pool, *self.pool.raw(1), 0)
        # Whether the host reads the device's memory.
        self.host_memory = device.memory.address(self.nothing.handle) is not None

    @cached_property
    def fusers(self) -> tuple[Fuser, ...]:
        """The backend's own fusers, and those that are installed."""
        return (*self.own_fusers, *installed_fusers().values())

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
