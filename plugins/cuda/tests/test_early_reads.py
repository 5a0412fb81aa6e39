"""Does a launch that reads memory before it waits begin late where the list writes that memory?"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor_cuda.cuda_cpp import CudaCpp
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes.beside import Beside
from calor_kernel.ir.passes.early import EARLY, with_early_reads
from calor_kernel.ir.passes.guard import guard
from calor_kernel.language import Buffer, Scalar, absolute_position, await_launches, kernel
from calor_kernel.printers import print_kernel
from device_contract import loaded

READ, WRITTEN = Buffer(float32, writable=False), Buffer(float32)


@kernel
def increased(x: Any, y: Any, n: Any) -> None:
    i = absolute_position()
    value = x[i % n]
    await_launches()
    if i < n:
        y[i] = value + 1.0


def built() -> Kernel:
    said = [READ, WRITTEN, Scalar(int64, nonnegative=True)]
    features = frozenset(("overlap",))
    return with_early_reads(increased.build(said, cube=(32, 1, 1), features=features))


# The slots that launches read and write, and the launches that wait for the ends of those before.
LISTS: dict[str, tuple[list[tuple[int, int]], set[int]]] = {
    "nothing is read again": ([(0, 1), (0, 2), (0, 3), (0, 1)], set()),
    "the result of the launch before": ([(0, 1), (1, 2), (0, 3), (0, 1)], {1}),
    "the result of an earlier launch": ([(0, 1), (0, 2), (0, 3), (1, 2)], {3}),
    "what is written later": ([(1, 0), (1, 2), (2, 3), (3, 1)], {2, 3}),
    "two slots of one buffer": ([(0, 1), (0, 4), (0, 3), (5, 2)], {3}),
}


@pytest.mark.parametrize("name", LISTS)
def test_launches_begin_early_or_late(fake: Any, imitated: Any, name: str) -> None:
    pairs, late = LISTS[name]
    memory, queue = imitated.memory, imitated.queue
    queue.overlapping = True
    function = loaded(imitated, built())
    pieces = [memory.alloc(128) for _ in range(5)]
    handles = [*pieces, pieces[4]]
    host = np.arange(32, dtype=np.float32)
    for piece in pieces:
        memory.copy_in(piece, 0, host)
    steps = [Step(function, (1, 1, 1), (Slot(a), Slot(b), 32)) for a, b in pairs]
    recorded = queue.record(steps, len(handles))
    assert recorded.early.late(handles) == late
    for _ in range(2):
        queue.run(recorded, handles)
    assert fake.calls.count("cuGraphAddDependencies") == len(pairs) - 1 - len(late)
    got, want = np.empty(32, np.float32), dict.fromkeys(pieces, host)
    for a, b in pairs * 2:
        want[handles[b]] = want[handles[a]] + 1
    for piece in pieces:
        memory.copy_out(piece, 0, got)
        assert (got == want[piece]).all()


def test_a_graph_is_updated_only_if_the_same_launches_are_late(fake: Any, imitated: Any) -> None:
    memory, queue = imitated.memory, imitated.queue
    queue.overlapping = True
    function = loaded(imitated, built())
    pieces = [memory.alloc(128) for _ in range(6)]
    steps = [Step(function, (1, 1, 1), (Slot(a), Slot(b), 32)) for a, b in ((0, 1), (2, 3)) * 2]
    recorded = queue.record(steps, 4)
    apart = [[pieces[0], pieces[1], pieces[2], pieces[k]] for k in (3, 4, 5, 3, 4)]
    for handles in [apart[0], *apart]:
        queue.run(recorded, handles)
    made = len(fake.graphs)
    queue.run(recorded, [pieces[0], pieces[1], pieces[1], pieces[5]])
    assert len(fake.graphs) == made + 1
    assert [sorted(graph.late) for graph in recorded.graphs] == [[1, 3], [], []]


def test_the_parameters_that_are_read_early() -> None:
    one = built()
    assert one.attributes[EARLY] == (0,)
    features = frozenset(("overlap",))
    plain = increased.build([READ, WRITTEN, Scalar(int64)], cube=(32, 1, 1), features=features)
    two = with_early_reads(Beside(2, (0, 1), False).kernel(plain))
    assert two.attributes[EARLY] == (0, 1)
    alone = increased.build([READ, WRITTEN, Scalar(int64)], cube=(32, 1, 1))
    assert EARLY not in with_early_reads(alone).attributes


def test_a_guarded_kernel_reads_early_and_its_guard_late() -> None:
    made = with_early_reads(guard(built()))
    assert made.attributes[EARLY] == (0,)
    text = print_kernel(replace(made), CudaCpp())
    ready, read = text.index("launch_dependents"), text.index("= x[")
    assert ready < read < text.index("griddepcontrol.wait") < text.index("guard[0] == 0u")
    # Memory that is declared as constant would be read across the wait.
    assert "__restrict__" not in text
