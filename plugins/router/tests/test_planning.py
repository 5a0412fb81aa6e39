"""Planning within limits: what is compiled, how often a program is placed, which forms it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor import nn, router
from calor.backends.device import device_of
from calor.dtypes import ALL
from calor.errors import MemoryLimitError
from calor_router import chunks, cutting
from calor_router.chunks import chunked
from calor_router.pieces import Pieces
from calor_router.placement import placed_apart
from calor_router.running import Run
from calor_router.speeds import Speeds
from calor_router.steps import Fetch, compiled
from calor_router.streaming import wanted

from .toys import Toy, routed, toy, with_costs

FAST, SLOW = Speeds(0.0, 1e-9, 1e-13, 1e-13), Speeds(0.0, 1e-5, 1e-8, 1e-8)
SIDE = 64
ROOM = SIDE * SIDE * 4


def layers(deep: int) -> Any:
    def function(x: Any, *weights: Any) -> Any:
        for w in weights:
            x = calor.tanh(x @ w)
        return x

    given = [calor.ones((8, SIDE)), *(calor.ones((SIDE, SIDE)) for _ in range(deep))]
    return calor.trace(function, *given)


def test_a_slower_member_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where streaming is quicker than the other member by the speeds, that one is not asked."""
    with_costs(monkeypatch, {"fast": FAST, "slow": SLOW}, (1e-9, 1e-13))
    monkeypatch.setattr(cutting, "transfer", lambda source, target: (1e-9, 1e-13))
    slow = toy("slow")
    device = routed(toy("fast"), slow, limits=(3 * ROOM, None))
    before = slow.plans_made
    made = device.backend.compile(0, layers(12))
    assert made.placement().streamed is not None
    assert slow.plans_made == before


def test_what_does_not_fit_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty operations are too large, and the program is placed anew once or twice."""
    with_costs(monkeypatch, {"fast": FAST, "slow": SLOW}, (1e-9, 1e-13))
    monkeypatch.setattr(cutting, "transfer", lambda source, target: (1e-9, 1e-13))
    placements = []

    def counted(*given: Any) -> Any:
        placements.append(given)
        return placed_apart(*given)

    monkeypatch.setattr(cutting, "placed_apart", counted)
    device = routed(toy("fast"), toy("slow"), limits=(3 * ROOM, None))

    def function(x: Any, large: Any) -> Any:
        for _ in range(10):
            x = calor.tanh(x @ x)
            large = calor.tanh(large * 1.5)
        return x, large

    x, large = calor.ones((SIDE, SIDE)), calor.ones((4, SIDE, SIDE))
    graph = calor.trace(function, x, large)
    made = device.backend.compile(0, graph)
    # Two more ask for other places of the whole, after the streamed one was found.
    assert len(placements) <= 4
    elsewhere = [graph.nodes[i].op.name for i, member in enumerate(made.chosen) if member]
    assert elsewhere.count("tanh") >= 10
    assert "dot_general" not in elsewhere


def test_pieces_that_need_too_much_are_halved_where_they_stand() -> None:
    """The others are compiled once, and what turns out to be too large in parts."""
    device = routed(toy("small"), limits=(3 * ROOM,))
    graph = layers(12)
    chosen, limits = (0,) * len(graph.nodes), {0: 3 * ROOM}
    pieces = Pieces(device, graph, chosen, limits)
    whole = Pieces(device, graph, chosen, {0: 100 * ROOM}).of(1.0)
    assert len(whole) == 1
    stages = pieces.stages(whole)
    assert len(stages) > 3
    assert all(wanted(stage, graph) <= limits[0] for stage in stages)
    assert [i for stage in stages for i in stage.segment.nodes] == [*range(len(graph.nodes))]
    fine = pieces.of(0.45)
    assert [stage.segment for stage in pieces.stages(fine)] == fine


def test_an_estimate_is_near_what_compiling_tells() -> None:
    device = routed(toy("small"), limits=(3 * ROOM,))
    members: Any = device.backend
    graph = layers(12)
    pieces = Pieces(device, graph, (0,) * len(graph.nodes), {0: 3 * ROOM})
    for share in (0.45, 0.9):
        made = pieces.of(share)
        for about, piece in zip(pieces.estimated(made, share), made, strict=True):
            exact = compiled(device, members.members, piece).executable.required_bytes
            assert about.executable.required_bytes >= exact / 2
            assert wanted(about, graph) <= 3 * ROOM


class Composites(Toy):
    """A device that has softmax as an operation, which it runs in one piece."""

    def table(self, index: int) -> Any:
        return {**super().table(index), "softmax": _softmax}


def _softmax(x: Any, *, axis: int, **_: Any) -> Any:
    grown = np.exp(x - x.max(axis, keepdims=True))
    return grown / grown.sum(axis, keepdims=True)


def test_a_composite_that_does_not_fit_runs_as_what_it_is_made_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other member takes what a softmax is made of, and no softmax."""
    with_costs(monkeypatch, {"first": FAST, "second": SLOW}, (1e-9, 1e-13))
    first = device_of(Composites("first", None, ALL), 0)
    device = routed(first, toy("second"), limits=(100_000, None))
    x = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
    with calor.device(device):
        run = calor.jit(lambda x: nn.functional.softmax(x, -1))
        told = router.explain(run, calor.asarray(x))
        made = run(calor.asarray(x)).numpy()
    where = {told.graph.nodes[i].op.name: told.members[m] for m, part in told.stages for i in part}
    assert where["exp"] == where["div"] == "second:0"
    want = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    assert np.allclose(made, want, atol=1e-6)
    assert first.memory.peak <= 100_000


def test_an_operation_that_nobody_else_takes_in_any_form_is_refused() -> None:
    first = device_of(Composites("first", None, ALL), 0)
    device = routed(first, toy("second", ("tanh",)), limits=(100_000, None))
    run = calor.jit(lambda x: nn.functional.softmax(x, -1))
    with calor.device(device):
        x = calor.asarray(np.ones((200, 200), np.float32))
        with pytest.raises(MemoryLimitError, match="alone needs"):
            run(x)


@pytest.mark.parametrize("deep", [6, 60])
def test_the_work_of_chunking_grows_with_the_program(deep: int) -> None:
    """A node is ranked again only when something that it reads has come."""
    graph = layers(deep)
    ranked = 0
    rank = chunks._Chunks._rank

    def counted(self: Any, node: int) -> None:
        nonlocal ranked
        ranked += 1
        rank(self, node)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks._Chunks, "_rank", counted)
        found = chunked(graph, range(len(graph.nodes)), 2 * ROOM)
    assert sum(map(len, found)) == len(graph.nodes)
    assert ranked <= 4 * len(graph.nodes)


def test_room_is_asked_for_without_a_look_at_every_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that finds room asks nothing of the values that the run holds."""
    device = routed(toy("small"), limits=(3 * ROOM,))
    with calor.device(device):
        run = calor.jit(lambda *given: calor.tanh(sum(w @ w for w in given)))
        weights = [calor.asarray(np.ones((SIDE, SIDE), np.float32)) for _ in range(12)]
        run(*weights)
        looks = []
        monkeypatch.setattr(Run, "_ids", lambda self, held: looks.append(held) or {*map(id, held)})
        run(*weights)
    cut = run.programs[0].executable.cut
    assert sum(isinstance(step, Fetch) for step in cut.steps) > 10
    assert len(looks) < 3
