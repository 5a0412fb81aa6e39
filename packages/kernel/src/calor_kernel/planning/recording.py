"""Recording: turns a draft with its memory layout into the launches of a device.

Requirements: in-place results are written after the last possible failure and after the last read
of the old contents. Where failures are reported late, a guard behind the last fallible op stops the
launches that write in place; elsewhere the launches before and after that point are two lists.
Families give the number of cubes along x, y and z only; a launch with more cubes than the device
allows along an axis (65,535 along y and z on most GPUs) is folded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from calor.dtypes import uint8, uint32
from calor.errors import UnsupportedError
from calor.sizes import Size
from calor_kernel.contract.choices import is_size, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Build,
    Flags,
    Guard,
    Input,
    Launch,
    Output,
    Refusal,
    Scratch,
    Status,
    View,
    Work,
)
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.ir.passes.cubes import COUNT, COUNTS
from calor_kernel.library.run_guard import guard_launch
from calor_kernel.planning.arena import Layout, Lives, Overwriting, lay_out, lives
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.failing import last_failing
from calor_kernel.planning.values import Draft, Launched, Piece, Task, Value

# How the target buffer of an output relates to the inputs, if it is not a single input.
APART: Final = -1  # It is no input of the call.
SHARED: Final = -2  # It is several inputs.
# A guard reads a status word of each fallible op; with more of them the host waits.
_MOST_WORDS: Final = 64
Targets = Mapping[int, int]
# A slot of a list, and a byte offset in it.
Place = tuple[int, int]
Arguments = tuple[Slot | int | float, ...]


class Recording(NamedTuple):
    """Launches in the device's form.

    ``lists``: one, or two if the second writes in place and the first may fail. ``launches``: the
    launches of each list. ``arena``: bytes of the arena. ``stopped``: the tasks with launches that
    a guard stops; None if there is no guard.
    """

    lists: tuple[Any, ...]
    steps: tuple[tuple[Step, ...], ...]
    launches: tuple[tuple[Launched, ...], ...]
    arena: int
    stopped: frozenset[int] | None = None


class Laid(NamedTuple):
    """Lists of launches with their arguments, before a device; the fields as in Recording."""

    lists: Sequence[Sequence[tuple[Launched, Arguments]]]
    arena: int
    stopped: frozenset[int] | None

    @property
    def builds(self) -> list[Build]:
        """The build of each launch of all lists, in order."""
        return [la.launch.build for one in self.lists for la, _ in one]

    @property
    def launches(self) -> tuple[tuple[Launched, ...], ...]:
        """The launches of each list."""
        return tuple(tuple(la for la, _ in one) for one in self.lists)


@dataclass(frozen=True, slots=True)
class Slots:
    """The handles of a run, by number: inputs, constants, host numbers, arena, kept, results."""

    inputs: Mapping[int, int]
    constants: int
    block: int
    arena: int
    kept: int
    outputs: int
    count: int

    def moved(
        self, given: Sequence[Place], own: Sequence[Place], made: Sequence[Place]
    ) -> dict[int, Place]:
        """Return where another list has each slot, for the places of inputs, memory and results.

        ``own``: the places of constants, host numbers, arena and kept memory.
        """
        places = {slot: given[i] for i, slot in self.inputs.items()}
        places |= zip((self.constants, self.block, self.arena, self.kept), own, strict=True)
        return places | dict(enumerate(made, self.outputs))


class Recorder:
    """Records a draft with chosen candidates."""

    def __init__(
        self, engine: Engine, draft: Draft, works: Sequence[Work], status: Mapping[int, int]
    ) -> None:
        self.engine = engine
        self.draft = draft
        self.works = works
        self.status = status
        self.align = engine.device.info.align
        given = [i for i in draft.graph.inputs if i not in draft.graph.host]
        n, inputs = len(given), {i: n for n, i in enumerate(given)}
        self.slots = Slots(inputs, n, n + 1, n + 2, n + 3, n + 4, n + 4 + len(draft.outputs))

    @property
    def guard_place(self) -> int:
        """The byte offset of the guard in the block of host numbers, behind the status words."""
        return self.draft.host_bytes + len(self.status) * self.align

    def record(
        self,
        targets: Targets = MappingProxyType({}),
        *,
        kept: Mapping[tuple[int, int], Piece] = MappingProxyType({}),
        without: Collection[tuple[int, int]] = (),
        private: bool = False,
    ) -> Recording:
        """Return the launches in the device's form; the arguments are those of :meth:`laid`."""
        laid = self.laid(targets, kept, without, private)
        steps = self.steps(laid, laid.builds)
        queue = self.engine.queue
        recorded = tuple(queue.record(one, self.slots.count) for one in steps)
        return Recording(recorded, steps, laid.launches, laid.arena, laid.stopped)

    def load(self) -> None:
        """Compile the kernels of launches, as calls that renew inputs run them; CompileError."""
        info = self.engine.device.info
        guards = self.engine.tells_late and 0 < len(self.status) <= _MOST_WORDS
        fails, found = self._fails(private=not guards), list[Launch]()
        for number, (task, work) in enumerate(zip(self.draft.tasks, self.works, strict=True)):
            if not any(p.nbytes for p in task.outputs):
                continue
            renews = guards and number > fails and _renews(task, work)
            for launch in work.launches:
                made = fitted(launch, info, task.op)
                fits = len(made.arguments) < info.arguments
                found.append(made.guarded() if renews and fits else made)
        if any(made.build.guarded for made in found):
            found.append(self._guard()[0].launch)
        self.engine.kernels.load(made.build for made in found)

    def steps(self, laid: Laid, builds: Sequence[Build]) -> tuple[tuple[Step, ...], ...]:
        """Return the steps of each list, with the kernels of these builds in order."""
        functions = iter(self.engine.kernels.load(builds))
        return tuple(
            tuple(_step(next(functions), la.launch, given) for la, given in one)
            for one in laid.lists
        )

    def laid(
        self,
        targets: Targets,
        kept: Mapping[tuple[int, int], Piece] = MappingProxyType({}),
        without: Collection[tuple[int, int]] = (),
        private: bool = False,
    ) -> Laid:
        """Return the launches for outputs written to ``targets``, the others to fresh memory.

        A target is the number of the input with the same buffer, or APART or SHARED. ``kept``:
        scratch memory that outlives a run, by task and number. ``without``: the launches to omit,
        by task and order. ``private``: whether a failed op may leave targets changed; otherwise a
        guard stops the launches that write them, or these are a second list.
        """
        split = bool(self.status) and bool(targets) and not private
        guards = split and self.engine.tells_late and len(self.status) <= _MOST_WORDS
        return self._laid(targets, kept, without, split, guards)

    def _laid(
        self,
        targets: Targets,
        kept: Mapping[tuple[int, int], Piece],
        without: Collection[tuple[int, int]],
        split: bool,
        guards: bool,
    ) -> Laid:
        info, fails = self.engine.device.info, self._fails(private=not split)
        layout, late = self.layout(targets, kept, private=not split)
        before: list[tuple[Launched, Arguments]] = []
        behind: list[tuple[Launched, Arguments]] = []
        stopped: set[int] = set()
        for number, (task, work) in enumerate(zip(self.draft.tasks, self.works, strict=True)):
            if not any(p.nbytes for p in task.outputs):
                continue
            for order, launch in enumerate(work.launches):
                if launch.copies in layout.in_place[number] or (number, order) in without:
                    continue
                made = fitted(launch, info, task.op)
                if guards and number > fails and self._writes(layout, task, made, targets):
                    made = made.guarded()
                    stopped.add(number)
                arguments = self._arguments(layout, number, task, made)
                one = before if number <= fails else behind
                one.append((Launched(number, task.op, made, task), arguments))
        for piece, output in late.items():
            launch, arguments = self._copy(layout, piece, output, guards)
            behind.append((Launched(-1, "copy", launch), arguments))
        if not guards:
            return Laid([before, behind] if split else [behind], layout.nbytes, None)
        if any(len(given) > info.arguments for la, given in behind if la.launch.build.guarded):
            return self._laid(targets, kept, without, split, False)
        return Laid([[*before, self._guard(), *behind]], layout.nbytes, frozenset(stopped))

    def _target(self, layout: Layout, piece: Piece, targets: Targets) -> int | None:
        """Return the output to whose target a piece is written; None if it lies elsewhere."""
        output = self._place(layout, piece)[0] - self.slots.outputs
        return output if output in targets else None

    def _writes(self, layout: Layout, task: Task, launch: Launch, targets: Targets) -> bool:
        """Return whether a launch writes to the target of an output."""
        made = [task.outputs[a.number] for a in launch.arguments if isinstance(a, Output)]
        return any(self._target(layout, p, targets) is not None for p in made)

    def _guard(self) -> tuple[Launched, Arguments]:
        """Return the launch that sets the guard of a run that failed."""
        words = Slot(self.slots.block, self.draft.host_bytes)
        launch = guard_launch(len(self.status), self.align // uint32.itemsize)
        return Launched(-1, "guard", launch), (words,)

    def layout(
        self,
        targets: Targets,
        kept: Mapping[tuple[int, int], Piece] = MappingProxyType({}),
        private: bool = False,
    ) -> tuple[Layout, dict[Piece, int]]:
        """Return the memory layout, and the outputs that are copied last with their numbers."""
        draft = self.draft
        aliases, late = self._arranged(targets, private)
        made = lay_out(draft.tasks, self.works, draft.outputs, self.align, aliases, late, kept)
        return made, late

    def lives(self, targets: Targets) -> Lives:
        """Return when the pieces of the arena are in use, for outputs written to ``targets``."""
        aliases, late = self._arranged(targets, private=False)
        return lives(self.draft.tasks, self.works, self.draft.outputs, aliases, late)

    def _arranged(
        self, targets: Targets, private: bool
    ) -> tuple[dict[Piece, Piece], dict[Piece, int]]:
        """Return the inputs that outputs may overwrite, and the outputs that are copied last.

        These are also the outputs in whose memory an operand would lie before the last failure.
        """
        draft, fails = self.draft, self._fails(private)
        aliases, late = self._aliases(targets, fails)
        settled = {*aliases, *late}
        if fails >= 0 and any(draft.outputs[n] not in settled for n in targets):
            layout = lay_out(draft.tasks, self.works, draft.outputs, self.align, aliases, late)
            made = [p for task in draft.tasks[: fails + 1] for p in task.outputs]
            found = {self._target(layout, piece, targets) for piece in made}
            late |= {draft.outputs[n]: n for n in found if n is not None}
        return aliases, late

    def _fails(self, private: bool) -> int:
        """Return the last task whose failure leaves the targets as they were, or -1."""
        return -1 if private or not self.status else last_failing(self.draft.tasks, self.works)

    def in_place(self, outputs: int) -> list[int]:
        """Return the first outputs that need no copy in place of the input with the same number.

        Elsewhere they do: they are that input with a part overwritten.
        """
        aliases, _ = self._aliases({n: n for n in range(outputs)}, -1)
        copying = {
            piece
            for task, work in zip(self.draft.tasks, self.works, strict=True)
            if any(launch.copies is not None for launch in work.launches)
            for piece in task.outputs
        }
        made = self.draft.outputs[:outputs]
        return [n for n, piece in enumerate(made) if piece in aliases and piece in copying]

    def _aliases(self, targets: Targets, fails: int) -> tuple[dict[Piece, Piece], dict[Piece, int]]:
        """Return the inputs that outputs may overwrite, and the outputs made too early for that."""
        tasks = self.draft.tasks
        made = {p: n for n, t in enumerate(tasks) for p in t.outputs}
        read: dict[int, tuple[int, Piece]] = {}
        for number, task in enumerate(tasks):
            for value in task.inputs:
                if value.piece.kind == "input":
                    read[value.piece.number] = (number, value.piece)
        aliases: dict[Piece, Piece] = {}
        late: dict[Piece, int] = {}
        over: dict[int, Overwriting] = {}
        for output, target in targets.items():
            piece = self.draft.outputs[output]
            when = made[piece]
            last, source = read.get(target, (-1, None))
            if when <= fails or target == SHARED:
                late[piece] = output
            elif source is not None and last >= when:
                if when not in over:
                    over[when] = Overwriting(tasks[when], self.works[when])
                result = tasks[when].outputs.index(piece)
                fits = last == when and source.nbytes == piece.nbytes
                if fits and over[when].fits(source, result):
                    aliases[piece] = source
                else:
                    late[piece] = output
            elif source is not None:
                aliases[piece] = source
        return aliases, late

    # Arguments.
    def _arguments(self, layout: Layout, number: int, task: Task, launch: Launch) -> Arguments:
        pairs = zip(launch.arguments, launch.build.signature, strict=True)
        return tuple(
            a
            if isinstance(a, int | float | Size)
            else self._slot(layout, number, task, a, d.dtype.itemsize)
            for a, d in pairs
        )

    def _slot(
        self, layout: Layout, number: int, task: Task, argument: Argument, itemsize: int
    ) -> Slot:
        if isinstance(argument, Status):
            return Slot(self.slots.block, self.status[number])
        if isinstance(argument, Guard):
            return Slot(self.slots.block, self.guard_place)
        if isinstance(argument, Flags):
            start = self.draft.behind(self.align)
            return Slot(self.slots.constants, start + argument.offset * itemsize)
        assert isinstance(argument, Input | Output | Scratch)
        value = None
        if isinstance(argument, Input):
            value = task.inputs[argument.number]
            piece = value.piece
        elif isinstance(argument, Output):
            piece = task.outputs[argument.number]
        else:
            piece = layout.scratch[number][argument.number]
        return self._touching(layout, piece, argument.offset * itemsize, value)

    def _touching(
        self, layout: Layout, piece: Piece, offset: int, value: Value | None = None
    ) -> Slot:
        """Return the slot of an offset in a piece, of which a launch may touch a value, or all."""
        slot, start = self._place(layout, piece)
        most = self.engine.device.info.max_seen_bytes
        if most is None or not (is_size(piece.nbytes) or piece.nbytes > most // 2):
            return Slot(slot, start + offset)
        begin, end = (0, piece.nbytes) if value is None else value.extent
        return Slot(slot, start + offset, offset - begin, end - offset)

    def _place(self, layout: Layout, piece: Piece) -> tuple[int, int]:
        """Return the slot and the byte offset of a piece."""
        if piece.kind == "input":
            return self.slots.inputs[piece.number], 0
        slots = self.slots
        own = {"constant": slots.constants, "host": slots.block, "kept": slots.kept}
        if piece.kind in own:
            return own[piece.kind], piece.number
        while piece in layout.merged:
            piece = layout.merged[piece]
        start = layout.offsets.get(piece)
        if start is not None:
            return self.slots.arena, start
        return self.slots.outputs + self.draft.outputs.index(piece), 0

    def _copy(
        self, layout: Layout, piece: Piece, output: int, guards: bool
    ) -> tuple[Launch, Arguments]:
        """Return the launch that copies a late output to its target."""
        known = spec_of((piece.nbytes,), uint8)
        works = self.engine.lowerings.ask("copy", {}, (View.dense(known),), (known,))
        assert not isinstance(works, Refusal)
        launch = fitted(works[0].launches[0], self.engine.device.info, "copy")
        if guards:
            launch = launch.guarded()
        source = self._touching(layout, piece, 0)
        target = replace(source, number=self.slots.outputs + output, offset=0)
        guard = Slot(self.slots.block, self.guard_place)
        places: dict[type, Slot] = {Input: source, Output: target, Guard: guard}
        return launch, tuple(places.get(type(a), a) for a in launch.arguments)  # type: ignore[arg-type]


def _renews(task: Task, work: Work) -> bool:
    """Return whether a task may write its results over inputs of the graph."""
    return any(task.inputs[operand].piece.kind == "input" for operand, _ in work.in_place)


def _step(function: Any, launch: Launch, given: Arguments) -> Step:
    work = launch.flops, launch.nbytes
    return Step(function, launch.cubes, given, *work, launch.loop, launch.moves)


def fitted(launch: Launch, info: DeviceInfo, op: str) -> Launch:
    """Return an equivalent launch within the device's limits.

    UnsupportedError if there are more cubes than the device launches along x and y.

    >>> from calor_kernel.contract.work import Build
    >>> info = DeviceInfo("a device", frozenset(), max_cubes=(100, 4, 4))
    >>> few = Launch(Build(None, ()), (2, 3, 4), ())
    >>> fitted(few, info, "op") is few
    True
    >>> many = fitted(replace(few, cubes=(2, 3, 20)), info, "op")
    >>> many.cubes, many.arguments
    ((60, 2, 1), (2, 3, 20))
    """
    cubes, (most, down, _) = launch.cubes, info.max_cubes
    if all(count <= limit for count, limit in zip(cubes, info.max_cubes, strict=True)):
        return launch
    x, y, z = cubes
    total = x * y * z
    rows = 1 if total <= most else -(-total // most)
    if rows > down:
        raise UnsupportedError(
            f"{launch.label or op} is a launch of {cubes} cubes, and the device launches at most "
            f"{most * down}; compute it in parts along its first axis",
            op=op,
        )
    build = launch.build
    signature = (*build.signature, *(COUNT for _ in COUNTS))
    return replace(
        launch,
        build=replace(build, signature=signature, folded=True),
        cubes=(total if rows == 1 else -(-total // rows), rows, 1),
        arguments=(*launch.arguments, *cubes),
    )
