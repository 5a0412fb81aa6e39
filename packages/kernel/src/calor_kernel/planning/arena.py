"""The memory layout of intermediates and scratch memory: one range with reuse.

Requirements: the size is known before a plan runs. A result written over its dead operand stays in
the cache. Places are assigned in time order, best fit, which keeps small arenas in the cache; a
large one that has gaps is packed by size.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from types import MappingProxyType
from typing import Final

from calor_kernel.contract.choices import greatest, hinted, is_size
from calor_kernel.contract.work import Work
from calor_kernel.planning.packing import Span, most_at_once, pack
from calor_kernel.planning.values import Piece, Task

# Arenas from so many bytes on are packed, if a share of them is gaps.
_LARGE: Final = 4 << 20
_SHARE: Final = 512


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offsets of the pieces in the arena, and the in-place decisions.

    ``merged``: for a piece that shares the memory of another, that other one. ``in_place``: for
    each task, the operands whose memory its results take over. ``scratch``: for each task, its
    scratch pieces.
    """

    offsets: dict[Piece, int]
    nbytes: int
    merged: dict[Piece, Piece]
    in_place: list[frozenset[int]]
    scratch: list[list[Piece]]


@dataclass(slots=True)
class Range:
    """A range of bytes with gaps, which grows at its end."""

    end: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)  # (bytes, start), the smallest first

    def take(self, nbytes: int) -> int:
        """Return the start of so many idle bytes."""
        for place, (size, start) in enumerate(self.gaps):
            if size >= nbytes:
                del self.gaps[place]
                if size > nbytes:
                    insort(self.gaps, (size - nbytes, start + nbytes))
                return start
        # The gap at the end grows.
        for place, (size, start) in enumerate(self.gaps):
            if start + size == self.end:
                del self.gaps[place]
                self.end = start + nbytes
                return start
        self.end += nbytes
        return self.end - nbytes

    def give(self, start: int, nbytes: int) -> None:
        """Free bytes."""
        for other in [g for g in self.gaps if g[1] + g[0] == start or g[1] == start + nbytes]:
            self.gaps.remove(other)
            start, nbytes = min(start, other[1]), nbytes + other[0]
        insort(self.gaps, (nbytes, start))


@dataclass(slots=True)
class _Slots:
    """Memory in slots, for symbolic sizes: a slot is as large as its largest piece."""

    sizes: list[list[int]] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)

    def take(self, nbytes: int) -> int:
        """Return the number of a slot, chosen by the hinted sizes."""

        def misfit(slot: int) -> tuple[bool, int]:
            room, wanted = max(map(hinted, self.sizes[slot])), hinted(nbytes)
            return room < wanted, abs(room - wanted)

        slot = min(self.idle, key=misfit, default=None)
        if slot is None:
            slot = len(self.sizes)
            self.sizes.append([])
        else:
            self.idle.remove(slot)
        self.sizes[slot].append(nbytes)
        return slot

    def give(self, slot: int, nbytes: int) -> None:
        """Free a slot."""
        self.idle.append(slot)

    def starts(self) -> list[int]:
        """Return the start of each slot, and the end of the last one."""
        return [0, *accumulate(greatest(*sizes) for sizes in self.sizes)]


@dataclass(frozen=True, slots=True)
class Lives:
    """Which memory the tasks share, and when each piece of the arena is in use.

    ``spans``: the first and the last task of a piece, of those that share memory for the first of
    them. The other fields are those of :class:`Layout`.
    """

    spans: dict[Piece, tuple[int, int]]
    merged: dict[Piece, Piece]
    in_place: list[frozenset[int]]
    scratch: list[list[Piece]]

    def live(self, count: int) -> list[int]:
        """Return the bytes in use at each of so many tasks."""
        changes = [0] * (count + 2)
        for piece, (first, last) in self.spans.items():
            changes[first] += piece.nbytes
            changes[last + 1] -= piece.nbytes
        return list(accumulate(changes))[:count]


def lives(
    tasks: Sequence[Task],
    works: Sequence[Work],
    outputs: Collection[Piece],
    aliases: Mapping[Piece, Piece] = MappingProxyType({}),
    late: Collection[Piece] = (),
    apart: Mapping[tuple[int, int], Piece] = MappingProxyType({}),
) -> Lives:
    """Return the pieces of the arena and their uses; the arguments are those of `lay_out`."""
    last: dict[Piece, int] = {}
    for number, task in enumerate(tasks):
        for value in task.inputs:
            last[value.piece] = number
        for piece in task.outputs:
            last.setdefault(piece, number)
    for piece in late:
        last[piece] = len(tasks)
    kept = {p for p in outputs if p not in late}
    merged, in_place = _merge(tasks, works, last, kept, aliases)
    # A group of pieces in one memory ends with its last use, or never if one is an output.
    ends: dict[Piece, int] = {}
    for piece, end in last.items():
        root = _root(piece, merged)
        ends[root] = max(ends.get(root, 0), end)
    spans: dict[Piece, tuple[int, int]] = {}
    scratch: list[list[Piece]] = []
    for number, (task, work) in enumerate(zip(tasks, works, strict=True)):
        scratch.append(
            [apart.get((number, k)) or Piece("made", n) for k, n in enumerate(work.scratch)]
        )
        roots = (_root(p, merged) for p in task.outputs)
        for root in roots:
            if root not in kept and root.kind == "made":
                spans.setdefault(root, (number, ends[root]))
        spans.update((p, (number, number)) for p in scratch[-1] if p.kind == "made")
    return Lives(spans, merged, in_place, scratch)


