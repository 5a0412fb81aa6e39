"""A loop of launches as one CUDA graph with a conditional node.

Requirements: the host does not take part in the loop. After the launches of a step a kernel sets
the condition of the node, which repeats its graph while the condition is not zero (NVIDIA, CUDA
C++ Programming Guide, "Conditional Graph Nodes"). Nodes of a conditional graph are not updated for
other buffers; the graph is made anew, and a few are kept, as programs alternate between sets of
buffers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from calor_cupy.driver.device import StreamQueue
from calor_kernel.device.protocol import Slot, Step

from .launches import GRAPHS, DriverGraph, Repeated

# Drivers from this version on repeat a graph while a condition holds.
OLDEST: Final = 12040
# 0 leaves loops to the host.
VARIABLE: Final = "CALOR_CUDA_LOOPS"
NAME: Final = "set_condition"
# The driver provides the function that sets a condition.
SOURCE: Final = f"""
extern "C" __device__ void cudaGraphSetConditional(unsigned long long, unsigned);
extern "C" __global__ void {NAME}(
    unsigned long long condition, const unsigned char* flag, const int* words, int count, int apart)
{{
  unsigned more = *flag != 0;
  for (int i = 0; i < count; ++i) {{
    more = words[i * apart] != 0 ? 0 : more;
  }}
  cudaGraphSetConditional(condition, more);
}}
"""
_ONE: Final = (1, 1, 1)


def switched_on(version: int) -> bool:
    """Return whether loops run without the host, by a version of the driver."""
    return version >= OLDEST and os.environ.get(VARIABLE, "1") != "0"


class Loop:
    """Launches, and launches that follow while a bool is true, with a graph for a set of buffers.

    ``setter``: the function of the kernel that sets the condition. ``flag`` and ``words``: the bool
    and the words that end the loop, ``spaced`` of them with so many bytes between their starts.
    """

    def __init__(
        self,
        before: Repeated,
        body: Repeated,
        flag: Slot,
        words: Slot,
        spaced: tuple[int, int],
        setter: int,
    ) -> None:
        self.before, self.body = before, body
        self.flag, self.words, self.spaced = flag, words, spaced
        self.setter = setter
        self.graphs: list[LoopGraph] = []
        # The host launches no kernel itself.
        self.together: frozenset[int] = frozenset()

    def run(self, handles: Sequence[int], launch: Any) -> None:
        """Queue the loop."""
        given = tuple(handles)
        known = next((graph for graph in self.graphs if graph.handles == given), None)
        if known is None:
            known = self._graph(given)
        else:
            self.graphs.remove(known)
        self.graphs = [known, *self.graphs[: GRAPHS - 1]]
        self.before.graph_launch(known.executable, self.before.stream)

    def _graph(self, given: tuple[int, ...]) -> LoopGraph:
        """Return a graph for these buffers."""
        self.before.put(given)
        self.body.put(given)
        count, apart = self.spaced
        flag, words = (given[s.number] + s.offset for s in (self.flag, self.words))
        return LoopGraph(self, given, (flag, words, count, apart // 4))


class LoopGraph(DriverGraph):
    """A graph with a conditional node; ``handles`` are its buffers, ``tested`` the setter's."""

    def __init__(
        self, loop: Loop, handles: tuple[int, ...], tested: tuple[int, int, int, int]
    ) -> None:
        from cuda.bindings import driver

        super().__init__(driver, handles)
        context = self._made(driver.cuCtxGetCurrent())
        condition = self._made(driver.cuGraphConditionalHandleCreate(self.graph, context, 0, 0))
        test = self._setter(loop.setter, (int(condition), *tested))
        together = loop.before.together | loop.body.together
        last = self._add(self.graph, [*loop.before.launches, test], together)
        body = self._conditional(condition, context, last)
        self._add(body, [*loop.body.launches, test], together)
        self._instantiate(driver)

    def _setter(self, function: int, arguments: tuple[int, ...]) -> tuple[int, ...]:
        """Return the launch that sets the condition; its arguments are copied by each node."""
        self.cells = np.array(arguments, np.uint64)
        self.places = self.cells.ctypes.data + 8 * np.arange(len(arguments), dtype=np.uint64)
        return (function, *_ONE, *_ONE, 0, 0, self.places.ctypes.data, 0)

    def _add(
        self, graph: Any, launches: Sequence[tuple[int, ...]], together: frozenset[int]
    ) -> list[Any]:
        """Add launches to a graph, each after the one before it; return the last node."""
        last: list[Any] = []
        for launch in launches:
            _, node = self._add_launch(graph, launch, last, together)
            last = [node]
        return last

    def _conditional(self, condition: Any, context: Any, after: list[Any]) -> Any:
        """Add the node that repeats a graph, and return that graph."""
        driver = self._driver
        said = driver.CUgraphNodeParams()
        said.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        said.conditional.handle = condition
        said.conditional.type = driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
        said.conditional.size = 1
        said.conditional.ctx = context
        # Version 2 of CUDA 12 is the first of CUDA 13.
        add = getattr(driver, "cuGraphAddNode_v2", driver.cuGraphAddNode)
        self._made(add(self.graph, after, None, len(after), said))
        return said.conditional.phGraph_out[0]


class LoopQueue(StreamQueue):
    """A queue of loops; ``compile`` is the toolchain's."""

    compile: Callable[[str, str], bytes]

    def record_loop(
        self,
        before: Sequence[Step],
        body: Sequence[Step],
        slots: int,
        flag: Slot,
        words: Slot,
        spaced: tuple[int, int],
    ) -> Loop:
        """Return a loop that runs without the host."""
        first, again = self.record(before, slots), self.record(body, slots)
        assert isinstance(first, Repeated)
        assert isinstance(again, Repeated)
        return Loop(first, again, flag, words, spaced, self._setter)

    @cached_property
    def _setter(self) -> int:
        """The function that sets the condition of a loop."""
        driver = self.on.driver
        with self.on.told("loading the kernel of loops"):
            self.on.use()
            module = driver.moduleLoadData(self.compile(SOURCE, NAME))
            return driver.moduleGetFunction(module, NAME)
