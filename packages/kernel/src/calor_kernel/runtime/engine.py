"""The engine of an open device: its pool, its kernels, and the families' answers for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from calor.backends.protocol import Executable, Info
from calor.errors import DeviceLostError
from calor.graph.graph import Graph
from calor.plugins.discovery import fusers as installed_fusers
from calor_kernel.contract.cost import Ceilings
from calor_kernel.contract.fuser import Fuser
from calor_kernel.device.board import Board
from calor_kernel.device.kernels import Kernels
from calor_kernel.device.pool import Pool
from calor_kernel.device.protocol import Device
from calor_kernel.planning.compiling import fusers_of, plan_anew
from calor_kernel.planning.lowering import Lowerings, load_families
from calor_kernel.planning.replanning import Replanning
from calor_kernel.planning.values import Launched
from calor_kernel.runtime.autotune import Tuner, deterministic
from calor_kernel.runtime.capabilities import describe
from calor_kernel.runtime.ceilings import measured

if TYPE_CHECKING:
    from calor_kernel.planning.values import Draft

Profiler = Callable[[Sequence[Launched], float, Sequence[float]], None]


class Engine:
    """A device with everything needed to run graphs on it."""

    # Compiled calls read the profiler in place.
    __slots__ = ("__dict__", "__weakref__", "profiler")

    def __init__(self, device: Device, fusers: Sequence[Fuser] | None = None) -> None:
        load_families()
        self.device = device
        self.own_fusers = fusers
        self.pool = Pool(device.memory)
        self.kernels = Kernels(device)
        self.deterministic = deterministic()
        self.tuner = Tuner(self)
        self.lowerings = Lowerings(device.info, self.tuner.wants)
        # Executables of sub-graphs, by graph and by the number of equal graphs before it in a
        # program.
        self.bodies: WeakValueDictionary[tuple[Graph, int], Executable] = WeakValueDictionary()
        self.replanning = Replanning(self, plan_anew, lambda: fusers_of(self))
        # Collects the times of launches during a profile.
        self.profiler: Profiler | None = None
        # A dummy buffer for slots without memory.
        self.nothing = self.pool.uncounted(1)
        # Whether the host reads the device's memory.
        self.host_memory = device.memory.address(self.nothing.handle) is not None
        # Whether failures are reported when a result is used, so that calls need not wait.
        self.tells_late = not self.host_memory
        # The draft that ran last, to name its ops if the device breaks. The plan itself, which may
        # own prepared weights, is not kept alive.
        self.last: Draft | None = None
        self.board = Board(self.pool)

    @cached_property
    def fusers(self) -> tuple[Fuser, ...]:
        """The backend's own fusers, by default the installed ones."""
        return tuple(installed_fusers().values() if self.own_fusers is None else self.own_fusers)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Name the ops that ran last in a device error that is detected only now."""
        try:
            yield
        except DeviceLostError as error:
            if error.op is None and self.last is not None:
                error.op = self.last.named
            raise

    def synchronize(self) -> None:
        """Wait for all work, and raise the first error since the last wait that nobody received."""
        with self.naming():
            self.device.queue.synchronize()
            failed = self.board.settle()
        if failed is not None:
            raise failed

    @cached_property
    def ceilings(self) -> Ceilings:
        """The device's peak rates, measured on first use."""
        return measured(self, self.tuner.lines)

    @cached_property
    def described(self) -> Info:
        """The device info for core."""
        return describe(self)

    def restart(self) -> None:
        """Resume in a forked child."""
        self.device.restart()
        for part in self._locked():
            part.unlock()

    def _locked(self) -> Sequence[Pool | Kernels | Replanning]:
        return (self.pool, self.kernels, self.replanning)
