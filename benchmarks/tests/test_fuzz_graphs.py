"""Calls of calor inside a CUDA graph, on an imitated driver."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calor
from calor.plugins.registry import Registry
from fuzzing import graphs, measuring
from fuzzing.cases import sample_of
from fuzzing.clocks import GraphRunner
from fuzzing.families import work_of
from fuzzing.sides import Calor, Torch, copies
from imitated_cuda import Fake, imitated_driver

NO_COMPILER = "there is no NVRTC; pip install calor-cuda[compile]"
LINE = "elementwise f32 gradient shape=3x40 form=multiply broadcast=row"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """The imitated driver, in CuPy's place."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        pytest.skip(NO_COMPILER)
    # Each test opens a device of its own.
    monkeypatch.setattr("calor.plugins.discovery.registry", Registry())
    with imitated_driver(monkeypatch) as made:
        yield made


def test_a_graph_has_the_launches_of_all_calls(fake: Fake) -> None:
    drawn = sample_of(LINE)
    side = Calor("cuda", drawn, work_of(drawn), groups=2)
    first = side.results()
    runner = graphs.calor_graph("cuda", side.calls(), copies=4)
    launches = fake.graphs[-1]
    assert runner.units == 4
    assert len(launches) % 4 == 0
    # The sets of operands take turns, and each call of a set writes where the last one wrote.
    arguments = [tuple(fake.held[len(fake.graphs) - 1, i][0]) for i in range(len(launches))]
    quarter = len(launches) // 4
    assert arguments[: 2 * quarter] == arguments[2 * quarter :]
    assert arguments[:quarter] != arguments[quarter : 2 * quarter]
    before = fake.log.count("launch on 0")
    assert runner.seconds(2) == 0.25e-3
    assert fake.log.count("launch on 0") == before + 3 * len(launches)
    runner.close()
    again = side._listed(side.jitted(*side.sets[0]))
    for mine, yours in zip(again, first, strict=True):
        np.testing.assert_array_equal(mine.numpy(), yours)


@pytest.mark.parametrize("line", [
    "dropout f32 gradient shape=3x40 p=0.5",
    "embedding f32 gradient ids=2x3 words=7 width=16 form=positions",
    "cross_entropy f32 gradient form=rows rows=4x classes=10",
    "ordering f32 forward form=topk shape=2x20 k=3",
    "update f32 forward form=adam network=perceptron width=8 layers=2",
    "moving f32 gradient form=roll shape=4x6 axis=1 part=0.5 count=2",
])  # fmt: skip
def test_calls_with_states_and_indices_are_captured(fake: Fake, line: str) -> None:
    drawn = sample_of(line)
    side = Calor("cuda", drawn, work_of(drawn), groups=2)
    assert isinstance(side.runner(1e-3, captured=True), GraphRunner)


def test_what_a_graph_cannot_hold_is_refused(fake: Fake) -> None:
    with calor.device("cuda"):
        x = calor.asarray(np.ones(3, np.float32))

        def written() -> Any:
            return calor.asarray(np.ones(3, np.float32)) + x

        with pytest.raises(graphs.NotCaptured):
            graphs.calor_graph("cuda", [lambda: calor.eval(written())], copies=1)
        assert fake.capturing is None
        assert written().tolist() == [2.0, 2.0, 2.0]


def test_a_case_falls_back_to_the_host_clock(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any) -> Any:
        raise graphs.NotCaptured("a call writes numbers of the host")

    monkeypatch.setattr(graphs, "calor_graph", refused)
    drawn = sample_of(LINE)
    side, beside = (Calor(name, drawn, work_of(drawn), groups=2) for name in ("cuda", "cpu"))
    with pytest.raises(graphs.NotCaptured):
        side.runner(1e-5, captured=True)
    times, why = measuring._times(side, beside)
    assert min(times.values()) > 0
    assert why == "not captured: a call writes numbers of the host"


def test_a_peer_that_copies_from_the_host_is_not_captured(fake: Fake) -> None:
    pytest.importorskip("torch")
    drawn = sample_of(LINE)
    work = replace(work_of(drawn), uncaptured="it copies lengths")
    side, beside = Calor("cuda", drawn, work, groups=2), Torch("cpu", drawn, work, groups=2)
    times, why = measuring._times(side, beside)
    assert min(times.values()) > 0
    assert why == "not captured: it copies lengths"


@pytest.mark.parametrize(
    ("groups", "seconds", "expected"), [(2, 1.0, 2), (6, 1e-6, 36), (2, 5e-5, 6), (6, 0.0, 36)]
)
def test_short_work_is_copied_more_often(groups: int, seconds: float, expected: int) -> None:
    assert copies(groups, seconds) == expected
