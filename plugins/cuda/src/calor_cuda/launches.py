"""A recorded list of launches as a CUDA graph.

Requirements: a list that runs again is one call of the driver, a graph whose nodes take new
arguments by address, so buffers may differ between runs. A list that runs once creates no graph.
From compute capability 9.0 on a launch starts while the one before it ends: each kernel waits for
the earlier launch at its first instruction, or after it has read what no launch of the list wrote
before (programmatic dependent launch; NVIDIA, CUDA C++ Programming Guide). Launches whose cubes
wait for each other are cooperative, here too: the GPU starts all of their cubes or none, whatever
else it runs, and nothing overlaps them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from calor_cupy.driver.launches import Recorded
from calor_kernel.device.early_reads import EarlyReads, Late
from calor_kernel.device.protocol import Step

from .bindings import failure
from .maps import NBYTES, Tensor, encoded, tensors

# Shorter lists are faster launch by launch. No list gets a graph at its first run, because creating
# one costs as much as several runs.
LEAST: Final = 4
# Limit of the graphs of a list.
GRAPHS: Final = 3
# Switches launches that start while the one before ends off, to find out what they gain.
OVERLAP: Final = "CALOR_CUDA_OVERLAP"


class Repeated(Recorded):
    """Launches that become a graph at their second run, with their tensor maps."""

    block_bytes = NBYTES

    def __init__(
        self, steps: Sequence[Step], stream: int, graph_launch: Any, overlapping: bool = False
    ) -> None:
        super().__init__(steps, stream)
        self.graph_launch = graph_launch
        self.overlapping = overlapping
        self.runs = 0
        self.early = EarlyReads(steps, [step.function.kernel for step in steps])
        # Programs that keep results for a while alternate between a few sets of buffers, each with
        # a graph.
        self.graphs: list[Graph] = []
        self._timed: TimedGraph | None = None

    def blocks_of(self, step: Step) -> Sequence[tuple[int, Tensor]]:
        """Return the tensor maps that a launch takes after its arguments."""
        return tensors(step.function.kernel, step.arguments)

    def block(self, address: int, said: Tensor) -> bytes:
        """Return the tensor map for an address."""
        return encoded(address, said)

    def run(self, handles: Sequence[int], launch: Any) -> None:
        """Queue all launches, one by one or as a graph."""
        if self.runs and len(self.launches) >= LEAST:
            self.graph_launch(self._graph(tuple(handles)).executable, self.stream)
            return
        self.runs += 1
        super().run(handles, launch)

    def timed(self, handles: Sequence[int]) -> TimedGraph:
        """Return the graph that times the launches on these buffers; the last one is kept."""
        given = tuple(handles)
        if self._timed is None or self._timed.handles != given:
            self.put(given)
            self._timed = TimedGraph(self.launches, given, self.together)
        return self._timed

    def _graph(self, given: tuple[int, ...]) -> Graph:
        """Return the graph for these buffers, an update of the least recently used one."""
        for place, graph in enumerate(self.graphs):
            if graph.handles == given:
                if place:
                    self.graphs.insert(0, self.graphs.pop(place))
                return graph
        self.put(given)
        late = self.early.late(given) if self.overlapping else None
        known = self.graphs.pop() if len(self.graphs) == GRAPHS else None
        if known is None or known.late != late:
            known = Graph(self.launches, given, late, self.together)
        else:
            known.update(self.changed(known.handles, given), given)
        self.graphs.insert(0, known)
        return known


def _following(driver: Any) -> Any:
    """Return the function that lets a node start while the one before it ends; None if none."""
    add = getattr(driver, "cuGraphAddDependencies_v2", None)
    if add is None and int(driver.CUDA_VERSION) >= 13000:
        add = driver.cuGraphAddDependencies
    if add is None:
        return None
    edge = driver.CUgraphEdgeData()
    edge.from_port = driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
    edge.type = int(driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
    return lambda graph, before, after: add(graph, before, after, [edge], 1)


def node_of(driver: Any, launch: tuple[int, ...]) -> Any:
    """Return the parameters of a node for a recorded launch."""
    function, *shape, shared, _, arguments, _ = launch
    said = driver.CUDA_KERNEL_NODE_PARAMS()
    said.func = driver.CUfunction(function)
    said.gridDimX, said.gridDimY, said.gridDimZ = shape[:3]
    said.blockDimX, said.blockDimY, said.blockDimZ = shape[3:]
    said.sharedMemBytes, said.kernelParams = shared, arguments
    return said


class DriverGraph:
    """A graph of the driver; ``handles`` are its buffers, ``executable`` is set when it is made.

    What it is made of is destroyed with it, but not when the interpreter ends: the driver's module
    may be gone by then, and the driver frees everything itself.
    """

    executable: int

    def __init__(self, driver: Any, handles: tuple[int, ...]) -> None:
        self._driver = driver
        self.handles = handles
        # A failed constructor may have created some of them alone.
        self._parts: list[tuple[Callable[[Any], Any], Any]] = []
        weakref.finalize(self, _destroy, self._parts).atexit = False
        self.graph = self._part(driver.cuGraphDestroy, driver.cuGraphCreate(0))

    def _instantiate(self, driver: Any) -> None:
        """Make the executable of the nodes so far."""
        made = driver.cuGraphInstantiate(self.graph, 0)
        self.made = self._part(driver.cuGraphExecDestroy, made)
        self.executable = int(self.made)

    def _add_launch(
        self, graph: Any, launch: tuple[int, ...], after: list[Any], together: frozenset[int]
    ) -> tuple[Any, Any]:
        """Add a launch behind some nodes; return its parameters and its node."""
        driver, said = self._driver, node_of(self._driver, launch)
        node = self._made(driver.cuGraphAddKernelNode(graph, after, len(after), said))
        if launch[0] in together:
            value = driver.CUkernelNodeAttrValue()
            value.cooperative = 1
            name = driver.CUkernelNodeAttrID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            self._made(driver.cuGraphKernelNodeSetAttribute(node, name, value))
        return said, node

    def _made(self, answer: tuple[Any, ...]) -> Any:
        code, *made = answer
        if int(code):
            raise failure(int(code), "recording launches as a graph")
        return made[0] if made else None

    def _part(self, destroy: Callable[[Any], Any], answer: tuple[Any, ...]) -> Any:
        """Return what the driver made, which goes with the graph."""
        made = self._made(answer)
        self._parts.append((destroy, made))
        return made


def _destroy(parts: list[tuple[Callable[[Any], Any], Any]]) -> None:
    """Destroy what a graph is made of, the last part first."""
    while parts:
        destroy, made = parts.pop()
        destroy(made)


class Graph(DriverGraph):
    """Launches in order, whose arguments may change.

    Kernels wait for the launch before theirs themselves, but those of the launches ``late``; none
    does if this is None. ``together``: the functions whose cubes start together.
    """

    def __init__(
        self,
        launches: Sequence[tuple[int, ...]],
        handles: tuple[int, ...],
        late: Late,
        together: frozenset[int],
    ) -> None:
        from cuda.bindings import driver

        follow = None if late is None else _following(driver)
        super().__init__(driver, handles)
        self.late = late
        self._change = driver.cuGraphExecKernelNodeSetParams
        self.parameters: list[Any] = []
        self.nodes: list[Any] = []
        whole = True
        for number, launch in enumerate(launches):
            after, before = self.nodes[-1:], whole
            whole = launch[0] in together
            ends = late is None or number in late or before or whole
            early = None if ends else follow
            given = after if early is None else []
            said, node = self._add_launch(self.graph, launch, given, together)
            if early is not None and after:
                self._made(early(self.graph, after, [node]))
            self.parameters.append(said)
            self.nodes.append(node)
        self._instantiate(driver)

    def update(self, numbers: set[int], handles: tuple[int, ...]) -> None:
        """Set new arguments of some launches; queued runs keep theirs."""
        for number in numbers:
            self._made(self._change(self.made, self.nodes[number], self.parameters[number]))
        self.handles = handles


class TimedGraph(DriverGraph):
    """Launches in order, with an event before the first and after each.

    No time of the host is between the events: the GPU goes through the nodes alone.
    """

    def __init__(
        self,
        launches: Sequence[tuple[int, ...]],
        handles: tuple[int, ...],
        together: frozenset[int],
    ) -> None:
        from cuda.bindings import driver

        self.events: list[Any] = []
        super().__init__(driver, handles)
        last = self._record([])
        for launch in launches:
            _, node = self._add_launch(self.graph, launch, last, together)
            last = self._record([node])
        self._instantiate(driver)

    def _record(self, after: list[Any]) -> list[Any]:
        """Add an event after a node; return its node."""
        event = self._part(self._driver.cuEventDestroy, self._driver.cuEventCreate(0))
        self.events.append(event)
        add = self._driver.cuGraphAddEventRecordNode
        return [self._made(add(self.graph, after, len(after), event))]

    def seconds(self) -> list[float]:
        """Return the times of the launches in the last run, which has ended."""
        elapsed = self._driver.cuEventElapsedTime
        return [1e-3 * float(self._made(elapsed(*pair))) for pair in pairwise(self.events)]
