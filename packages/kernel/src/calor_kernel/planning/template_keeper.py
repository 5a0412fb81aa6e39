"""Preparations of a template: what is kept for calls of all its sizes.

Requirements: packed weights do not depend on the sizes of a program, so they are packed once, and
the first call at a new size finds them. Preparations whose memory or launches depend on a size are
done at each call.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from calor_kernel.contract.choices import is_size
from calor_kernel.contract.work import Refusal, Work, flags_of
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.planning.operand_cache import Keeper
from calor_kernel.planning.plan import Plan
from calor_kernel.planning.preparations import preparations, written
from calor_kernel.planning.recording import Recorder, Recording
from calor_kernel.planning.symbolic import Symbolic, sizes_in
from calor_kernel.planning.template import OpenRecording, Template, attempt, open_recording
from calor_kernel.planning.values import Piece, Task


@dataclass(frozen=True, slots=True)
class KeptForSizes:
    """The open recording that reads kept memory, and that memory."""

    rest: OpenRecording
    memory: KernelBuffer


@dataclass(frozen=True, slots=True)
class _Kept:
    preparing: Recording
    rest: OpenRecording
    nbytes: int


class TemplateKeeper(Keeper):
    """Watches the operands that a template's plans prepare. ``plan`` holds what these share."""

    def __init__(self, plan: Plan, watched: Sequence[int], template: Template) -> None:
        super().__init__(plan, watched)
        self.template = template

    @classmethod
    def of_template(cls, plan: Plan, template: Template) -> TemplateKeeper | None:
        """Return the keeper of a template; None if its plans prepare nothing that they share."""
        made = Keeper.of(plan)
        if made is None or (template.made.patches and not made.watched):
            return None
        return cls(plan, made.watched, template)

    def kept(self, inputs: Sequence[Any]) -> KeptForSizes | None:
        """Return the recording for calls with these inputs, None if nothing is kept for them."""
        return cast("KeptForSizes | None", self.variant(inputs))

    @property
    def usual(self) -> Any:
        return None

    def room(self, kept: Any) -> bool:
        return self.plan.pool.has_room(kept.nbytes, 0)

    def found(self, kept: Any, memory: KernelBuffer) -> Any:
        return KeptForSizes(kept.rest, memory)

    def _plan(self, stay: Collection[int]) -> Any:
        return attempt(lambda: self._planned(stay))

    def _planned(self, stay: Collection[int]) -> _Kept | None:
        plan, made = self.plan, self.template.made
        align = plan.engine.device.info.align
        works: list[Work] = []
        pieces: dict[tuple[int, int], Piece] = {}
        done: set[tuple[int, int]] = set()
        end = 0
        for number, (task, usual) in enumerate(zip(plan.draft.tasks, plan.works, strict=True)):
            staying = frozenset(
                k
                for k, value in enumerate(task.inputs)
                if (value.piece.kind == "constant" and not self._varies(value.piece))
                or (value.piece.kind == "input" and value.piece.number in stay)
            )
            work = self._sized(made, task, usual, staying)
            works.append(work)
            for order, operands in preparations(work).items():
                places = written(work, order)
                sized = sizes_in(work.launches[order]) or any(
                    is_size(work.scratch[place]) for place in places
                )
                if sized or not operands <= staying:
                    continue
                done.add((number, order))
                for place in places:
                    if (number, place) not in pieces:
                        pieces[number, place] = Piece("kept", work.scratch[place], end)
                        end += -(-max(work.scratch[place], 1) // align) * align
        if not done:
            return None
        recorder = Recorder(plan.engine, plan.draft, works, plan.status)
        every = {(n, order) for n, work in enumerate(works) for order in range(len(work.launches))}
        preparing = recorder.record(kept=pieces, without=every - done)
        symbolic = Symbolic(made.trace, recorder, made.patches, made.lowerings)
        rest = open_recording(plan.engine, symbolic, {}, pieces, done)
        return _Kept(preparing, rest, end)

    def _varies(self, constant: Piece) -> bool:
        """Return whether graphs of the template differ in the bytes of a constant."""
        places = [place for place, _ in self.template.made.patches]
        if is_size(constant.number):
            return any(place is constant.number for place in places)
        return any(not is_size(place) and place == constant.number for place in places)

    def _sized(self, made: Symbolic, task: Task, usual: Work, staying: frozenset[int]) -> Work:
        """Return the work for a task with some unchanged operands."""
        engine = self.plan.engine
        if task.members or not staying or task.op not in engine.lowerings or engine.deterministic:
            return usual
        views = tuple(v.view for v in task.inputs)
        found = made.lowerings.ask(
            task.op, task.attributes, views, task.results, kept=staying, pitches=task.pitches
        )
        if isinstance(found, Refusal) or not found:
            return usual
        fits = flags_of([found[0]]) <= self.plan.flags and found[0].failures == usual.failures
        return found[0] if fits else usual
