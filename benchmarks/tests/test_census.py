"""The models of the census compute on a processor what torch does, or the reference without it."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import census
import models
from programs import compared, launches
from programs.ours import Ours
from programs.setting import Setting

TOLERANCE = compared.TOLERANCES["float32"]
STEPS = [(name, mode) for name in models.NAMES for mode in models.load(name).modes]
# The others take seconds to compile.
QUICK = {("gpt2", "decoding"), ("dlrm", "inference"), ("graph_network", "inference")}


def rows() -> list[Any]:
    return [
        pytest.param(*step, id="-".join(step), marks=() if step in QUICK else pytest.mark.slow)
        for step in STEPS
    ]


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(("name", "mode"), rows())
def test_a_step_agrees_with_the_reference(name: str, mode: str) -> None:
    setting = Setting(name, mode, "float32", "tiny")
    theirs, state = compared.reference(setting)
    ours = Ours(setting, "cpu", state)
    if mode == "training":
        (a, first), (b, second) = ours.gradients(), theirs.gradients()
        norms = [[found[name] for name in second] for found in (first, second)]
        assert compared.relative_error(a, b) < TOLERANCE
        assert compared.relative_error(*norms) < TOLERANCE
    expected = compared.results(theirs, setting)
    assert all(np.isfinite(one).all() for one in expected)
    for one, other in zip(compared.results(ours, setting), expected, strict=True):
        assert compared.relative_error(one, other) < TOLERANCE


def test_a_step_without_fusers_has_more_launches() -> None:
    setting = Setting("gpt2", "decoding", "float32", "tiny")
    fused = Ours(setting, "cpu")
    state = {name: x.numpy().copy() for name, x in fused.module.state_dict().items()}
    unfused = compared.peer("calor-unfused", setting, state, "cpu")
    ceilings = launches.Ceilings(nbytes=1.0, flops=1.0, products=1.0)
    for one, other in zip(
        compared.results(unfused, setting), compared.results(fused, setting), strict=True
    ):
        assert compared.relative_error(one, other) < TOLERANCE
    # Some calls later a step may be planned again, and must not find a fuser then either.
    unfused.run(20)
    alone, joined = (launches.of_step(step, ceilings) for step in (unfused, fused))
    assert len(alone) > 1.3 * len(joined)
    assert len(launches.of_step(Ours(setting, "cpu", state), ceilings)) == len(joined)
    with pytest.raises(NotImplementedError, match="plans no launches"):
        compared.peer("calor-unfused", setting, state, "numpy")


def test_what_is_in_memory_at_the_peak_of_a_step_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["lstm_lm", "--device", "described:cuda", "--mode", "training"]
    assert census.main([*arguments, "--dtype", "bfloat16", "--size", "tiny", "--peak"]) == 0
    told = capsys.readouterr().out
    assert "arguments and state" in told
    assert "x bfloat16[" in told


def test_results_are_judged_beside_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = compared.Judge(Setting("mini_gpt", "training", "float32", "tiny"), {}, gpu=False)
    exact, asked = np.ones(3), []
    monkeypatch.setattr(judge, "exact", lambda state=None: asked.append(1))
    monkeypatch.setattr(compared, "results", lambda step, setting: [exact, exact])
    assert not judge.results([exact, exact * 1.0001], [exact, exact])
    assert not asked, "float64 is asked where results agree"
    assert not judge.results([exact, exact * 1.01], [exact, exact * 0.996])
    assert "0.01 beside float64, the peer's 0.001" in judge.results(
        [exact, exact * 1.01], [exact, exact * 0.999]
    )
    assert "result 0: " in judge.results([exact * np.nan, exact], [exact, exact])
    assert "result 0: " in judge.results([exact[:2], exact], [exact, exact])


def test_chaotic_steps_may_be_as_far_off_as_those_of_rounded_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A factor of ``chaos`` amplifies what is rounded in the second step."""
    state: dict[str, np.ndarray[Any, Any]] = {
        "w": np.ones(4, np.float32),
        "count": np.ones(1, np.int64),
    }
    judge = compared.Judge(Setting("mini_gpt", "training", "float32", "tiny"), state, gpu=False)
    monkeypatch.setattr(judge, "exact", lambda state=judge.state: state)
    exact = np.ones(1)

    def wrong(chaos: float) -> str:
        def results(state: Any, setting: Any) -> list[Any]:
            return [exact, exact + chaos * (np.abs(state["w"] - 1).max() + state["count"] - 1)]

        monkeypatch.setattr(compared, "results", results)
        return judge.results([exact, exact * 1.01], [exact, exact])

    assert not wrong(chaos=1e5)
    assert "beside float64, the peer's 0, of rounded weights" in wrong(chaos=1e3)


def test_norms_of_gradients_are_compared_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = compared.Judge(Setting("mini_gpt", "training", "float32", "tiny"), {}, gpu=False)
    theirs = (1.0, {"a": 1.0, "b": 2.0})
    monkeypatch.setattr(judge, "exact", lambda: SimpleNamespace(gradients=lambda: theirs))
    assert not judge.gradients((1.0, {"b": 2.0, "a": 1.0}), theirs)
    assert "beside float64" in judge.gradients((1.0, {"a": 2.0, "b": 1.0}), theirs)


