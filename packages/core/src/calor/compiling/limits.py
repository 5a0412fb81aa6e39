"""Programs whose calls take no more memory than the user allows.

Requirements: the bytes are those of a call: what it takes, what it returns, and what is alive in
between. State that the program writes in place counts once. A backend that plans its memory decides
how; the error names the smallest number of bytes that would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from calor.backends.device import Device
from calor.backends.protocol import Executable
from calor.compiling.partition import compile_graph
from calor.errors import MemoryLimitError
from calor.graph.graph import Graph
from calor.units import bytes_text


class Limit(NamedTuple):
    """The bytes of a call, and the input in whose memory an output is written, by number."""

    nbytes: int
    in_place: Mapping[int, int]


def compile_within(device: Device, graph: Graph, limit: Limit, name: str) -> Executable:
    """Compile a graph so that a call takes at most ``limit`` bytes; MemoryLimitError if it cannot.

    UnsupportedError if the device does not take the graph whole.
    """
    given = sum(s.nbytes for i, s in zip(graph.inputs, graph.input_specs, strict=True)
                if i not in graph.host)  # fmt: skip
    try:
        return compile_graph(device, graph, within=(limit.nbytes - given, dict(limit.in_place)))
    except MemoryLimitError as error:
        least = given + error.smallest
        raise MemoryLimitError(
            f"{name} needs {_shown(least)} when all that helps is recomputed, and memory_limit is "
            f"{_shown(limit.nbytes)}; its arguments and state are {bytes_text(given)} of that: "
            f"raise the limit, or take a smaller batch",
            smallest=least,
        ) from None


def _shown(nbytes: int) -> str:
    return f"{nbytes} bytes ({bytes_text(nbytes)})"
