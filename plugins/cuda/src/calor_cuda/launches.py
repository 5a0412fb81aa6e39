"""A recorded list of launches: arguments in the host's memory, and a CUDA graph of them.

Requirements: a run sets no argument that is as it was; a list that runs again is one call of the
driver, a graph whose nodes take new arguments by their addresses, so that buffers may change from
run to run; a list that runs once costs no graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor.dtypes import DType, bfloat16, float16
from calor_kernel.ir.nodes import Kernel
from calor_kernel.runtime.device import Slot, Step

from .bindings import failure
from .maps import NBYTES, Tensor, encoded, tensors

# Lists of fewer launches are quicker launch by launch, and no list is worth a graph at its first
# run: making one costs as much as some runs.
LEAST: Final = 4
# The graphs of a list at most.
GRAPHS: Final = 3
_CELL: Final = 8
_BITS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded kernel, the module that it is of, and the shared memory that a launch brings."""

    function: int
    kernel: Kernel
    module: Any
    shared: int


class Recorded:
    """Launches with their scalars set; buffers are set where they differ from the last run's."""

    def __init__(self, steps: Sequence[Step], stream: int) -> None:
        self.stream = stream
        self.empty = [0 in step.cubes for step in steps]
        steps = [s for s, empty in zip(steps, self.empty, strict=True) if not empty]
        maps = [tensors(s.function.kernel, s.arguments) for s in steps]
        total = sum(len(s.arguments) for s in steps)
        cells = np.zeros(max(total, 1), np.uint64)
        self.cells = cells
        # Descriptors of tensors are of so many bytes, and begin at multiples of half of them.
        self.blocks = np.zeros((sum(map(len, maps)) + 1) * NBYTES, np.uint8)
        # Launches name their arguments by the addresses of these, which never move.
        self.places = np.zeros(max(total + sum(map(len, maps)), 1), np.uint64)
        # For each cell that has them: descriptors that hold its address, by where they are.
        self.maps: dict[int, list[tuple[int, Tensor]]] = {}
        self.words = memoryview(cells.data).cast("B").cast("Q")
        # For each slot: the cells that hold it, with their offsets and launches.
        self.users: dict[int, list[tuple[int, int, int]]] = {}
        self.launches: list[tuple[int, ...]] = []
        place = first = 0
        block = -self.blocks.ctypes.data % NBYTES
        for number, (step, described) in enumerate(zip(steps, maps, strict=True)):
            self._launch(number, step, place, first)
            first += len(step.arguments)
            for at, tensor in described:
                self.maps.setdefault(place + at, []).append((block, tensor))
                self.places[first] = self.blocks.ctypes.data + block
                first, block = first + 1, block + NBYTES
            place += len(step.arguments)
        self.handles: tuple[Any, ...] = ()
        self.runs = 0
        # Programs that hold results for a while go round a few sets of buffers: each has a graph.
        self.graphs: list[Graph] = []

    def _launch(self, number: int, step: Step, place: int, first: int) -> None:
        """Take a launch, whose arguments are from a cell on, and named from another one on."""
        function: Function = step.function
        parameters = self.places.ctypes.data + first * _CELL
        end, count = first + len(step.arguments), len(step.arguments)
        self.places[first:end] = self.cells.ctypes.data + (place + np.arange(count)) * _CELL
        cube = function.kernel.cube
        shape = (*step.cubes, *cube, function.shared, self.stream, parameters, 0)
        self.launches.append((function.function, *shape))
        for parameter, given in zip(function.kernel.parameters, step.arguments, strict=True):
            if isinstance(given, Slot):
                self.users.setdefault(given.number, []).append((place, given.offset, number))
            else:
                self.cells[place] = scalar_bits(given, parameter.declared.dtype)
            place += 1

    def run(self, handles: Sequence[int], launch: Any, graph_launch: Any) -> None:
        """Queue all launches: one by one, or as the graph that was made of them."""
        if self.runs and len(self.launches) >= LEAST:
            graph_launch(self._graph(tuple(handles)).executable, self.stream)
            return
        self.runs += 1
        self.put(handles)
        for one in self.launches:
            launch(*one)

    def _graph(self, given: tuple[int, ...]) -> Graph:
        """Return the graph with these buffers: made of the one that was used longest ago."""
        for place, graph in enumerate(self.graphs):
            if graph.handles == given:
                if place:
                    self.graphs.insert(0, self.graphs.pop(place))
                return graph
        self.put(given)
        if len(self.graphs) < GRAPHS:
            graph = Graph(self.launches, given)
        else:
            graph = self.graphs.pop()
            graph.update(self.changed(graph.handles, given), given)
        self.graphs.insert(0, graph)
        return graph

    def put(self, handles: Sequence[int]) -> None:
        """Write the addresses that differ from those that were written last."""
        given = tuple(handles)
        before = self.handles or (None,) * len(given)
        for slot, users in self.users.items():
            address = given[slot]
            if address != before[slot]:
                for place, offset, _ in users:
                    self.words[place] = address + offset
                    for block, tensor in self.maps.get(place, ()) if self.maps else ():
                        made = encoded(address + offset, tensor)
                        self.blocks[block : block + NBYTES] = np.frombuffer(made, np.uint8)
        self.handles = given

    def changed(self, before: tuple[int, ...], given: tuple[int, ...]) -> set[int]:
        """Return the numbers of the launches of which an argument is another one."""
        return {
            number
            for slot, users in self.users.items()
            if before[slot] != given[slot]
            for _, _, number in users
        }


