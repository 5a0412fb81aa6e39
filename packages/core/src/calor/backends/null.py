"""The null backend: it compiles every graph and runs nothing, so timings show core alone.

Requirements: a call costs as little as Python allows. A buffer only records its size, so the
results of an executable are the same placeholders at every call; ``strict`` would report that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from calor.backends.protocol import (
    FULL,
    Backend,
    Buffer,
    Claim,
    Executable,
    Info,
    MemoryFigures,
    impossible,
)
from calor.graph.graph import Graph
from calor.specs import Spec

_NO_MEMORY = impossible("its buffers have no memory")


class NullBuffer:
    """A placeholder of a size."""

    __slots__ = ("nbytes",)

    exported: Final = False

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class NullExecutable:
    """Returns its placeholders."""

    __slots__ = ("_outputs", "required_bytes")

    def __init__(self, graph: Graph) -> None:
        self.required_bytes = 0
        self._outputs: list[Any] = [NullBuffer(s.nbytes) for s in graph.output_specs]

    def __call__(
        self, inputs: Sequence[Any], into: Sequence[Buffer | None] | None = None
    ) -> list[Any]:
        """Return the placeholders; the list is not the caller's to change."""
        return self._outputs


class NullBackend(Backend):
    """One device, ``null:0``, that takes every graph; what it holds reads as zeros.

    >>> import calor
    >>> calor.ones(2, device="null").tolist()
    [0.0, 0.0]
    """

    name = "null"

    def __init__(self) -> None:
        self._info = Info(
            description="Compiles everything and computes nothing, for measuring overheads",
            features={
                "interactive": FULL,
                "dynamic_shapes": FULL,
                "control_flow": FULL,
                "in_place": FULL,
                "fork": FULL,
                "host_views": _NO_MEMORY,
                "dlpack": _NO_MEMORY,
                "memory_limit": _NO_MEMORY,
                "quantized_only": impossible("it takes graphs of every dtype"),
            },
        )

    def enumerate(self) -> int:
        """Return 1."""
        return 1

    def info(self, index: int) -> Info:
        """Return the description: every dtype and op is taken."""
        return self._info

    def upload(self, index: int, array: np.ndarray[Any, Any]) -> NullBuffer:
        """Return a placeholder; the elements are forgotten."""
        return NullBuffer(array.nbytes)

    def download(self, index: int, buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        """Return zeros."""
        return np.zeros(spec.shape, spec.dtype.numpy)

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> NullBuffer:
        """Return another placeholder."""
        return NullBuffer(buffer.nbytes)

    def claim(self, index: int, graph: Graph) -> Claim:
        """Take every node, kept composites included."""
        return Claim((tuple(range(len(graph.nodes))),) if graph.nodes else ())

    def compile(self, index: int, graph: Graph) -> Executable:
        """Prepare the placeholders of the outputs."""
        return NullExecutable(graph)

    def synchronize(self, index: int) -> None:
        """Return at once."""

    def memory(self, index: int) -> MemoryFigures:
        """Return zeros: no buffer has memory."""
        return MemoryFigures(0, 0, None)
