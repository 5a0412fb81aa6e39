"""Compiling pending operations when a value is read, which not every device does.

A device whose compiler takes minutes states that it is not interactive: it compiles programs of
``calor.jit`` and nothing else, so that no print starts its compiler. If the user chose companions,
an interactive one computes the value, and that is counted; otherwise the read is refused.
"""

from __future__ import annotations

from calor.backends.device import Device
from calor.backends.protocol import Executable
from calor.compiling.partition import compile_graph
from calor.compiling.partitioned import PartitionedExecutable, Stage
from calor.errors import UnsupportedError
from calor.graph.graph import Graph
from calor.graph.segments import cut


def compile_pending(device: Device, graph: Graph) -> Executable:
    """Compile a pending graph; UnsupportedError when the device is not interactive.

    Graphs without nodes are compiled by every device: they only copy.
    """
    state = device.info.feature("interactive")
    if state.level != "impossible" or not graph.nodes:
        return compile_graph(device, graph)
    for companion in device.companions:
        if companion.info.feature("interactive").level != "impossible":
            (segment,) = cut(graph, [companion] * len(graph.nodes))
            stage = Stage(companion, compile_graph(companion, segment.graph), segment)
            why = f"{device.name} is not interactive ({state.reason})"
            reasons = dict.fromkeys(range(len(graph.nodes)), why)
            return PartitionedExecutable(device, graph, [stage], reasons)
    raise UnsupportedError(
        f"{device.name} does not compile pending operations when a value is read "
        f"({state.reason}); put the computation into a function and compile it with calor.jit, or "
        f"compute on another device: x.to('numpy')"
    )