class Graph:
    """Launches as one object of the driver, in their order; ``handles`` are its buffers."""

    def __init__(self, launches: Sequence[tuple[int, ...]], handles: tuple[int, ...]) -> None:
        from cuda.bindings import driver

        self.handles = handles
        self.made: Any = None
        self._change = driver.cuGraphExecKernelNodeSetParams
        self._destroy = driver.cuGraphExecDestroy, driver.cuGraphDestroy
        self.graph = self._made(driver.cuGraphCreate(0))
        self.parameters: list[Any] = []
        self.nodes: list[Any] = []
        for function, *shape, shared, _, arguments, _ in launches:
            said = driver.CUDA_KERNEL_NODE_PARAMS()
            said.func = driver.CUfunction(function)
            said.gridDimX, said.gridDimY, said.gridDimZ = shape[:3]
            said.blockDimX, said.blockDimY, said.blockDimZ = shape[3:]
            said.sharedMemBytes, said.kernelParams = shared, arguments
            after = self.nodes[-1:]
            node = self._made(driver.cuGraphAddKernelNode(self.graph, after, len(after), said))
            self.parameters.append(said)
            self.nodes.append(node)
        self.made = self._made(driver.cuGraphInstantiate(self.graph, 0))
        self.executable = int(self.made)

    def update(self, numbers: set[int], handles: tuple[int, ...]) -> None:
        """Take the arguments of some launches anew; runs that were queued keep theirs."""
        for number in numbers:
            self._made(self._change(self.made, self.nodes[number], self.parameters[number]))
        self.handles = handles

    def _made(self, answer: tuple[Any, ...]) -> Any:
        code, *made = answer
        if int(code):
            raise failure(int(code), "recording launches as a graph")
        return made[0] if made else None

    def __del__(self) -> None:
        # A constructor that failed made nothing to destroy.
        if self.made is not None:
            self._destroy[0](self.made)
            self._destroy[1](self.graph)


def scalar_bits(given: float, dtype: DType) -> int:
    """Return a number's bits as a kernel takes it: bools as bytes, halves as their bits."""
    held = np.asarray(given).astype(dtype.numpy)
    if dtype in (float16, bfloat16):
        return int(held.view(np.uint16))
    return int(held.view(_BITS[dtype.itemsize]))


def load(driver: Any, image: bytes, kernel: Kernel, name: str, most: int) -> Function:
    """Return the function of an image; ``most``: the shared memory that needs no asking."""
    module = driver.moduleLoadData(image)
    function = driver.moduleGetFunction(module, name)
    shared = kernel.shared_bytes if kernel.shared_bytes > most else 0
    if shared:
        limit = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.funcSetAttribute(function, limit, shared)
    return Function(function, kernel, module, shared)
