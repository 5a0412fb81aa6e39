"""The planner's interface to a device's engine; the runtime's engine implements it.

Requirements: plans, templates and the tuner depend on this interface only, so planning imports
nothing from the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Protocol
from weakref import WeakValueDictionary

from calor.backends.protocol import Executable, Info
from calor.graph.graph import Graph
from calor_kernel.contract.cost import Ceilings
from calor_kernel.contract.fuser import Fuser
from calor_kernel.contract.work import Work
from calor_kernel.device.board import Board
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.kernels import Kernels
from calor_kernel.device.pool import Pool
from calor_kernel.device.protocol import Device
from calor_kernel.planning.lowering import Lowerings
from calor_kernel.planning.structure import Structure
from calor_kernel.planning.values import Draft, Launched, Task

Profiler = Callable[[Sequence[Launched], float, Sequence[float]], None]


class Chooser(Protocol):
    """Chooses among the candidates of tasks: the tuner. ``mode`` is CALOR_TUNE's."""

    mode: str

    def wants(self, op: str) -> bool:
        """Return whether an op needs candidates beside the first."""

    def choose(self, task: Task) -> Work:
        """Return the candidate chosen for a task."""


class Replanner(Protocol):
    """Plans known structures at new sizes. ``lock`` is held while one is learnt."""

    @property
    def lock(self) -> RLock:
        """The lock."""

    def ready(self, graph: Graph) -> Executable | None:
        """Return the executable of the last queried graph, if a template fits."""

    def plan(self, graph: Graph, structure: Structure) -> Executable:
        """Return the executable of a graph of a structure; CompileError."""


class Engine(Protocol):
    """An open device with its pool, kernels and lowerings.

    ``nothing``: a dummy buffer for slots without memory. ``tells_late``: whether failed operations
    are reported when a result is used. ``last``: the plan that ran last, whose operations are named
    in an error of the device.
    """

    device: Device
    pool: Pool
    kernels: Kernels
    board: Board
    lowerings: Lowerings
    bodies: WeakValueDictionary[tuple[Graph, int], Executable]
    deterministic: bool
    nothing: KernelBuffer
    host_memory: bool
    tells_late: bool
    last: Draft | None
    profiler: Profiler | None

    @property
    def tuner(self) -> Chooser:
        """The tuner."""

    @property
    def replanning(self) -> Replanner:
        """The planner of known structures at new sizes."""

    @property
    def fusers(self) -> tuple[Fuser, ...]:
        """The fusers beside the library's own."""

    @property
    def ceilings(self) -> Ceilings:
        """The device's peak rates."""

    @property
    def described(self) -> Info:
        """The device info for core."""
