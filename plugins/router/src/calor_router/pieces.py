"""The pieces of a program whose values stream: chunks of each member's work that fit it.

Requirements: what cannot fit is found before anything is compiled, all of it at once, since each
finding places the program anew. Whether a piece fits depends on the piece alone, so one that does
not is halved where it stands, and the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calor.backends.device import Device
from calor.graph.graph import Graph
from calor.graph.segments import Segment, grouped, readers_of, segment_of
from calor_router.chunks import chunked
from calor_router.steps import Into, Stage, compiled
from calor_router.streaming import wanted

# How often a piece is halved before it is certain that the smallest ones do not fit.
_HALVINGS: Final = 12


class TooLarge(Exception):
    """Single nodes do not fit their members, even with nothing else there.

    Parameters
    ----------
    nodes : mapping of int to int
        The bytes that each of the nodes needs.
    """

    def __init__(self, nodes: Mapping[int, int]) -> None:
        super().__init__(nodes)
        self.nodes = nodes


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Stands for the executable of a piece that is not compiled yet."""

    required_bytes: int

    def __call__(self, inputs: Sequence[Any], into: Into = None) -> list[Any]:
        raise AssertionError("the piece is not compiled")


class Pieces:
    """The pieces of a placed program, by the share of the limits that one takes.

    Parameters
    ----------
    device : Device
        The router.
    graph : Graph
        The program.
    chosen : sequence of int
        The member of each node.
    limits : mapping of int to int
        The most bytes in use on members that have a limit.
    """

    def __init__(
        self, device: Device, graph: Graph, chosen: Sequence[int], limits: Mapping[int, int]
    ) -> None:
        self.device, self.graph, self.limits = device, graph, limits
        backend: Any = device.backend
        self.members: tuple[Device, ...] = backend.members
        self._groups = [(chosen[group[0]], group) for group in grouped(graph, chosen)]
        self._readers = readers_of(graph)

    def of(self, share: float) -> list[Segment]:
        """Return pieces whose operands and results fit their members.

        Parameters
        ----------
        share : float
            About what part of a limit a piece reads and makes.

        Returns
        -------
        list of Segment
            The pieces, in an order to run them.

        Raises
        ------
        TooLarge
            If single nodes do not fit.
        """
        found: list[Segment] = []
        large: dict[int, int] = {}
        for member, group in self._groups:
            if member in self.limits:
                for chunk in chunked(self.graph, group, int(self.limits[member] * share)):
                    piece = self._segment(member, chunk)
                    found += [one for one, _ in self._fitting(piece, self._seen, large)]
            else:
                found.append(self._segment(member, group))
        if large:
            raise TooLarge(large)
        return found

    def estimated(self, pieces: Sequence[Segment], share: float) -> list[Stage]:
        """Return pieces as stages that tell about what they need; they cannot run.

        Parameters
        ----------
        pieces : sequence of Segment
            The pieces of a share.
        share : float
            The share.

        Returns
        -------
        list of Stage
            The stages.
        """
        return [self._estimated(piece, share) for piece in pieces]

    def stages(self, pieces: Sequence[Segment]) -> list[Stage]:
        """Return the stages of pieces; one that turns out to need too much is halved.

        Parameters
        ----------
        pieces : sequence of Segment
            The pieces.

        Returns
        -------
        list of Stage
            The stages, in an order to run them.

        Raises
        ------
        TooLarge
            If single nodes do not fit.
        """
        found: list[Stage] = []
        large: dict[int, int] = {}
        # Single ones first: if one is too large, the others are not compiled in vain.
        single: dict[tuple[int, ...], Stage]
        single = {p.nodes: self._compiled(p) for p in pieces if len(p.nodes) == 1}
        for piece in pieces:
            if piece.nodes in single:
                [*self._fitting(piece, lambda p: single[p.nodes], large)]
        if large:
            raise TooLarge(large)
        for piece in pieces:
            if piece.nodes in single:
                found.append(single[piece.nodes])
            else:
                found += [stage for _, stage in self._fitting(piece, self._compiled, large)]
        if large:
            raise TooLarge(large)
        return found

    def _fitting(
        self, piece: Segment, staged: Callable[[Segment], Stage], large: dict[int, int]
    ) -> Iterator[tuple[Segment, Stage]]:
        """Yield a piece, or its parts that fit, with their stages; note nodes that do not."""
        stage = staged(piece)
        member = stage.member
        needs = wanted(stage, self.graph)
        if member not in self.limits or needs <= self.limits[member]:
            yield piece, stage
        elif len(piece.nodes) == 1:
            large[piece.nodes[0]] = needs
        else:
            for part in self._halves(piece.nodes):
                yield from self._fitting(self._segment(member, part), staged, large)

    def _halves(self, nodes: Sequence[int]) -> list[list[int]]:
        """Return nodes in parts of about half the bytes."""
        graph = self.graph
        values = {v for i in nodes for v in (*graph.nodes[i].inputs, *graph.nodes[i].outputs)}
        nbytes = sum(graph.specs[v].nbytes for v in values)
        for _ in range(_HALVINGS):
            nbytes //= 2
            parts = chunked(graph, nodes, nbytes)
            if len(parts) > 1:
                return parts
        return [[i] for i in nodes]

    def _segment(self, member: int, nodes: Sequence[int]) -> Segment:
        return segment_of(self.graph, member, nodes, self._readers)

    def _compiled(self, piece: Segment) -> Stage:
        return compiled(self.device, self.members, piece)

    def _seen(self, piece: Segment) -> Stage:
        """Return a piece as a stage of the least that it can need: its results."""
        made = sum(self.graph.specs[v].nbytes for v in piece.outputs)
        return Stage(piece.colour, _Estimate(made), piece)  # type: ignore[arg-type]

    def _estimated(self, piece: Segment, share: float) -> Stage:
        least = self._seen(piece)
        if least.member not in self.limits:
            return least
        specs = self.graph.specs
        every = sum(specs[v].nbytes for i in piece.nodes for v in self.graph.nodes[i].outputs)
        made = least.executable.required_bytes
        read = wanted(least, self.graph) - made
        # What a chunk makes and reads again was counted as long as it is read.
        about = max(int(self.limits[least.member] * share) - read, made)
        return Stage(least.member, _Estimate(min(every, about)), piece)
