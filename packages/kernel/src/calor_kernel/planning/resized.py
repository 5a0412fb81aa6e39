"""A plan from a template: a known graph at a new size.

Requirements: it takes microseconds to make and little memory, because a program may have thousands
of sizes. Behaves like a fresh plan; replaced by one for anything but a plain call, or after so many
calls that the fresh plan's optimizations pay off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from calor.graph.graph import Graph
from calor_kernel.planning.dependences import dependences
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.operand_cache import preparations
from calor_kernel.planning.plan import Plan, Variant
from calor_kernel.planning.recording import Recording
from calor_kernel.planning.template import Template, known

_NO_TARGETS: Final[dict[int, int]] = {}
# The number of calls before a fresh plan is made, with and without cached preparations; its bound
# calls are then compiled.
_PREPARING: Final = 3
_CALLS: Final = 16


class Resized(Plan):
    """The executable of a graph whose structure a template knows.

    Attributes common to all sizes belong to a class per template, made by :func:`resized_by`.
    ``graph`` is set if its constants differ from the template's.
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
        """The graph, computed on first use."""
        return self.template.graph_at(self._symbols)

    @cached_property
    def full(self) -> Plan:
        """The fresh plan of this graph."""
        return self.anew(self.engine, self.graph)

    def recording(self, targets: dict[int, int]) -> Recording:
        """Return the recording of the template, or of the fresh plan."""
        found = self.template.record(targets, self._symbols)
        return self.full.recording(targets) if found is None else found

    @property
    def settled(self) -> Plan | None:
        """The fresh plan, once it has replaced this one."""
        return self.full if self._calls > self.patience else None

    def __call__(self, inputs: Sequence[Any], into: Sequence[Any] | None = None) -> list[Any]:
        """Run; OutOfMemoryError before anything is written, or the typed error of an op."""
        self._calls += 1
        if self._calls > self.patience or self.engine.profiler is not None:
            return self.full(inputs, into)
        return super().__call__(inputs, into)


def resized_by(template: Template, anew: Callable[[Engine, Graph], Plan]) -> type[Resized]:
    """Return the class of a template's plans; ``anew`` makes a fresh plan of a graph."""
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
        # By position: each size has its own output pieces.
        "depends": dependences(made.draft.tasks, made.draft.outputs, made.status),
    }
    return type(Resized.__name__, (Resized,), common)
