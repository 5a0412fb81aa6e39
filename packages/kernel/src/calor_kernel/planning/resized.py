"""A plan made from a template: a known graph at a new size.

Requirements: it costs microseconds to make; it runs as the plan does that is made anew, which takes
its place where anything but a plain call is asked of it, or when it has been called so often that
what such a plan learns is worth making it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from calor.graph.graph import Graph
from calor_kernel.planning.outcomes import dependences
from calor_kernel.planning.plan import Plan, Variant
from calor_kernel.planning.recording import Recording
from calor_kernel.planning.template import Template
from calor_kernel.planning.values import Draft, Piece

if TYPE_CHECKING:
    from calor_kernel.runtime.engine import Engine

# Calls after which a plan is made anew, which then keeps what it prepares of weights.
_CALLS: Final = 16
_NO_TARGETS: Final[dict[int, int]] = {}

Anew = Callable[["Engine", Graph], Plan]


class Resized(Plan):
    """The executable of a graph whose structure a template knows."""

    def __init__(
        self,
        shared: Mapping[str, Any],
        template: Template,
        graph: Graph,
        numbers: Sequence[int],
        constants: bytes | None,
        anew: Anew,
    ) -> None:
        # What is the same for all sizes is taken over from a plan that was made for one.
        self.__dict__.update(shared)
        self.graph = graph
        known = template.draft
        sizes = [n if isinstance(n, int) else n.of(numbers) for n in template.outputs]
        outputs = [Piece("made", n) for n in sizes]
        self.draft = Draft(
            graph, known.tasks, outputs, known.constants, known.hosts, known.host_bytes
        )
        arena = template.arena
        recording = Recording(
            (template.record(numbers, {o.step: o.function(numbers) for o in template.opened}),),
            (),
            template.launches,
            arena if isinstance(arena, int) else arena.of(numbers),
        )
        if constants is not None:
            self.constants = self._upload(constants)
            assert self.constants is not None
            self.constants_handle = self.constants.handle
        self.base = Variant(self, _NO_TARGETS, recording)
        self.required_bytes = self.base.required
        self._anew = anew
        self._full: Plan | None = None
        self._calls = 0

    def __call__(self, inputs: Sequence[Any], into: Sequence[Any] | None = None) -> list[Any]:
        """Run; OutOfMemoryError before anything is written, or the typed error of an op."""
        if self._full is None:
            self._calls += 1
            plain = into is None and self.engine.profiler is None
            if plain and self._calls <= _CALLS:
                return self._run(self.base, inputs, [None] * len(self.draft.outputs))
            self._full = self._anew(self.engine, self.graph)
        return self._full(inputs, into)


def shared_by(plan: Plan, template: Template) -> Mapping[str, Any]:
    """Return what plans of a template have in common with a plan that was made anew."""
    return {
        **plan.__dict__,
        "works": list(template.works),
        "status": template.status,
        "keeper": None,
        "_short": None,
        "_variants": [],
        # By position: the outputs of each size are pieces of its own.
        "_depends": dependences(template.draft.tasks, template.draft.outputs, template.status),
    }
