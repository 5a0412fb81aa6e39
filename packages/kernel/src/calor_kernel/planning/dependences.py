"""Dependences of a plan's outputs: the inputs they read and the tasks that may fail before them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calor_kernel.planning.values import Piece, Task


def dependences(
    tasks: Sequence[Task], outputs: Sequence[Piece], failing: Iterable[int]
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Return, for each output, the inputs and the tasks that may fail which it depends on."""
    may_fail = set(failing)
    nothing: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    known: dict[Piece, tuple[frozenset[int], frozenset[int]]] = {}
    for number, task in enumerate(tasks):
        inputs: set[int] = set()
        failures = {number} & may_fail
        for value in task.inputs:
            if value.piece.kind == "input":
                inputs.add(value.piece.number)
            before = known.get(value.piece, nothing)
            inputs |= before[0]
            failures |= before[1]
        known.update(dict.fromkeys(task.outputs, (frozenset(inputs), frozenset(failures))))
    return [known[piece] for piece in outputs]
