"""A plan: a graph's launches, recorded once, and its call.

Requirements: a call allocates results and arena from the pool, runs one recorded list of the
device, and wraps buffers: about two microseconds of Python beside the queue. All memory is reserved
before the first write. Outputs are written in place if nothing else reads the old contents. The
target buffers are known only at a call, so each pattern of targets has its own recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from calor.dtypes import uint32
from calor.errors import DeviceError, OutOfMemoryError
from calor.graph.graph import Graph
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.work import Work, flags_of
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.outcomes import Outcome, inherit, verify
from calor_kernel.device.pool import room_for
from calor_kernel.device.protocol import Memory
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.recording import (
    APART,
    SHARED,
    Laid,
    Recorder,
    Recording,
    Targets,
    behind,
)
from calor_kernel.planning.side_by_side import side_by_side
from calor_kernel.planning.values import Depends, Draft, HostBlock

if TYPE_CHECKING:
    from calor_kernel.device.board import Page

# The maximum number of target patterns for which a plan keeps recordings.
_PATTERNS: Final = 8
_NO_TARGETS: Final[dict[int, int]] = {}


class Variant:
    """A recording for a pattern of target buffers, and the memory that its call allocates.

    ``kept``: the memory with cached prepared operands, and ``lay``: how launches that read it are
    laid out for targets. ``guarded``: whether targets stay unchanged if an op fails.
    """

    __slots__ = (
        *("arena", "fresh", "guarded", "kept", "lay", "pairs", "recording", "required"),
        "targets",
    )

    def __init__(
        self,
        plan: Plan,
        targets: dict[int, int],
        recording: Recording,
        kept: KernelBuffer | None = None,
        private: bool = False,
        lay: Callable[[Targets], Laid] | None = None,
    ) -> None:
        self.targets = targets
        self.guarded = bool(targets) and not private
        self.recording = recording
        self.kept = kept
        self.lay = lay
        self.pairs = [(o, i) for o, i in targets.items() if i >= 0] if targets else []
        idle = plan.pool.bin
        self.fresh = [
            (o, idle(room := room_for(nbytes)), room, nbytes)
            for o, nbytes in enumerate(plan.output_bytes)
            if o not in targets
        ]
        arena = recording.arena
        # The pool's idle list for the arena, and its size class; None without an arena.
        self.arena = (idle(room := room_for(arena)), room) if arena else None
        self.required = sum([f[3] for f in self.fresh]) + arena + plan.block_bytes

    def fits(self, inputs: Sequence[Any], into: Sequence[Any]) -> bool:
        """Return whether a call's targets are the same inputs as in this recording.

        The caller holds each target exclusively, so no other input can share one.
        """
        if into.count(None) != len(self.fresh) or len(self.pairs) != len(self.targets):
            return False
        return [into[o] for o, _ in self.pairs] == [inputs[i] for _, i in self.pairs]


@dataclass(frozen=True, slots=True)
class State:
    """Inputs by number, their stamps, and the variant that depends on them."""

    inputs: tuple[int, ...]
    stamps: list[int]
    variant: Variant
    since: float


Short = Callable[[Sequence[Any]], list[Any] | None]
"""Runs a plan on the fast path; returns None if it did nothing."""


class Keeping(Protocol):
    """Chooses the variant of a call by the operands that remain unchanged.

    ``state`` is what the choice depends on now; it is a new object after each change.
    """

    state: State | None

    def variant(self, inputs: Sequence[Any]) -> Variant:
        """Return the variant for these inputs."""


class Plan:
    """The executable of a graph without control flow.

    ``works``: the work of each task; by default those that the tuner chooses, with equal work side
    by side.
    :func:`calor_kernel.planning.replanning.plan_anew` sets ``keeper`` and ``short``. ``again``: the
    ops that run once more because of a memory limit.
    """

    again: tuple[str, ...] = ()

    def __init__(self, engine: Engine, draft: Draft, works: Sequence[Work] | None = None) -> None:
        if works is None:
            chosen = engine.tuner.choose_all(draft.tasks)
            draft, works = side_by_side(draft, chosen, engine.device.info)
        self.begin(engine, draft, draft.graph, works)
        self.output_bytes: Sequence[int] = [p.nbytes for p in draft.outputs]
        self.graph: Graph = draft.graph
        self.recorder = Recorder(engine, draft, self.works, self.status)
        self.base = Variant(self, _NO_TARGETS, self.recorder.record())
        self.required_bytes = self.base.required
        self._variants: list[Variant] = []
        # How scans run several steps of this plan, by the form of the scan.
        self.together: dict[Any, Any] = {}
        self.keeper: Keeping | None = None
        self.short: Short | None = None

    def begin(self, engine: Engine, draft: Draft, graph: Graph, works: Sequence[Work]) -> None:
        """Set the attributes derived from a draft, before its launches are recorded."""
        self.engine = engine
        self.draft = draft
        self.pool = engine.pool
        self.queue = engine.device.queue
        self.works = works
        align = engine.device.info.align
        self.status = draft.status(works, align)
        self.block_bytes = draft.host_bytes + len(self.status) * align
        self.block = HostBlock(draft.hosts, self.block_bytes)
        self._block_room = room_for(self.block_bytes)
        self._blocks = self.pool.bin(self._block_room)
        self.given = [i for i in graph.inputs if i not in graph.host]
        # The op with the largest result, to blame when memory runs out.
        sizes = [sum(hinted(p.nbytes) for p in t.outputs) for t in draft.tasks]
        self.largest = draft.tasks[sizes.index(max(sizes))].op if sizes else None
        self.flags = flags_of(works)
        self._nothing = engine.nothing.handle
        self.set_constants(draft.constants)

    @property
    def settled(self) -> Plan | None:
        """The plan for later calls as well; None while it may still be replaced."""
        return self

    def set_constants(self, constants: bytes) -> None:
        """Upload the constants, followed by zeroed flags."""
        if self.flags:
            place = behind(constants, self.engine.device.info.align)
            constants = constants.ljust(place + self.flags * uint32.itemsize, b"\0")
        self.constants: KernelBuffer | None = None
        self.constants_handle = self._nothing
        if constants:
            self.constants = self.pool.uncounted(len(constants))
            self.constants_handle = self.constants.handle
            array = np.frombuffer(constants, np.uint8)
            self.pool.memory.copy_in(self.constants_handle, 0, array)

    def __call__(self, inputs: Sequence[Any], into: Sequence[Any] | None = None) -> list[Any]:
        """Run; OutOfMemoryError before anything is written, or the typed error of an op."""
        if self.engine.tells_late:
            # The draft to search for the culprit if a kernel later breaks the device.
            self.engine.last = self.draft
        if into is None:
            if self.short is not None:
                try:
                    made = self.short(inputs)
                except DeviceError as error:
                    error.op = error.op or self.draft.named
                    raise
                if made is not None:
                    return made
            variant = self.base if self.keeper is None else self.keeper.variant(inputs)
            return self._run(variant, inputs, [None] * len(self.draft.outputs))
        return self._into(inputs, into, private=False)

    def onward(self, inputs: Sequence[Any], into: Sequence[Any]) -> list[Any]:
        """Run as a call does, with targets that are the caller's alone.

        They are dropped if an op fails, so the run does not wait to know that none did.
        """
        if self.engine.tells_late:
            self.engine.last = self.draft
        return self._into(inputs, into, private=True)

    def _into(self, inputs: Sequence[Any], into: Sequence[Any], private: bool) -> list[Any]:
        for target in into:
            if target is not None and target.stamp > 0:
                target.stamp = 0
        known = (v for v in self._variants if v.guarded is not private and v.fits(inputs, into))
        variant = next(known, None) or self._variant(inputs, into, private)
        if variant.required > self.required_bytes:
            made = self._run(self.base, inputs, [None] * len(into))
            return copied(self.pool.memory, made, into)
        return self._run(variant, inputs, list(into))

    def _run(self, variant: Variant, inputs: Sequence[Any], outputs: list[Any]) -> list[Any]:
        """Run a recording; ``outputs`` are the targets, None for a buffer to allocate."""
        pool = self.pool
        if pool.in_use + variant.required > pool.ceiling:
            pool.reserve(variant.required, self.largest)
        block = arena = own = None
        page: Page | None = None
        try:
            # The largest block first, before smaller requests split the one that fits it.
            if variant.arena is not None:
                idle, room = variant.arena
                try:
                    arena = idle.pop(), room
                except IndexError:
                    arena = pool.find(room)
            for number, idle, room, nbytes in variant.fresh:
                try:
                    handle = idle.pop()
                except IndexError:
                    handle, room = pool.find(room)
                    idle = pool.bin(room)
                pool.in_use += nbytes
                outputs[number] = KernelBuffer(pool, handle, idle, nbytes)
            late, words = self.engine.tells_late, self._nothing
            if late and variant.guarded:
                # An in-place result must not be computed from a failed input.
                for i in self.given:
                    verify(inputs[i])
            if late and self.status and not variant.guarded:
                page, start, words = self.engine.board.take(
                    self.block_bytes, bool(self.draft.host_bytes)
                )
            elif self.block_bytes:
                try:
                    block = self._blocks.pop(), self._block_room
                except IndexError:
                    block = pool.find(self._block_room)
                words = block[0]
            self._launch(variant, inputs, outputs, words, arena)
            if page is not None:
                own, page = self.engine.board.put(page, start, self), None
            if late:
                self._postpone(inputs, outputs, own)
        except OutOfMemoryError as error:
            error.op = error.op or self.largest
            raise
        except DeviceError as error:
            error.op = error.op or self.draft.named
            raise
        finally:
            if arena is not None:
                pool.give(*arena, 0)
            if block is not None:
                pool.give(*block, 0)
            if page is not None:
                self.engine.board.leave(page)
        return outputs

    def _launch(
        self,
        variant: Variant,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        words: Any,
        arena: tuple[Any, int] | None,
    ) -> None:
        handles = [inputs[i].handle for i in self.given]
        nothing, recording, play = self._nothing, variant.recording, self.engine.play
        handles += (
            self.constants_handle,
            words,
            nothing if arena is None else arena[0],
            nothing if variant.kept is None else variant.kept.handle,
        )
        handles += [b.handle for b in outputs]
        now = variant.guarded or not self.engine.tells_late
        # Words that are reported later are zero already.
        if self.draft.host_bytes or (self.status and now):
            packed, buffers = self.block.pack(inputs)
            memory = self.pool.memory
            memory.write(words, packed)
            for place, buffer in buffers:
                verify(buffer)
                memory.copy(words, place, buffer.handle, 0, buffer.nbytes)
        play(recording.lists[0], recording.launches[0], handles)
        if self.status and now:
            for error in self.errors(words).values():
                raise error
            if len(recording.lists) > 1:
                play(recording.lists[1], recording.launches[1], handles)

    def prepare(self, recording: Recording, inputs: Sequence[Any], kept: KernelBuffer) -> None:
        """Run the launches that write only kept memory."""
        nothing = self._nothing
        handles = [inputs[i].handle for i in self.given]
        handles += (self.constants_handle, nothing, nothing, kept.handle)
        handles += [nothing] * len(self.draft.outputs)
        self.engine.play(recording.lists[0], recording.launches[0], handles)

    def errors(self, handle: Any) -> dict[int, DeviceError]:
        """Return the errors that kernels stored in a block, by task in graph order."""
        self.queue.synchronize()
        start = self.draft.host_bytes
        words = np.empty((self.block_bytes - start) // 4, np.int32)
        self.pool.memory.copy_out(handle, start, words)
        return self.errors_in(words, -start)

    def errors_in(self, words: Any, start: int) -> dict[int, DeviceError]:
        """Return the errors among the words of a block that begins at byte ``start``."""
        errors: dict[int, DeviceError] = {}
        for number, place in self.status.items():
            found = int(words[(start + place) // 4])
            if found:
                kind, message = self.works[number].failures[found - 1]
                errors[number] = kind(message, op=self.draft.tasks[number].op)
        return errors

    # Deferred failures.
    @cached_property
    def depends(self) -> list[Depends]:
        """For each output: the inputs and the fallible tasks on which it depends."""
        return self.draft.dependences(self.status)

    def _postpone(self, inputs: Sequence[Any], outputs: Sequence[Any], own: Outcome | None) -> None:
        """Attach the possible failures to the results."""
        # A step of training has hundreds of inputs and outputs, and rarely an input that may fail.
        doubtful = [i for i in self.given if inputs[i].outcomes]
        if own is None and not doubtful:
            for buffer in outputs:
                buffer.outcomes = ()
            return
        for number, buffer in enumerate(outputs):
            read, failing = self.depends[number]
            inherit(buffer, [inputs[i] for i in doubtful if i in read])
            if own is not None and failing:
                buffer.outcomes = (*buffer.outcomes, (own, failing))

    # In place.
    def recording(self, targets: dict[int, int]) -> Recording:
        """Return the recording for outputs that are written to targets."""
        return self.recorder.record(targets)

    def _variant(self, inputs: Sequence[Any], into: Sequence[Any], private: bool) -> Variant:
        """Return the recording for a pattern of targets, recorded at its first use."""
        targets: dict[int, int] = {}
        for output, target in enumerate(into):
            if target is not None:
                same = [i for i, given in enumerate(inputs) if given is target]
                targets[output] = APART if not same else same[0] if len(same) == 1 else SHARED
        for variant in self._variants:
            if variant.targets == targets and variant.guarded is not private:
                return variant
        made = Variant(
            self,
            targets,
            self.recorder.record(targets, private=True) if private else self.recording(targets),
            private=private,
        )
        self._variants = [made, *self._variants[: _PATTERNS - 1]]
        return made


def copied(memory: Memory, made: list[Any], into: Sequence[Any]) -> list[Any]:
    """Return separately computed results, copied to their targets; None is no target."""
    for number, target in enumerate(into):
        if target is not None:
            source = made[number]
            verify(source)
            target.outcomes = ()
            memory.copy(target.handle, 0, source.handle, 0, source.nbytes)
            made[number] = target
    return made
