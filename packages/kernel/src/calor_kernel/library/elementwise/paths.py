"""Movement between an operand in memory and the computation of a chain, as views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor.graph.graph import Graph
from calor.specs import Spec
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import MOVEMENTS, view_of
from calor_kernel.contract.work import View, row_major


@dataclass(frozen=True, slots=True)
class Move:
    """A movement op between an operand and the chain's computation."""

    op: str
    attributes: tuple[tuple[str, Any], ...]
    result: Spec

    def apply(self, view: View) -> View | None:
        """Return the moved view, None if strides cannot express it."""
        return view_of(self.op, view, dict(self.attributes), self.result)


Path = tuple[Move, ...]


def move_of(graph: Graph, number: int) -> Move | None:
    """Return a node as a movement, None if it is none for a dense operand."""
    node = graph.nodes[number]
    if node.op.name not in MOVEMENTS or len(node.inputs) != 1:
        return None
    result = graph.specs[node.outputs[0]]
    move = Move(node.op.name, tuple(sorted(node.attributes.items())), result)
    return None if move.apply(View.dense(graph.specs[node.inputs[0]])) is None else move


def along(path: Path, view: View) -> View | None:
    """Return a view at the end of a path."""
    found: View | None = view
    for move in path:
        found = None if found is None else move.apply(found)
    return found


def in_place(
    operands: Sequence[tuple[int, Path]],
    views: Sequence[View],
    outputs: Sequence[Spec],
    info: DeviceInfo,
    steps: Sequence[int] = (),
) -> tuple[tuple[int, int], ...]:
    """Return the inputs that are read once, each element where its result is written.

    ``operands``: inputs by number with the paths to their views. A single element is excluded: all
    units of a cube read it, and one of them writes; unless it is read like dense elements, which
    ``steps`` of 1 say.
    """
    alone = info.max_units == 1
    numbers = [n for n, _ in operands]
    return tuple(
        (n, k)
        for place, ((n, path), v) in enumerate(zip(operands, views, strict=True))
        for k, s in enumerate(outputs)
        if not path
        and (alone or s.size != 1 or (steps and steps[place]))
        and numbers.count(n) == 1
        and v.strides == row_major(s.shape)
        and v.dtype.itemsize == s.dtype.itemsize
    )
