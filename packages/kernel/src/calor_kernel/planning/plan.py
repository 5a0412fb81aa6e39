"""A plan: a graph's launches, recorded once, and its call.

Requirements: a call allocates results and arena from the pool, runs one recorded list of the
device, and wraps buffers: about two microseconds of Python beside the queue. All memory is reserved
before the first write. Outputs are written in place if nothing else reads the old contents. The
target buffers are known only at a call, so each pattern of targets has its own recording. Targets
stay unchanged if an op fails: a guard on the device stops the launches that write them, or the host
waits before it queues these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from calor.counting import ONE_AT_A_TIME, count
from calor.dtypes import uint32
from calor.errors import DeviceError, OutOfMemoryError
from calor.graph.graph import Graph
from calor.varying_sizes import getter
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.failures import Failures, error_of
from calor_kernel.contract.work import Work, flags_of
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.guards import BEFORE, Above, Guard
from calor_kernel.device.outcomes import Outcome, inherit, pending, verify
from calor_kernel.device.pool import Pool, room_for
from calor_kernel.device.protocol import Memory
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.failing import checked_before
from calor_kernel.planning.recording import APART, SHARED, Laid, Recorder, Recording, Targets
from calor_kernel.planning.scratch_rooms import arranged_tasks
from calor_kernel.planning.values import Depends, Draft, HostBlock

if TYPE_CHECKING:
    from calor_kernel.device.board import Page

# The maximum number of target patterns for which a plan keeps recordings.
_PATTERNS: Final = 8
_NO_TARGETS: Final[dict[int, int]] = {}


class Variant:
    """A recording for a pattern of target buffers, and the memory that its call allocates.

    ``kept``: the memory with cached prepared operands, and ``lay``: how launches that read it are
    laid out for targets. ``guarded``: whether targets stay unchanged if an op fails. ``results``:
    with a guard on the device, for each other output its number, the inputs and the fallible tasks
    on which it depends. ``state`` takes the targets from the outputs. ``unread``: the targets that
    are no input. ``exceeds``: whether a call allocates more than one without targets.
    """

    __slots__ = (
        *(
            "arena",
            "exceeds",
            "fresh",
            "guarded",
            "into",
            "kept",
            "known",
            "lay",
            "recording",
            "required",
        ),
        *("results", "same", "state", "targets", "unread"),
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
        self.results: list[tuple[int, Depends]] = []
        if recording.stopped is not None:
            depends = plan.draft.dependences(plan.status, recording.stopped)
            # What fails behind the guard failed before, too, and the guard has the word of that.
            before = checked_before(plan.draft.tasks, plan.works)
            self.results = [
                (o, (read, failing | {before[n] for n in failing if n in before}))
                for o, (read, failing) in enumerate(depends)
                if o not in targets
            ]
        self.kept = kept
        self.lay = lay
        self.unread = [o for o, i in targets.items() if i == APART]
        pairs = [(o, i) for o, i in targets.items() if i >= 0]
        self.known = len(pairs) == len(targets)
        self.into, self.same = getter([o for o, _ in pairs]), getter([i for _, i in pairs])
        self.state = getter([*targets])
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
        self.exceeds = False

    def fits(self, inputs: Sequence[Any], into: Sequence[Any]) -> bool:
        """Return whether a call's targets are the same inputs as in this recording.

        The caller holds each target exclusively, so no other input can share one.
        """
        if not self.known or into.count(None) != len(self.fresh):
            return False
        return self.into(into) == self.same(inputs)


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

    ``works``: the work of each task; by default those that the tuner chooses, with equal copies
    made once and equal work side by side.
    :func:`calor_kernel.planning.replanning.plan_anew` sets ``keeper`` and ``short``. ``again``: the
    ops that run once more because of a memory limit.
    """

    again: tuple[str, ...] = ()

    def __init__(self, engine: Engine, draft: Draft, works: Sequence[Work] | None = None) -> None:
        if works is None:
            chosen = engine.tuner.choose_all(draft.tasks)
            draft, works = arranged_tasks(draft, chosen, engine.lowerings, engine.deterministic)
        self.begin(engine, draft, draft.graph, works)
        self.output_bytes: Sequence[int] = [p.nbytes for p in draft.outputs]
        self.graph: Graph = draft.graph
        self.recorder = Recorder(engine, draft, self.works, self.status)
        self.recorder.load()
        self._variants: list[Variant] = []
        # How scans run several steps of this plan, by the form of the scan.
        self.together: dict[Any, Any] = {}
        # The steps that scans have run one by one.
        self.stepped = 0
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
        self._given = getter(self.given)
        # The op with the largest result, to blame when memory runs out.
        sizes = [sum(hinted(p.nbytes) for p in t.outputs) for t in draft.tasks]
        self.largest = draft.tasks[sizes.index(max(sizes))].op if sizes else None
        self.flags = flags_of(works)
        self.failures: Failures = {n: (works[n].failures, draft.tasks[n].op) for n in self.status}
        # The guard of each state, found by its first buffer.
        self.guards: WeakKeyDictionary[Any, Guard] = WeakKeyDictionary()
        self._nothing = engine.nothing.handle
        self.set_constants(draft.constants, hinted(draft.behind(align)), hinted(self.flags))

    @cached_property
    def base(self) -> Variant:
        """The variant without targets; a training step never runs it."""
        return Variant(self, _NO_TARGETS, self.recorder.record())

    @cached_property
    def required_bytes(self) -> int:
        """What a call allocates at most."""
        return self.base.required

    def _exceeds(self, required: int) -> bool:
        """Return whether so many bytes are more than a call without targets takes."""
        if "base" not in vars(self):
            # What is in use at once, which no layout undercuts, is quickly known.
            live = self.recorder.lives(_NO_TARGETS).live(len(self.draft.tasks))
            if required <= sum(self.output_bytes) + self.block_bytes + max(live, default=0):
                return False
        return required > self.required_bytes

    @property
    def settled(self) -> Plan | None:
        """The plan for later calls as well; None while it may still be replaced."""
        return self

    def set_constants(self, constants: bytes, place: int, flags: int) -> None:
        """Upload the constants, and zeroed flags from a place on."""
        self.hold_constants(uploaded(self.pool, constants, place, flags))

    def hold_constants(self, buffer: KernelBuffer | None) -> None:
        """Take the memory of the constants and flags; None if there are none."""
        self.constants = buffer
        self.constants_handle = self._nothing if buffer is None else buffer.handle

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
        for target in [t for t in into if t is not None and t.stamp > 0]:
            target.stamp = 0
        known = (v for v in self._variants if v.guarded is not private and v.fits(inputs, into))
        variant = next(known, None) or self._variant(inputs, into, private)
        if variant.exceeds:
            made = self._run(self.base, inputs, [None] * len(into))
            return copied(self.pool.memory, made, into)
        return self._run(variant, inputs, list(into))

    def _run(self, variant: Variant, inputs: Sequence[Any], outputs: list[Any]) -> list[Any]:
        """Run a recording; ``outputs`` are the targets, None for a buffer to allocate."""
        pool = self.pool
        if pool.in_use + variant.required > pool.ceiling:
            pool.reserve(variant.required, self.largest)
        arena = None
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
                if ONE_AT_A_TIME:
                    pool.in_use += nbytes
                else:
                    count(pool, nbytes)
                outputs[number] = KernelBuffer(pool, handle, idle, nbytes)
            place = self._nothing if arena is None else arena[0]
            if not self.engine.tells_late:
                self._waiting(variant, inputs, outputs, place)
            elif variant.recording.stopped is not None:
                self._under_guard(variant, inputs, outputs, place)
            elif self.status and not variant.guarded:
                self._on_board(variant, inputs, outputs, place)
            else:
                if variant.guarded:
                    # An in-place result must not be computed from a failed input.
                    for i in self.given:
                        verify(inputs[i])
                self._waiting(variant, inputs, outputs, place)
                self._postpone(inputs, outputs, None)
        except OutOfMemoryError as error:
            error.op = error.op or self.largest
            raise
        except DeviceError as error:
            error.op = error.op or self.draft.named
            raise
        finally:
            if arena is not None:
                pool.give(*arena, 0)
        return outputs

    # How failures are told.
    def _waiting(
        self, variant: Variant, inputs: Sequence[Any], outputs: Sequence[Any], arena: Any
    ) -> None:
        """Run, and wait for the words of fallible ops before anything is written in place."""
        block, words, recording = None, self._nothing, variant.recording
        try:
            if self.block_bytes:
                try:
                    block = self._blocks.pop(), self._block_room
                except IndexError:
                    block = self.pool.find(self._block_room)
                words = block[0]
                self._write(words, inputs, self.block_bytes)
            handles = self._handles(variant, inputs, outputs, words, arena)
            self.engine.play(recording.lists[0], recording.launches[0], handles)
            if not self.status:
                return
            for error in self.errors(words).values():
                raise error
            if len(recording.lists) > 1:
                self.engine.play(recording.lists[1], recording.launches[1], handles)
        finally:
            if block is not None:
                self.pool.give(*block, 0)

    def _on_board(
        self, variant: Variant, inputs: Sequence[Any], outputs: Sequence[Any], arena: Any
    ) -> None:
        """Run with words that are read when a result is used."""
        board, hosts = self.engine.board, self.draft.host_bytes
        page: Page | None
        page, start, words = board.take(self.block_bytes, bool(hosts))
        try:
            # The words are zero already.
            if hosts:
                self._write(words, inputs, hosts)
            recording = variant.recording
            handles = self._handles(variant, inputs, outputs, words, arena)
            self.engine.play(recording.lists[0], recording.launches[0], handles)
            own, page = board.put(page, start, self), None
        finally:
            if page is not None:
                board.leave(page)
        self._postpone(inputs, outputs, own)

    def _under_guard(
        self, variant: Variant, inputs: Sequence[Any], outputs: Sequence[Any], arena: Any
    ) -> None:
        """Run with a guard, which stops what is written in place if an op or an input failed."""
        board, recording, state = self.engine.board, variant.recording, variant.state(outputs)
        guard = self.guards.get(state[0])
        if guard is None or guard.set:
            guard = self.guards[state[0]] = Guard(board, self.failures, self.block_bytes)
        parts = guard.parts
        given = self._given(inputs)
        doubtful = [b for b in given if b.outcomes is not parts and b.outcomes]
        # What is overwritten unread may be what a failed run left.
        lost = [b for o in variant.unread if pending(b := outputs[o]) and b.outcomes is not parts]
        with board.reading() if doubtful else nullcontext():
            above = Above(guard, doubtful)
            if self.draft.host_bytes:
                self._write(guard.handle, inputs, self.draft.host_bytes)
            handles = self._handles(variant, inputs, outputs, guard.handle, arena)
            above.show(guard)
            self.engine.play(recording.lists[0], recording.launches[0], handles)
            own = guard.ran(above.parts)
        if lost:
            for error in own.errors.values():
                raise error
        for target in [t for t in state if t.outcomes is not parts]:
            target.outcomes = parts
        for number, (read, failing) in variant.results:
            unsure = failing or any(inputs[i].outcomes for i in read)
            outputs[number].outcomes = ((own, failing | {BEFORE}),) if unsure else ()

    def _write(self, words: Any, inputs: Sequence[Any], nbytes: int) -> None:
        """Write the host numbers, and zeros behind them, to the first bytes of a block."""
        packed, buffers = self.block.pack(inputs)
        memory = self.pool.memory
        memory.write(words, packed[:nbytes])
        for place, buffer in buffers:
            verify(buffer)
            memory.copy(words, place, buffer.handle, 0, buffer.nbytes)

    def _handles(
        self,
        variant: Variant,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        words: Any,
        arena: Any,
    ) -> list[Any]:
        """Return the handles of a run, in the order of the recorder's slots."""
        handles = [b.handle for b in self._given(inputs)]
        kept = self._nothing if variant.kept is None else variant.kept.handle
        handles += (self.constants_handle, words, arena, kept)
        handles += [b.handle for b in outputs]
        return handles

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
                failures, op = self.failures[number]
                errors[number] = error_of(failures, found, op)
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
        places: dict[int, list[int]] = {}
        for number, given in enumerate(inputs):
            places.setdefault(id(given), []).append(number)
        for output, target in enumerate(into):
            if target is not None:
                same = places.get(id(target), ())
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
        made.exceeds = self._exceeds(made.required)
        self._variants = [made, *self._variants[: _PATTERNS - 1]]
        return made


def uploaded(pool: Pool, constants: bytes, place: int, flags: int) -> KernelBuffer | None:
    """Return the memory of constants, with zeroed flags from a place on; None if it is empty."""
    if flags:
        constants = constants.ljust(place + flags * uint32.itemsize, b"\0")
    if not constants:
        return None
    buffer = pool.uncounted(len(constants))
    pool.memory.copy_in(buffer.handle, 0, np.frombuffer(constants, np.uint8))
    return buffer


def copied(memory: Memory, made: list[Any], into: Sequence[Any]) -> list[Any]:
    """Return separately computed results, copied to their targets; None is no target.

    Targets stay unchanged if an op failed, also those that do not depend on it.
    """
    if any(target is not None for target in into):
        for source in made:
            verify(source)
    for number, target in enumerate(into):
        if target is not None:
            source = made[number]
            target.outcomes = ()
            if target.stamp > 0:
                # What was prepared from its contents is stale.
                target.stamp = 0
            memory.copy(target.handle, 0, source.handle, 0, source.nbytes)
            made[number] = target
    return made