def test_launches_are_planned_for_a_described_device(tmp_path: Any, capsys: Any) -> None:
    file = tmp_path / "census.json"
    words = ["mini_gpt", "--device", "described:cuda", "--size", "tiny", "--sequence"]
    assert census.main([*words, "--mode", "inference,decoding", "--json", str(file)]) == 0
    (row,) = json.loads(file.read_text("utf-8"))["rows"]
    assert row["launches"] == sum(kernel["launches"] for kernel in row["kernels"]) > 10
    assert all(kernel["seconds"] is None for kernel in row["kernels"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "== mini GPT inference float32, batch 3, tiny"
    assert lines[1].startswith(f"{row['launches']} launches, ")
    assert any("attention" in line for line in lines)


def test_first_calls_alone_are_timed_in_other_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    from programs import starts

    asked = []

    def process(setting: Setting, device: str, cache: str) -> float:
        asked.append((setting.name, setting.mode, device, cache))
        return 2.0 / len(asked)

    monkeypatch.setattr(starts, "_process", process)
    monkeypatch.setattr("programs.ours.Ours", None)
    file = tmp_path / "calls.json"
    assert census.main(["mini_gpt", "--size", "tiny", "--first-call", "--json", str(file)]) == 0
    (row,) = json.loads(file.read_text("utf-8"))["rows"]
    assert (row["cold_s"], row["warm_s"], "kernels" in row) == (2.0, 1.0, False)
    (first, second) = asked
    assert first == second == ("mini_gpt", "inference", "cpu", first[3])
    assert "first call 2.00 s with empty caches, 1.00 s warm" in capsys.readouterr().out


def test_the_start_of_a_launch_is_part_of_its_least_time() -> None:
    ceilings = launches.Ceilings(nbytes=1e12, flops=1e13, products=1e14, start=2e-6)
    assert ceilings.least("add", 0, 0) == 2e-6
    assert ceilings.least("add", 4_000_000, 10) == pytest.approx(6e-6)
    assert ceilings.least("matmul boxes", 4_000_000, 10**9) == pytest.approx(12e-6)


def test_launches_far_from_their_ceilings_are_told_by_their_problem() -> None:
    def row(op: str, seconds: float, least: float, flops: int = 0) -> launches.Row:
        shape = ("float32[2]",)
        return launches.Row(op, "kernel", (op,), shape, seconds, least, 8, flops, (1, 1, 1))

    rows = [
        *(row("slow", 1.0, 0.3) for _ in range(3)),
        # Of the same kernel and result, but of more terms, and near its ceiling.
        row("slow", 20.0, 15.0, flops=9),
        row("rare", 0.3, 0.01),
        *(row("fast", 35.0, 20.0) for _ in range(2)),
    ]
    (found,) = launches.far_below(rows, 0.4)
    assert (found["op"], found["launches"], found["of_ceiling"]) == ("slow", 3, 0.3)
    assert found["share"] == pytest.approx(3 / 93.3)
    (line,) = launches.told([found])
    assert line.split()[:4] == ["3.2%", "30%", "3", "x"]
    assert len(launches.far_below(rows, 0.4, share=0.0)) == 2


def test_documents_of_several_commands_are_joined() -> None:
    def document(command: str, *cases: str) -> dict[str, Any]:
        rows = [{"case": case, "from": command} for case in cases]
        return {"command": command, "versions": {}, "rows": rows, "failures": []}

    first, second = document("one", "a", "b"), document("two", "b", "c")
    assert census.joined(None, first) is first
    found = census.joined(first, second)
    assert found["command"] == "one; two"
    assert [(row["case"], row["from"]) for row in found["rows"]] == [
        ("a", "one"),
        ("b", "two"),
        ("c", "two"),
    ]


def test_a_launch_has_the_ceiling_of_what_it_computes() -> None:
    ceilings = launches.Ceilings(nbytes=10.0, flops=1.0, products=100.0)
    assert ceilings.least("add elementwise", 20, 1) == 2.0
    assert ceilings.least("add elementwise", 0, 5) == 5.0
    assert ceilings.least("dot_general matmul tiled", 0, 500) == 5.0


def test_a_small_step_has_the_rate_of_the_caches_that_hold_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def moved(step: Any, count: int) -> float:
        asked.append(count)
        return 1e-9 + count * 1e-12

    monkeypatch.setattr(launches, "_sum_seconds", moved)
    step = Ours(Setting("mini_gpt", "training", "float32", "tiny"), "cpu")
    for kept, count in ((1 << 20, 1 << 17), (1 << 40, 1 << 24), (8, 1 << 14)):
        monkeypatch.setattr(step, "peak_bytes", lambda kept=kept: kept)
        asked.clear()
        assert launches.ceilings_of(step).nbytes == pytest.approx(8e12, 1e-3)
        assert asked == [1, count]


def test_chains_are_shown_shortly() -> None:
    assert launches.shortened(["mul", "mul", "reshape", "add"]) == "mul*2 add"
    assert launches.shortened(["reshape"]) == "reshape"
    assert launches.shortened(["a", "b", "c"], most=2) == "a b (+1)"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "no model 'nothing'; there are resnet50, "),
        (["gpt2", "--mode", "sleeping"], "no 'sleeping'; there are inference, "),
        (["gpt2", "--dtype", "float8"], "no 'float8'; there are float32, "),
    ],
)
def test_an_unknown_word_is_told(words: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        census.main([*words, "--device", "numpy"])


def test_an_unknown_peer_is_told(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        census.parse(["gpt2", "--compare", "theano"])
    assert "no peer 'theano'; there are torch-eager, " in capsys.readouterr().err
