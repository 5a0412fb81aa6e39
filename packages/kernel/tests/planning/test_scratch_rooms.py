"""Is scratch memory smaller where it makes the peak of a plan, and nowhere else?"""

from typing import Any

import pytest

from calor.dtypes import uint8
from calor.graph.graph import Graph
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS
from calor_kernel.contract.work import Build, Launch, Refusal, View, Work
from calor_kernel.planning import scratch_rooms
from calor_kernel.planning.scratch_rooms import arranged_tasks
from calor_kernel.planning.task_order import live_bytes
from calor_kernel.planning.values import Draft, Piece, Task, Value

M = 1 << 20


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_rooms, "ROOMY", {"a", "b", "c", "d", "whole"})


class Families:
    """Stands for the families: works take any room from ``least`` bytes on, by chunks."""

    info = MANY_UNITS

    def __init__(self, least: int = 1, way: str = "chunks") -> None:
        self.least, self.way, self.rooms = least, way, list[int]()

    def ask(self, op: str, *given: Any, room: int, **more: Any) -> Any:
        self.rooms.append(room)
        if op == "whole":
            return Refusal("it has one way")
        return (_work(max(room, self.least), self.way),)


def _work(scratch: int, way: str = "chunks") -> Work:
    return Work((Launch(Build(None, ()), (1, 1, 1), ()),), (scratch,), way=way)  # type: ignore[arg-type]


def _chain(*steps: tuple[str, int, int]) -> tuple[Draft, list[Work]]:
    """Return a chain of tasks, each an op, the bytes of its result and of its scratch memory."""
    pieces, tasks, works = [Piece("input", M)], list[Task](), list[Work]()
    for op, made, scratch in steps:
        last = pieces[-1]
        value = Value(last, View.dense(spec((last.nbytes,), uint8)))
        pieces.append(Piece("made", made))
        result = spec((made,), uint8)
        tasks.append(Task(op, (), (value,), (pieces[-1],), {}, (result,)))
        works.append(_work(scratch))
    graph = Graph([spec((M,), uint8)], (), [], (), 1)
    return Draft(graph, tasks, [pieces[-1]], b"", [], 0), works


@pytest.mark.parametrize(
    ("steps", "families", "expected"),
    [
        # As little as the rest of the plan takes.
        ([("a", 20 * M, 0), ("b", 20 * M, 0), ("c", 8 * M, 40 * M)], Families(), 40 * M),
        # As much as the op with the most needs at least.
        ([("a", 8 * M, 0), ("b", 8 * M, 40 * M), ("c", M, 30 * M)], Families(20 * M), 36 * M),
        # Little is saved; it has no room; or another way is offered.
        ([("a", 40 * M, 0), ("b", 40 * M, M), ("c", M, 0)], Families(), 81 * M),
        ([("a", 8 * M, 0), ("whole", 8 * M, 40 * M), ("c", M, 0)], Families(), 56 * M),
        ([("a", 8 * M, 0), ("b", 8 * M, 40 * M), ("c", M, 0)], Families(way="other"), 56 * M),
    ],
)
def test_scratch_memory_at_the_peak(
    steps: list[tuple[str, int, int]], families: Families, expected: int
) -> None:
    draft, works = _chain(*steps)
    made, chosen = arranged_tasks(draft, works, families, False)  # type: ignore[arg-type]
    assert max(live_bytes(made, chosen)) == expected
    assert [task.op for task in made.tasks] == [op for op, *_ in steps]


def test_ops_below_the_peak_keep_their_scratch_memory() -> None:
    draft, works = _chain(("a", 8 * M, 0), ("b", 8 * M, 40 * M), ("c", M, 2 * M), ("d", M, 0))
    _, chosen = arranged_tasks(draft, works, Families(), False)  # type: ignore[arg-type]
    assert chosen[2] is works[2]
    assert chosen[1].scratch[0] < works[1].scratch[0]


def test_ops_without_works_for_a_room_are_not_asked() -> None:
    families = Families()
    draft, works = _chain(("a", 8 * M, 0), ("other", 8 * M, 40 * M), ("c", M, 0))
    _, chosen = arranged_tasks(draft, works, families, False)  # type: ignore[arg-type]
    assert not families.rooms
    assert chosen[1] is works[1]
