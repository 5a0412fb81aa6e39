"""The runner: what it times, compares, writes and refuses."""

import gc
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import run
from harness import Case, agree, report, runner, timing
from suites._operations import nearly


def constant(value: Any) -> Any:
    """A factory of a function that returns `value`."""
    return lambda: lambda: value


def measure(*cases: Case, peers: tuple[str, ...] = ("numpy",)) -> runner.Result:
    return runner.run_suite("suite", cases, "numpy", peers, repeats=3)


def test_a_row_has_both_times_and_their_ratio() -> None:
    floor = 1e-9
    case = Case("c", constant(1), {"numpy": constant(1)}, floor=lambda: floor, inner=10)
    (row,) = measure(case).rows
    assert (row.suite, row.case, row.device, row.peer) == ("suite", "c", "numpy", "numpy")
    assert row.peer_s is not None
    assert row.ratio == row.peer_s / row.ours_s
    assert row.floor_s == floor


def test_without_peers_there_is_our_time() -> None:
    (row,) = measure(Case("c", constant(1), inner=10), peers=()).rows
    assert (row.peer, row.peer_s, row.ratio) == (None, None, None)
    assert row.ours_s > 0


def test_a_case_without_the_peer_is_named() -> None:
    result = measure(Case("c", constant(1), inner=10))
    assert result.not_run == ["c beside numpy: the suite has no such peer"]


def test_results_that_differ_are_named_and_not_timed() -> None:
    result = measure(Case("c", constant(1.0), {"numpy": constant(1.1)}, inner=10))
    assert [row.peer for row in result.rows] == [None]
    assert result.disagreements[0].startswith("c beside numpy: ")


def test_a_case_may_compare_in_its_own_way() -> None:
    def check(ours: str, theirs: str) -> None:
        assert ours.upper() == theirs

    case = Case("c", constant("a"), {"numpy": constant("A")}, check=check, inner=10)
    assert not measure(case).disagreements


def test_what_the_caller_froze_stays_frozen() -> None:
    gc.freeze()
    measure(Case("c", constant(1), inner=10), peers=())
    assert gc.get_freeze_count()


def test_time_is_per_unit_of_work() -> None:
    def spend() -> None:
        for _ in range(2000):
            pass

    one = Case("one", lambda: spend, inner=20)
    thousand = Case("thousand", lambda: spend, inner=20, units=1000)
    by_name = {row.case: row.ours_s for row in measure(one, thousand, peers=()).rows}
    assert by_name["one"] > 100 * by_name["thousand"]


def test_factories_run_once_and_outside_the_time() -> None:
    made = []

    def factory() -> Any:
        made.append(1)
        return lambda: None

    measure(Case("c", factory, {"numpy": factory}, inner=5))
    assert len(made) == 2


