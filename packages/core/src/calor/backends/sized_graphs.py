"""What a backend may have beside `compile`: plans of a graph for many sizes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from calor.graph.graph import Graph
from calor.sizes import Trace


class SizedGraph(Protocol):
    """A graph with symbolic sizes that a device has plans for."""

    def at(self, symbols: Sequence[int]) -> Any:
        """Return the executable for some sizes.

        Parameters
        ----------
        symbols : sequence of int
            The sizes, in the order of the trace's symbols.

        Returns
        -------
        Executable or None
            The executable. None if a guard of the trace fails, or the device has no plan for these
            sizes; the graph for them is then compiled.
        """
        ...


class PlansSizes:
    """The part of a backend for graphs with symbolic sizes."""

    def sized(
        self, index: int, graph: Graph, known: Graph, trace: Trace, lasting: Collection[int]
    ) -> SizedGraph | None:
        """Return what finds the executable of a graph at many sizes; None if the device cannot.

        A device without such plans compiles the graph of each size.

        Parameters
        ----------
        index : int
            The device.
        graph : Graph
            The graph with symbolic sizes.
        known : Graph
            The same graph for the hints of the sizes.
        trace : Trace
            The trace of the sizes, of which further questions may be asked now.
        lasting : collection of int
            The inputs that calls of all sizes are expected to give unchanged, as weights are. They
            may still change.

        Returns
        -------
        SizedGraph or None
            What finds the executables.
        """
        return None
