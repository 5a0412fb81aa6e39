"""An open device with everything that plans need, and the interfaces of what the runtime adds.

Requirements: plans, templates and the tuner depend on this class only, so planning imports nothing
from the runtime, whose engine derives from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from threading import RLock
from time import perf_counter
from typing import Any, Protocol
from weakref import WeakValueDictionary

from calor.backends.protocol import Executable, Info
from calor.graph.graph import Graph
from calor_kernel.contract.cost import Ceilings
from calor_kernel.contract.fuser import Fuser
from calor_kernel.contract.work import Work
from calor_kernel.device.board import Board
from calor_kernel.device.kernels import Kernels
from calor_kernel.device.pool import Pool
from calor_kernel.device.protocol import Device
from calor_kernel.planning.coverings import Coverings
from calor_kernel.planning.drafts import Drafts, Planned
from calor_kernel.planning.lowering import Lowerings
from calor_kernel.planning.side_by_side import joins_launches
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

    def choose_all(self, tasks: Sequence[Task]) -> list[Work]:
        """Return the candidates chosen for the tasks of a graph."""

    def state(self) -> str | None:
        """Return a digest of all that choices depend on; None while they are made by time."""


class Replanner(Protocol):
    """Plans known structures at new sizes. ``lock`` is held while one is learnt."""

    lock: RLock

    def fits(self, graph: Graph) -> bool:
        """Return whether a template fits a graph."""

    def resized(self, structure: Structure, graph: Callable[[], Graph]) -> Executable | None:
        """Return the executable of a structure, if a template fits; ``graph`` makes its graph."""

    def learned(
        self,
        structure: Structure,
        graph: Callable[[], Graph],
        samples: Sequence[tuple[int, ...]],
        loose: Collection[int],
        lasting: Collection[int],
    ) -> Executable | None:
        """Return the executable from a new template; ``samples``: numbers at other sizes."""

    def ready(self, graph: Graph) -> Executable | None:
        """Return the executable of the last queried graph, if a template fits."""

    def plan(
        self, graph: Graph, structure: Structure, key: str | None, planned: Planned | None
    ) -> Executable:
        """Return the executable of a graph of a structure; CompileError.

        ``key`` and ``planned``: those of :class:`calor_kernel.planning.drafts.Drafts`.
        """


class Engine(ABC):
    """An open device with its pool, kernels and lowerings.

    The runtime sets the attributes without a value here.
    """

    # Compiled calls read the profiler in place.
    __slots__ = ("__dict__", "__weakref__", "profiler")

    deterministic: bool
    lowerings: Lowerings
    tuner: Chooser
    replanning: Replanner

    def __init__(self, device: Device) -> None:
        self.device = device
        self.queue = device.queue
        self.pool = Pool(device.memory)
        self.kernels = Kernels(device)
        # Executables of sub-graphs, by graph and by the number of equal graphs before it in a
        # program.
        self.bodies: WeakValueDictionary[tuple[Graph, int], Executable] = WeakValueDictionary()
        # Why the device refuses a sub-graph; None where it takes it.
        self.body_refusals: dict[Graph, str | None] = {}
        # Why no family takes all steps of sub-graphs as an op.
        self.flow_refusals: dict[tuple[Graph, ...], str] = {}
        # The structures of graphs with scans whose steps are not repeated as launches.
        self.unrepeated: dict[Any, None] = {}
        # The last graph whose stages were asked for, with them.
        self.staged: tuple[Graph, Any] | None = None
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

    def play(
        self, recorded: Any, launches: tuple[Launched, ...], handles: Sequence[Any], times: int = 1
    ) -> None:
        """Run a list and report the times of its launches, ``times`` over, to a profiler."""
        profiler = self.profiler
        if profiler is None:
            self.queue.run(recorded, handles)
            return
        start = perf_counter()
        profiler(launches * times, start, self.queue.seconds(recorded, handles))

    @property
    @abstractmethod
    def fusers(self) -> tuple[Fuser, ...]:
        """The fusers, the library's own first."""

    @cached_property
    def coverings(self) -> Coverings:
        """The coverings of graphs by the fusers."""
        return Coverings(self.device.info, self.fusers, self.kernels.expect)

    @cached_property
    def drafts(self) -> Drafts:
        """The graphs that were planned."""
        return Drafts(self.coverings, self.kernels, self._settings)

    def _settings(self) -> str | None:
        """Return the text of what plans depend on now; None while candidates are timed."""
        choices = self.tuner.state()
        return choices and f"{self.deterministic} {joins_launches()} {choices}"

    @property
    @abstractmethod
    def ceilings(self) -> Ceilings:
        """The device's peak rates."""

    @property
    @abstractmethod
    def described(self) -> Info:
        """The device info for core."""