def lay_out(
    tasks: Sequence[Task],
    works: Sequence[Work],
    outputs: Collection[Piece],
    align: int,
    aliases: Mapping[Piece, Piece] = MappingProxyType({}),
    late: Collection[Piece] = (),
    apart: Mapping[tuple[int, int], Piece] = MappingProxyType({}),
) -> Layout:
    """Return the place of each intermediate piece and of each scratch piece.

    ``aliases``: outputs in the memory of an input of the graph; they may overwrite it in one step,
    but not before. ``late``: outputs that lie in the arena, and stay to the end. ``apart``: scratch
    memory outside the arena, by the number of its task and its number in the work.
    """
    found = lives(tasks, works, outputs, aliases, late, apart)
    spans = found.spans
    sized = any(is_size(piece.nbytes) for piece in spans)
    space: _Slots | Range = _Slots() if sized else Range()
    begins: list[list[Piece]] = [[] for _ in range(len(tasks) + 1)]
    dies: list[list[Piece]] = [[] for _ in range(len(tasks) + 1)]
    for piece, (first, last) in spans.items():
        begins[first].append(piece)
        dies[last].append(piece)

    def room(piece: Piece) -> int:
        return -(-greatest(piece.nbytes, 1) // align) * align

    offsets: dict[Piece, int] = {}
    for beginning, dying in zip(begins, dies, strict=True):
        for piece in beginning:
            offsets[piece] = space.take(room(piece))
        for piece in dying:
            space.give(offsets[piece], room(piece))
    if isinstance(space, Range):
        end = space.end
        if end >= _LARGE:
            offsets, end = _packed(offsets, end, {p: Span(room(p), *spans[p]) for p in spans})
        return Layout(offsets, end, found.merged, found.in_place, found.scratch)
    starts = space.starts()
    offsets = {piece: starts[slot] for piece, slot in offsets.items()}
    return Layout(offsets, starts[-1], found.merged, found.in_place, found.scratch)


def _packed(
    offsets: dict[Piece, int], end: int, spans: Mapping[Piece, Span]
) -> tuple[dict[Piece, int], int]:
    """Return the places and the end of an arena with fewer gaps, or those given."""
    if end - most_at_once([*spans.values()]) <= end // _SHARE:
        return offsets, end
    places, packed_end = pack((*spans.values(),))
    if packed_end >= end - end // _SHARE:
        return offsets, end
    return dict(zip(spans, places, strict=True)), packed_end


def _root(piece: Piece, merged: dict[Piece, Piece]) -> Piece:
    while piece in merged:
        piece = merged[piece]
    return piece


def _merge(
    tasks: Sequence[Task],
    works: Sequence[Work],
    last: Mapping[Piece, int],
    kept: Collection[Piece],
    aliases: Mapping[Piece, Piece],
) -> tuple[dict[Piece, Piece], list[frozenset[int]]]:
    """Return the results that take over the memory of an operand that dies with them."""
    merged: dict[Piece, Piece] = {}
    in_place: list[frozenset[int]] = []
    for number, (task, work) in enumerate(zip(tasks, works, strict=True)):
        taken: set[int] = set()
        gone: set[Piece] = set()
        settled: set[Piece] = set()
        over = Overwriting(task, work)
        for operand, result in work.in_place:
            made, piece = task.outputs[result], task.inputs[operand].piece
            if piece in gone or made in settled or last[piece] != number:
                continue
            alias = aliases.get(made)
            if alias is not None:
                fits = piece is alias
            else:
                fits = piece.kind == "made" and _root(piece, merged) not in kept
            if not fits or made.nbytes != piece.nbytes:
                continue
            if not over.fits(piece, result):
                continue
            if alias is None:
                # An output keeps its own memory, and its operand is placed there before.
                one, other = (_root(piece, merged), made) if made in kept else (made, piece)
                merged[one] = other
            gone.add(piece)
            settled.add(made)
            taken.update(over.readers[piece])
        in_place.append(frozenset(taken))
    return merged, in_place


class Overwriting:
    """What the results of a task may overwrite; ``readers``: the inputs in each piece, by number.

    Made once for a task: an update of all weights has a thousand operands.
    """

    def __init__(self, task: Task, work: Work) -> None:
        self.task = task
        self.pairs = frozenset(work.in_place)
        self.readers: dict[Piece, list[int]] = {}
        if self.pairs:
            for number, value in enumerate(task.inputs):
                self.readers.setdefault(value.piece, []).append(number)

    def fits(self, piece: Piece, result: int) -> bool:
        """Return whether a result may be written to a piece that the task reads."""
        return bool(self.pairs) and all(
            self.task.inputs[i].whole and (i, result) in self.pairs for i in self.readers[piece]
        )
