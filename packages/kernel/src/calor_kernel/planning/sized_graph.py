"""The plans of a graph with symbolic sizes, found without making the graph of each size.

Requirements: a known program at a new size costs what its numbers cost. The graph takes the form in
which graphs are planned, once, by the same passes as the graph for one size; then all numbers of
that form are one generated function of the sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

from calor.backends.protocol import Executable
from calor.errors import CalorError
from calor.graph.attributes import Scalar, SizedScalar
from calor.graph.decompose import decompose, plain
from calor.graph.graph import Graph
from calor.graph.open_graph import OpenGraph
from calor.sizes import Function, Size, TooManyGuards, Trace, function_of, hint_of, text_of
from calor_kernel.planning.compiling import planned_form, refusals
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.hosted import with_factors
from calor_kernel.planning.structure import Structure, structure_of

# How far the sizes that a template is learned from are from those of the call.
_STEPS: Final = (1, 34, 7, 117, 18, 61, 253, 2)


class Unfit(Exception):
    """The graph with symbolic sizes has no plans of its own."""


class SizedPlans:
    """The plans of one graph; Unfit if there can be none.

    ``known`` is the graph for the hints of the trace, which decides what the device takes.
    ``lasting``: the inputs that are expected to stay the same, as weights do.
    """

    def __init__(
        self, engine: Engine, graph: Graph, known: Graph, trace: Trace, lasting: Collection[int]
    ) -> None:
        self.engine = engine
        self.lasting = lasting
        graph, known = plain(graph), plain(known)
        while reasons := frozenset(refusals(engine, known)):
            smaller = decompose(known, reasons)
            if smaller is known:
                raise Unfit
            graph, known = decompose(graph, reasons), smaller
        if with_factors(engine, known):
            raise Unfit
        graph, known = planned_form(engine, graph), planned_form(engine, known)
        sized, found = structure_of(graph), structure_of(known)
        if sized is None or found is None or sized.key != found.key:
            raise Unfit
        if tuple(map(hint_of, sized.numbers)) != found.numbers:
            raise Unfit
        self.key = sized.key
        self._bits = sized.bits
        bits: tuple[Any, ...] = sized.bits
        loose = [(k, one) for k, one in enumerate(bits) if type(one) is SizedScalar]
        self._loose = [(k, one.dtype) for k, one in loose]
        numbers: tuple[Any, ...] = (*sized.numbers, *(one.size for _, one in loose))
        self._count = len(sized.numbers)
        atoms = frozenset(a for n in numbers if isinstance(n, Size) for a in n.atoms)
        self._open = OpenGraph(graph, trace)
        trace.closed = True
        self._numbers: Function = function_of(trace, [text_of(n) for n in numbers], atoms)

    def at(self, symbols: Sequence[int]) -> Executable | None:
        """Return the plan for some sizes; None if a guard fails, or no template fits."""
        try:
            numbers = self._numbers(*symbols)
        except (ArithmeticError, ValueError):
            return None
        if numbers is None:
            return None
        bits = self._bits
        if self._loose:
            numbers, values = numbers[: self._count], numbers[self._count :]
            changed = list(bits)
            for (k, dtype), value in zip(self._loose, values, strict=True):
                changed[k] = Scalar.of(value, dtype).bits
            bits = tuple(changed)
        structure = Structure(self.key, numbers, bits)
        make = partial(self._graph, tuple(symbols))
        replanning = self.engine.replanning
        found = replanning.resized(structure, make)
        if found is None:
            places = [k for k, _ in self._loose]
            samples = self._samples(symbols)
            found = replanning.learned(structure, make, samples, places, self.lasting)
        return found

    def _samples(self, symbols: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the numbers of the form at some other sizes, which show how they depend on these.

        Each size goes its own way, near and far, so that none looks like another one, like a
        multiple of it or like a constant. Where no such sizes fit, as one of them must be what it
        is, the others change alone.
        """
        every = range(len(symbols))
        return self._at(symbols, every) or [one for k in every for one in self._at(symbols, [k])]

    def _at(self, symbols: Sequence[int], changed: Collection[int]) -> list[tuple[int, ...]]:
        """Return the numbers of the form at sizes of which some are changed, where guards hold."""
        found: list[tuple[int, ...]] = []
        for turn in range(len(_STEPS)):
            other = [
                n + k + _STEPS[(turn + 3 * k) % len(_STEPS)] if k in changed else n
                for k, n in enumerate(symbols)
            ]
            try:
                numbers = self._numbers(*other)
            except (ArithmeticError, ValueError):
                continue
            if numbers is not None:
                found.append(numbers[: self._count])
        return found

    def _graph(self, symbols: Sequence[int]) -> Graph:
        numbers = self._open.numbers(*symbols)
        assert numbers is not None
        return self._open.at(numbers)


def sized_plans(
    engine: Engine, graph: Graph, known: Graph, trace: Trace, lasting: Collection[int]
) -> SizedPlans | None:
    """Return the plans of a graph with symbolic sizes, None if there can be none."""
    try:
        return SizedPlans(engine, graph, known, trace, lasting)
    except (
        Unfit, TooManyGuards, CalorError, ArithmeticError, AssertionError, AttributeError,
        LookupError, TypeError, ValueError,
    ):  # fmt: skip
        return None
