"""What planning asks of the engine of a device; the runtime's engine answers it.

Requirements: plans, templates and the tuner work on this interface, so that planning imports
nothing of the floor above it.
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
    """What chooses among the candidates of tasks: the tuner. ``mode`` is CALOR_TUNE's."""

    mode: str

    def wants(self, op: str) -> bool:
        """Return whether candidates beside the first are wanted of an op."""

    def choose(self, task: Task) -> Work:
        """Return the candidate to do a task with."""


class Replanner(Protocol):
    """What makes plans of known structures at new sizes. ``lock`` is held while one is learnt."""

    @property
    def lock(self) -> RLock:
        """The lock."""

    def ready(self, graph: Graph) -> Executable | None:
        """Return the executable of the graph that was asked about last, where a template fits."""

    def plan(self, graph: Graph, structure: Structure) -> Executable:
        """Return the executable of a graph of a structure; CompileError."""


class Engine(Protocol):
    """An open device with its pool, kernels and lowerings.

    ``nothing``: a buffer for slots of a run that need no memory. ``tells_late``: whether failed
    operations are reported when somebody looks at a result. ``last``: the plan that ran last, whose
    operations an error of the device names.
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
        """What chooses among candidates."""

    @property
    def replanning(self) -> Replanner:
        """What plans known structures at new sizes."""

    @property
    def fusers(self) -> tuple[Fuser, ...]:
        """The fusers beside the library's own."""

    @property
    def ceilings(self) -> Ceilings:
        """What the device does at most."""

    @property
    def described(self) -> Info:
        """What core is told of the device."""
