"""How a program is cut: the part of each member, and what is streamed where it does not fit.

Requirements: where all that a member reads and makes fits its limit, it stays there. Where it does
not, the work goes to other members, as a whole or in part, or its values are streamed: whichever
costs least by the measured speeds. A cut that failed for want of memory gives way to others with
less on that member, other places before streaming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from typing import Any, Final

from calor.backends.device import Device
from calor.errors import MemoryLimitError
from calor.graph.decompose import decompose
from calor.graph.graph import Graph
from calor.graph.segments import grouped, segment_of
from calor.plugins.discovery import get_device
from calor.units import bytes_text
from calor_router.buffer import HOST
from calor_router.chunks import chunked
from calor_router.pieces import Pieces, TooLarge
from calor_router.placement import Apart, placed_apart, seconds, seconds_of
from calor_router.speeds import returns_at_once, speeds_of, transfer
from calor_router.steps import Stage, Step, compiled, forgetting, ordered
from calor_router.streaming import Streaming, streaming

# The parts of a limit that chunks take: the next one's weights fit beside the smaller ones, and the
# larger ones move less where one update reads nearly as much as fits.
_PARTS: Final = (0.45, 0.9)
# So much less has to be moved by larger chunks, which come without being sent ahead.
_GAIN: Final = 0.8


@dataclass(frozen=True, slots=True)
class Cut:
    """A program in parts.

    Parameters
    ----------
    graph : Graph
        The program.
    chosen : tuple of int
        The member of each node.
    reasons : mapping of int to str
        Why a node is not on the first member.
    stages : tuple of Stage
        The parts, in the order in which they run.
    steps : tuple of Step
        The parts with what moves between them.
    streamed : Streaming, optional
        What is streamed; None where all values stay on members.
    """

    graph: Graph
    chosen: tuple[int, ...]
    reasons: Mapping[int, str]
    stages: tuple[Stage, ...]
    steps: tuple[Step, ...]
    streamed: Streaming | None = None

    def wanted(self, member: int) -> int:
        """Return how many bytes a call has on a member at most, where nothing is streamed."""
        specs, graph = self.graph.specs, self.graph
        mine = [stage for stage in self.stages if stage.member == member]
        held = {v for s in mine for v in (*s.segment.inputs, *s.segment.outputs)} - {*graph.host}
        # What a part allocates beside its results is free again after it.
        extra = (
            s.executable.required_bytes - sum(specs[v].nbytes for v in s.segment.outputs)
            for s in mine
        )
        return sum(specs[v].nbytes for v in held) + max((0, *extra))


class Cutter:
    """Cuts the programs of a router.

    Parameters
    ----------
    device : Device
        The router.
    """

    def __init__(self, device: Device) -> None:
        backend: Any = device.backend
        self.device = device
        self.members: tuple[Device, ...] = backend.members
        self.limits: dict[int, int] = {
            m: limit for m, limit in enumerate(backend.rooms.limits) if limit is not None
        }

    def cut(self, graph: Graph, chosen: Sequence[int], reasons: Mapping[int, str]) -> Cut:
        """Return a placed program in parts, within the members' limits.

        Parameters
        ----------
        graph : Graph
            The graph.
        chosen : sequence of int
            The member of each node.
        reasons : mapping of int to str
            Why a node is not on the first member.

        Returns
        -------
        Cut
            The parts.

        Raises
        ------
        MemoryLimitError
            If an operation does not fit the members that take it.
        """
        limits = {m: limit for m, limit in self.limits.items() if m in chosen}
        if not limits:
            return self._plain(graph, chosen, reasons)
        full = [m for m in limits if self._least(graph, chosen, m) > limits[m]]
        if not full:
            made = self._plain(graph, chosen, reasons)
            full = [m for m in limits if made.wanted(m) > limits[m]]
            if not full:
                return made
        return self._limited(graph, chosen, reasons, {m: limits[m] for m in full})

    def _limited(
        self,
        graph: Graph,
        chosen: Sequence[int],
        reasons: Mapping[int, str],
        full: Mapping[int, int],
    ) -> Cut:
        """Return the cheapest cut of a program that does not fit members as it was placed."""
        streamed, refused = None, None
        try:
            streamed = self._streamed(graph, chosen, reasons, self.limits)
        except MemoryLimitError as error:
            refused = error
        others = sorted(self._elsewhere(graph, chosen, full), key=itemgetter(0))
        least = self._seconds(streamed) if others and streamed is not None else inf
        # Only what can be quicker is compiled.
        for placement in others:
            if placement[0] >= least:
                break
            cut = self._plain(graph, *placement[1:])
            if all(cut.wanted(m) <= limit for m, limit in self.limits.items()):
                return cut
        if streamed is None:
            raise refused or AssertionError
        return streamed

    def again(self, cut: Cut, member: int, limit: int) -> Iterator[Cut]:
        """Yield cuts with less on a member, on which one ran out of memory.

        Parameters
        ----------
        cut : Cut
            What was tried.
        member : int
            The member.
        limit : int
            The bytes that it had, beside what others use.

        Yields
        ------
        Cut
            Other places first, then streaming with less and less in use.

        Raises
        ------
        MemoryLimitError
            At the end, if an operation does not fit the members that take it.
        """
        graph = cut.graph
        if cut.streamed is None:
            for _, chosen, reasons in self._elsewhere(graph, cut.chosen, {member: limit}):
                yield self._plain(graph, chosen, reasons)
        while True:
            limits = {**self.limits, member: min(limit, self.limits.get(member, limit))}
            made = self._streamed(graph, cut.chosen, cut.reasons, limits)
            yield made
            limit = min(limit, made.streamed.peaks.get(member, limit)) * 3 // 4  # type: ignore[union-attr]

    def _plain(self, graph: Graph, chosen: Sequence[int], reasons: Mapping[int, str]) -> Cut:
        """Return a program whose values stay on members."""
        groups = grouped(graph, chosen)
        late = [returns_at_once(member) for member in self.members] if len(groups) > 1 else []
        if any(late):
            changes = _changes(graph, chosen)
            groups = [part for g in groups for part in self._apart(graph, chosen, g, changes)]
        stages = [self._stage(graph, chosen, group) for group in groups]
        count = len(self.members)
        steps = ordered(stages, count, lambda m: m < len(late) and late[m])
        run = tuple(step for step in steps if isinstance(step, Stage))
        after = tuple(forgetting(steps, graph))
        return Cut(graph, tuple(chosen), dict(reasons), run, after)

    def _apart(
        self, graph: Graph, chosen: Sequence[int], group: list[int], changes: Sequence[int]
    ) -> list[list[int]]:
        """Return nodes of one member in two parts, if the first need not wait for other members."""
        member = chosen[group[0]]
        if member == len(self.members):
            return [group]
        least = min(changes[i] for i in group)
        waiting = {i for i in group if changes[i] > least}
        first = [i for i in group if i not in waiting]
        speeds = speeds_of(self.members[member])
        gained = sum(seconds(speeds, graph, i) for i in first)
        # A part more is a call more.
        if not waiting or gained < 2 * speeds.call:
            return [group]
        return [first, [i for i in group if i in waiting]]

    def _stage(self, graph: Graph, chosen: Sequence[int], group: Sequence[int]) -> Stage:
        segment = segment_of(graph, chosen[group[0]], group)
        return compiled(self.device, self.members, segment)

    def _least(self, graph: Graph, chosen: Sequence[int], member: int) -> int:
        """Return the bytes that a member reads from outside, which its calls need at least."""
        mine = [node for node, m in zip(graph.nodes, chosen, strict=True) if m == member]
        made = {v for node in mine for v in node.outputs}
        read = {v for node in mine for v in node.inputs} - made - {*graph.host}
        return sum(graph.specs[v].nbytes for v in read)

    def _elsewhere(
        self, graph: Graph, chosen: Sequence[int], full: Mapping[int, int]
    ) -> Iterator[Apart]:
        """Yield placements with less on full members: a part there, then nothing."""
        for kept in (True, False):
            barred: set[tuple[int, int]] = set()
            stay: set[int] = set()
            for member, limit in full.items():
                mine = [i for i, m in enumerate(chosen) if m == member]
                stay |= {*self._fitting(graph, mine, limit)} if kept else set()
                barred |= {(i, member) for i in mine if i not in stay}
            found = placed_apart(self.members, graph, barred)
            if found is not None and (stay or not kept):
                yield found

    def _fitting(self, graph: Graph, mine: Sequence[int], limit: int) -> list[int]:
        """Return the first nodes of a member whose values are there together."""
        found: list[int] = []
        held: set[int] = set()
        for group in chunked(graph, mine, limit // 8):
            more = held | {v for i in group for v in (*graph.nodes[i].inputs,
                                                      *graph.nodes[i].outputs)}  # fmt: skip
            if sum(graph.specs[v].nbytes for v in more if v not in graph.host) > limit * 3 // 4:
                break
            held = more
            found += group
        return found

    def _streamed(
        self,
        graph: Graph,
        chosen: Sequence[int],
        reasons: Mapping[int, str],
        limits: Mapping[int, int],
    ) -> Cut:
        """Return a program whose values are streamed within limits."""
        barred: set[tuple[int, int]] = set()
        while True:
            try:
                return self._within(graph, chosen, reasons, limits)
            except TooLarge as error:
                barred |= {(i, chosen[i]) for i in error.nodes}
                found = placed_apart(self.members, graph, barred)
                if found is None:
                    # What is a single operation of one member may be several of another.
                    smaller = decompose(graph, frozenset(error.nodes))
                    found = None if smaller is graph else placed_apart(self.members, smaller, ())
                    if found is None:
                        raise self._refused(graph, chosen, error, limits) from None
                    graph, barred = smaller, set()
                _, chosen, reasons = found

    def _within(
        self,
        graph: Graph,
        chosen: Sequence[int],
        reasons: Mapping[int, str],
        limits: Mapping[int, int],
    ) -> Cut:
        """Return a streamed cut, of pieces that move little; TooLarge for single nodes."""
        pieces, flow = Pieces(self.device, graph, chosen, limits), len(self.members)
        tried = []
        for share in _PARTS:
            made = pieces.of(share)
            about = streaming(pieces.estimated(made, share), graph, limits, flow)
            tried.append((sum(graph.specs[v].nbytes for v, _, _ in about.moved), made))
        (small, first), (large, second) = tried
        stages = pieces.stages(second if large < _GAIN * small else first)
        found = streaming(stages, graph, limits, flow)
        return Cut(graph, tuple(chosen), dict(reasons), tuple(stages), tuple(found.steps), found)

    def _seconds(self, cut: Cut) -> float:
        """Return the seconds of a streamed cut: its work, or its transfers if they take longer."""
        work = seconds_of(self.members, cut.graph, cut.chosen)
        host = get_device("numpy")
        moved = 0.0
        assert cut.streamed is not None
        for value, source, target in cut.streamed.moved:
            first, last = (host if m == HOST else self.members[m] for m in (source, target))
            start, byte = (0.0, 0.0) if first is last else transfer(first, last)
            moved += start + byte * cut.graph.specs[value].nbytes
        return max(work, moved)

    def _refused(
        self, graph: Graph, chosen: Sequence[int], error: TooLarge, limits: Mapping[int, int]
    ) -> MemoryLimitError:
        # No limit is enough that is not enough for the largest.
        node = max(error.nodes, key=error.nodes.__getitem__)
        nbytes, member = error.nodes[node], chosen[node]
        name, place = graph.nodes[node].op.name, self.members[member].name
        return MemoryLimitError(
            f"{self.device.name}: {name} alone needs {bytes_text(nbytes)} ({nbytes} bytes) on "
            f"{place}, which has {bytes_text(limits[member])} for it, and no other member takes it "
            f'in its place: raise the limit, as in "router:{place}[{nbytes}]", name a member with '
            f"more memory, or take a smaller batch",
            smallest=nbytes,
        )


def _changes(graph: Graph, chosen: Sequence[int]) -> list[int]:
    """Return for each node how often values change the member on the way to it."""
    found: list[int] = []
    maker: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        before = [maker[v] for v in node.inputs if v in maker]
        found.append(max((found[j] + (chosen[j] != chosen[i]) for j in before), default=0))
        maker.update(dict.fromkeys(node.outputs, i))
    return found
