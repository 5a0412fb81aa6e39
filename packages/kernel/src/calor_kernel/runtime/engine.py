"""The engine of an open device: its tuner, its plans for new sizes, and what core asks of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from calor.backends.protocol import Info
from calor.errors import DeviceLostError
from calor.plugins.discovery import fusers as installed_fusers
from calor_kernel.contract.cost import Ceilings
from calor_kernel.contract.fuser import Fuser
from calor_kernel.device.protocol import Device
from calor_kernel.planning import engine
from calor_kernel.planning.compiling import fusers_of, plan_anew
from calor_kernel.planning.lowering import Lowerings, load_families
from calor_kernel.planning.replanning import Replanning
from calor_kernel.runtime.autotune import Tuner, deterministic
from calor_kernel.runtime.capabilities import describe
from calor_kernel.runtime.ceilings import measured


class Engine(engine.Engine):
    """A device with everything needed to run graphs on it."""

    tuner: Tuner
    replanning: Replanning

    def __init__(self, device: Device, fusers: Sequence[Fuser] | None = None) -> None:
        load_families()
        super().__init__(device)
        self.own_fusers = fusers
        self.deterministic = deterministic()
        self.tuner = Tuner(self)
        self.lowerings = Lowerings(device.info, self.tuner.wants)
        self.replanning = Replanning(self, plan_anew, lambda: fusers_of(self))

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
            self.queue.synchronize()
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
        self.pool.unlock()
        self.kernels.unlock()
        self.replanning.unlock()