def test_samples_are_interleaved_and_the_order_rotates() -> None:
    seen: list[str] = []
    calls = {"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}
    timing.interleaved(calls, repeats=3, inner=1)
    assert seen == ["a", "b", "b", "a", "a", "b"]


def test_a_device_is_awake_when_its_sample_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(timing, "rest", lambda: seen.append("rest"))
    timing.interleaved({"a": lambda: seen.append("a")}, repeats=2, inner=2, awake=True)
    assert seen == ["rest", "a", "a", "a"] * 2


def test_a_sample_waits_until_other_threads_sleep() -> None:
    ends = time.perf_counter() + 0.05

    def look_for_work() -> None:
        while time.perf_counter() < ends:
            pass

    thread = threading.Thread(target=look_for_work)
    thread.start()
    timing.rest()
    assert time.perf_counter() > ends
    thread.join()


def test_a_processor_alone_counts_the_process_s_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sleeping stands for another process that has the processor."""

    def slept(**computing: bool) -> float:
        return timing.interleaved({"call": lambda: time.sleep(0.02)}, 1, 1, **computing)["call"]

    monkeypatch.setattr(timing, "one_processor", lambda: True)
    assert slept(computing=True) < 0.01 < slept()
    monkeypatch.setattr(timing, "one_processor", lambda: False)
    assert slept(computing=True) > 0.01


def test_inner_makes_a_sample_long_enough() -> None:
    inner = timing.choose_inner(lambda: None, sample=200_000)
    assert inner > 100


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(None, None), (1.0, 1.0 + 1e-7), ((1, [2.0, 3.0]), (1, [2.0, 3.0])), (np.ones(2), [1, 1])],
)
def test_agree(ours: Any, theirs: Any) -> None:
    agree(ours, theirs)


@pytest.mark.parametrize(("ours", "theirs"), [(1.0, 1.01), ((1,), (1, 2)), (np.ones(2), [1, 2])])
def test_disagree(ours: Any, theirs: Any) -> None:
    with pytest.raises(AssertionError):
        agree(ours, theirs)


def test_a_case_that_fails_leaves_the_others() -> None:
    def fails() -> Any:
        raise MemoryError("no room")

    told: list[tuple[int, list[str]]] = []
    result = runner.run_suite(
        "suite",
        [Case("a", fails), Case("b", constant(1), inner=10)],
        "numpy",
        (),
        repeats=2,
        told=lambda result, rows: told.append((len(result.rows), [r.case for r in rows])),
    )
    assert result.failures == ["a: MemoryError: no room"]
    assert told == [(0, []), (1, ["b"])]


def test_a_device_of_ours_is_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    # The suite sets it for all that comes after.
    monkeypatch.setenv("CALOR_KEEP", "0")
    cases = runner.load_suite("gpu", "numpy", ["calor-numpy:0"], ["add 100000"])
    assert [c.name for c in cases] == [f"add {10**n}" for n in (5, 6, 7, 8)]
    (row,) = runner.run_suite("gpu", cases[:1], "numpy", ["calor-numpy:0"], repeats=2).rows
    assert row.peer == "calor-numpy:0"
    assert row.ratio is not None
    beside = report.setting("", "numpy", ["calor-numpy:0"], None)["beside"]
    assert "NumPy" in beside["calor-numpy:0"]


def test_a_device_that_is_not_there_is_no_peer() -> None:
    with pytest.raises(runner.BenchmarkError, match='no device "abacus"'):
        runner.require_peers(["calor-abacus"])


def test_only_some_cases() -> None:
    assert len(runner.load_suite("example", "numpy", only=["sum", "nothing"])) == 1
    with pytest.raises(runner.BenchmarkError, match='no case of suite "example" .*: nothing'):
        runner.load_suite("example", "numpy", only=["nothing"])


@pytest.mark.parametrize("place", [0, 70_000, 199_999])
def test_a_number_that_differs_is_found_wherever_it_is(place: int) -> None:
    ours = np.linspace(-1, 1, 200_000, dtype=np.float32)
    theirs = ours.copy()
    theirs[place] += np.float32(1e-3)
    check = nearly(1e-4)
    check(ours, ours.copy())
    for wrong in (theirs, np.where(np.arange(ours.size) == place, np.float32("nan"), ours)):
        for pair in ((ours, wrong), (wrong, ours)):
            with pytest.raises(AssertionError):
                check(*pair)


def test_geometric_mean() -> None:
    rows = [
        runner.Row("s", name, "numpy", "torch", 1.0, ratio, ratio, None)
        for name, ratio in (("a", 0.5), ("b", 8.0))
    ]
    assert runner.Result(rows).means() == {"torch": pytest.approx(2.0)}


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (2.0, "2 s"), (0.0125, "12.5 ms"), (1.5e-6, "1.5 µs"), (21e-9, "21 ns")],
)
def test_times_have_a_readable_unit(value: float | None, text: str) -> None:
    assert report.seconds(value) == text


def test_an_unknown_peer_is_refused() -> None:
    with pytest.raises(runner.BenchmarkError, match='no peer "abacus"; known: .*torch'):
        runner.require_peers(["abacus"])


def test_a_missing_peer_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = re.escape("not installed: torch, jax. pip install torch jax")
    with pytest.raises(runner.BenchmarkError, match=message):
        runner.require_peers(["torch", "jax"])


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["nothing"])
    assert 'no suite "nothing"; there are: ' in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results" / "example.json"
    plot = tmp_path / "example.png"
    arguments = ["example", "--peers", "numpy", "--repeats", "2"]
    assert run.main([*arguments, "--json", str(path), "--plot", str(plot)]) == 0
    printed = capsys.readouterr().out
    assert "matmul 64x64" in printed
    assert "geometric mean of the ratios beside numpy" in printed
    document = json.loads(path.read_text("utf-8"))
    assert document["command"].startswith("python benchmarks/run.py example --peers numpy")
    assert {"date", "device", "cpu", "versions", "rows"} <= document.keys()
    fields = {"suite", "case", "device", "peer", "ours_s", "peer_s", "ratio", "floor_s"}
    assert all(row.keys() == fields for row in document["rows"])
    assert {"python", "calor", "numpy"} <= document["versions"].keys()
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_plot_needs_a_peer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["example", "--repeats", "1", "--plot", str(tmp_path / "x.png")]) == 2
    assert "Use --peers" in capsys.readouterr().err


def test_threads_are_limited_before_numpy_is_imported() -> None:
    code = (
        "import sys; from thread_limits import limit_threads; assert 'numpy' not in sys.modules; "
        "limit_threads(1); import os; assert os.environ['OMP_NUM_THREADS'] == '1'"
    )
    folder = Path(run.__file__).parent
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
