"""A plan made from a template: a known graph at a new size.

Requirements: it costs microseconds to make, and holds little, for a program may meet thousands of
sizes; it runs as the plan does that is made anew, which takes
its place where anything but a plain call is asked of it, or when it has been called so often that
what such a plan learns is worth making it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from calor.graph.graph import Graph
from calor_kernel.planning.dependences import dependences
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.keeping import preparations
from calor_kernel.planning.plan import Plan, Variant
from calor_kernel.planning.recording import Recording
from calor_kernel.planning.template import Template, known

_NO_TARGETS: Final[dict[int, int]] = {}
# Calls after which a plan is made anew: it then keeps what it prepares of weights, if it does so,
# and its bound calls are compiled.
_PREPARING: Final = 3
_CALLS: Final = 16


class Resized(Plan):
    """The executable of a graph whose structure a template knows.

    What is the same for all sizes belongs to a class of the template's, made by :func:`resized_by`.
    ``graph`` is given where its constants are others than the template's graph has.
    """

    template: Template
    patience: int
    anew: Callable[[Engine, Graph], Plan]

    def __init__(
        self,
        graph: Graph | None,
        symbols: Sequence[int],
        numbers: Sequence[int],
        constants: bytes | None,
    ) -> None:
        base = self.template.base
        if graph is not None:
            self.graph = graph
        if constants is not None:
            self.constants = self._upload(constants)
            assert self.constants is not None
            self.constants_handle = self.constants.handle
        self.output_bytes = tuple([known(n, numbers) for n in base.outputs])
        self.base = Variant(self, _NO_TARGETS, base.record(numbers))
        self.required_bytes = self.base.required
        self._symbols = symbols
        self._variants = []
        self._calls = 0

    @cached_property
    def graph(self) -> Graph:  # type: ignore[override]
        """The graph, of which many are never asked for."""
        return self.template.graph_at(self._symbols)

    @cached_property
    def full(self) -> Plan:
        """The plan of this graph made anew."""
        return self.anew(self.engine, self.graph)

    def recording(self, targets: dict[int, int]) -> Recording:
        """Return the recording of the template, or of the plan made anew."""
        found = self.template.record(targets, self._symbols)
        return self.full.recording(targets) if found is None else found

    @property
    def settled(self) -> Plan | None:
        """The plan made anew, once it is what is called."""
        return self.full if self._calls > self.patience else None

    def __call__(self, inputs: Sequence[Any], into: Sequence[Any] | None = None) -> list[Any]:
        """Run; OutOfMemoryError before anything is written, or the typed error of an op."""
        self._calls += 1
        if self._calls > self.patience or self.engine.profiler is not None:
            return self.full(inputs, into)
        return super().__call__(inputs, into)


def resized_by(template: Template, anew: Callable[[Engine, Graph], Plan]) -> type[Resized]:
    """Return the class of the plans of a template; ``anew`` plans a graph for its sizes alone."""
    made = template.made
    basis = object.__new__(Plan)
    basis.begin(template.engine, made.draft, template.graph, made.works)
    common = {
        **basis.__dict__,
        "template": template,
        "anew": staticmethod(anew),
        "patience": _PREPARING if any(map(preparations, made.works)) else _CALLS,
        "keeper": None,
        "short": None,
        # By position: the outputs of each size are pieces of its own.
        "depends": dependences(made.draft.tasks, made.draft.outputs, made.status),
    }
    return type(Resized.__name__, (Resized,), common)
