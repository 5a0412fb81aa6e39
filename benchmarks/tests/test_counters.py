"""Counters of launches are those of the launches that were chosen, and rules tell the reasons."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import calor
import counters
from calor.plugins.registry import Registry
from calor_kernel.contract.cost import Ceilings
from imitated_cuda import Fake, imitated_driver
from programs import hardware_counters, reasons
from programs.hardware_counters import CounterError

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# The unit and a value of each metric, as ncu writes them.
METRICS: dict[str, tuple[str, str]] = {
    "gpu__time_duration.sum": ("nsecond", "12,300"),
    "dram__bytes_read.sum": ("byte", "30,000,000"),
    "dram__bytes_write.sum": ("byte", "10,000,000"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "21.5"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "12.5"),
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": ("%", "11"),
    "smsp__issue_active.avg.per_cycle_active": ("inst/cycle", "0.25"),
    "sm__cycles_active.avg": ("cycle", "9,000"),
    "gpc__cycles_elapsed.max": ("cycle", "10,000"),
    "launch__waves_per_multiprocessor": ("", "4.5"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "20"),
    "sm__maximum_warps_per_active_cycle_pct": ("%", "25"),
    "launch__registers_per_thread": ("register/thread", "128"),
    "smsp__inst_executed.sum": ("inst", "10,000,000"),
    "derived__local_spilling_requests": ("", "0"),
    "launch__occupancy_limit_registers": ("block", "2"),
    "launch__occupancy_limit_shared_mem": ("block", "9"),
    STALL.format("long_scoreboard"): ("inst", "6"),
    STALL.format("barrier"): ("inst", "3"),
    STALL.format("selected"): ("inst", "1"),
}


def written(*launches: dict[str, str]) -> str:
    """Return what ncu writes of launches that differ from METRICS in some values."""

    def line(cells: Sequence[str]) -> str:
        return ",".join(f'"{cell}"' for cell in cells)

    head = ["ID", "Kernel Name", "Block Size", "Grid Size", *METRICS]
    rows = [
        [str(i), "kernel", "(128, 1, 1)", "(600, 1, 1)"]
        + [own.get(name, value) for name, (_, value) in METRICS.items()]
        for i, own in enumerate(launches)
    ]
    units = ["", "", "", "", *(unit for unit, _ in METRICS.values())]
    return "==PROF== Connected to process 7\n" + "\n".join(map(line, [head, units, *rows])) + "\n"


def counted(**own: str) -> hardware_counters.Counters:
    """Return the counters of a launch by the last words of its metrics' names."""
    named = {next(n for n in METRICS if end in n): value for end, value in own.items()}
    (found,) = hardware_counters.read(written(named))
    return found


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """The imitated driver, in CuPy's place."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        pytest.skip("there is no NVRTC; pip install calor-cuda[compile]")
    monkeypatch.setattr("calor.plugins.discovery.registry", Registry())
    # To measure them takes lanes of the processor minutes.
    monkeypatch.setattr("calor_kernel.runtime.engine.measured", lambda *given: Ceilings(1e12, 1e12))
    with imitated_driver(monkeypatch) as made:
        yield made


def rows_added(x: Any) -> Any:
    return calor.sum(x, axis=1)


class Step:
    """A step of three launches, the first and the last of one kernel on other sizes."""

    device = "cuda"

    def __init__(self) -> None:
        with calor.device("cuda"):
            self.x, self.y = calor.ones(30), calor.ones((4, 5))
            self.made: list[Any] = []
            calor.eval(self.x, self.y)

    def run(self, times: int = 1) -> None:
        with calor.device("cuda"):
            for _ in range(times):
                self.made.clear()
                for make, x in ((calor.exp, self.x), (rows_added, self.y), (calor.exp, self.y)):
                    self.made.append(make(x))
                    # What is pending together may become one launch.
                    calor.eval(self.made[-1])

    def wait(self) -> None:
        calor.synchronize("cuda")


def test_ncu_sees_the_chosen_launches_at_their_places(fake: Fake) -> None:
    import calor_kernel

    step, seen = Step(), list[int]()
    with calor_kernel.profile("cuda") as profile:
        step.run()
    assert len(profile.events) == 3

    def launch_of(number: int) -> dict[str, Any]:
        e = profile.events[number]
        own = {"op": e.op, "kernel": e.blueprint, "results": list(e.results)}
        return {**own, "bytes": e.nbytes, "flops": e.flops}

    def launched() -> None:
        seen.append(sum(line.startswith("launch") for line in fake.log))

    wanted = [launch_of(2), {**launch_of(0), "bytes": 1}, launch_of(1)]
    assert hardware_counters.run_chosen(step, wanted, launched, launched) == [2, None, 1]
    # In the order of the step, each pair of calls has one launch between.
    assert [after - before for before, after in zip(seen[::2], seen[1::2], strict=True)] == [1, 1]
    assert seen[2] == seen[1]
    # What a profiled step computes is right, and later profiles have times again.
    assert step.made[1].tolist() == [5.0] * 4
    with calor_kernel.profile("cuda") as profile:
        step.run()
    assert profile.seconds > 0
    with pytest.raises(CounterError, match="none of the launches any more; take a new census"):
        hardware_counters.run_chosen(step, wanted[1:2], launched, launched)


def test_counters_are_read_by_name_and_unit() -> None:
    first, second = hardware_counters.read(written({}, {"launch__waves_per_multiprocessor": "n/a"}))
    assert first.seconds == pytest.approx(12.3e-6)
    assert first.dram_bytes == 40e6
    assert (first.dram, first.tensor, first.issue) == pytest.approx((0.215, 0.125, 0.25))
    assert (first.busy, first.waves, first.grid) == (0.9, 4.5, (600, 1, 1))
    # The share of the time between two instructions of a warp, without that of issuing.
    assert first.stalls == pytest.approx({"long_scoreboard": 0.6, "barrier": 0.3})
    assert first.limits == {"registers": 2.0, "shared_mem": 9.0}
    # A metric that a chip lacks, or whose value is no number.
    assert second.waves is first.l2 is None
    assert json.loads(json.dumps(first.plain()))["grid"] == [600, 1, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user may not", "ncu may not read the counters: run as"),
        ("==ERROR== Failed to load", "ncu counted no launch. It said: ==ERROR== Failed to load"),
        ("", "It said: nothing"),
    ],
)
def test_what_ncu_refuses_is_told(text: str, said: str) -> None:
    with pytest.raises(CounterError, match=said):
        hardware_counters.read(text)


def test_reasons_follow_from_counters() -> None:
    def why(nbytes: int = 40_000_000, cores: int = 132, **own: str) -> str:
        return reasons.reason(counted(**own), {"bytes": nbytes}, cores)

    waits = "issue in 25% of the cycles: warps wait for reads of memory or of the L2 cache (60%)"
    assert why().startswith(f"{waits} and other warps of their cube at a barrier (30%)")
    assert "128 registers allow 2 cubes a multiprocessor, 25% of its warps" in why()
    # A unit near its peak is the reason, and what warps wait for is none.
    assert why(gpu__dram_throughput="88") == "DRAM at 88%"
    assert why(tensor_cycles="70", fma="75").startswith("pipe of multiply-add instructions at 75%")
    # Multiprocessors without work.
    assert why(cores=1000, sm__cycles_active="3000").startswith("too few cubes: 600 on 1000 ")
    assert why(waves="1.25").startswith("1.2 waves: the last one fills 25% of the GPU; issue in")
    assert why(waves="4", sm__cycles_active="6000").startswith("multiprocessors have work 60% of")
    assert why(waves="4") == why(waves="0.9") == why(waves="9.1")
    more = "DRAM moves 4 times the least bytes"
    assert why(nbytes=10_000_000, gpu__dram_throughput="35").endswith(more)
    assert more not in why(nbytes=10_000_000)
    assert "times the least" not in why(nbytes=39_000_000, gpu__dram_throughput="35")
    assert why(issue_active="0.7", spilling="9").endswith(
        "instruction issue at 70%; registers spill; 8 instructions of a unit for a byte"
    )


def test_a_table_has_counters_and_reasons() -> None:
    row = {"share": 0.05, "of_ceiling": 0.2, "op": "exp", "kernel": "flat", "results": ["f[3]"]}
    head, line, why = reasons.table([{**row, "why": "slow", "counters": counted().plain()}])
    assert line.split()[:4] == ["5.0%", "20%", "12.3", "µs"]
    assert len(head.split(":")[0].split()) == 15
    assert why.strip() == "slow"


NCU = """#!{python}
import json, sys
if "--query-metrics" in sys.argv:
    print("dram__bytes_read  Counter  byte  read bytes")
    sys.exit()
if "lts__t_bytes.sum" in " ".join(sys.argv):
    print("==ERROR== Failed to find metric lts__t_bytes.sum")
    sys.exit(1)
assert "dram__bytes_read.sum" in sys.argv
path = sys.argv[sys.argv.index("--replay") + 1]
asked = json.load(open(path))
json.dump({{**asked, "numbers": {numbers!r}, "cores": 132}}, open(path, "w"))
with open(sys.argv[sys.argv.index("--log-file") + 1], "w") as file:
    file.write({text!r})
"""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A census of a step with launches far from their ceilings."""
    launch = {"op": "exp", "kernel": "flat", "results": ["float32[3]"], "flops": 1, "covers": ""}
    far = {**launch, "bytes": 8, "launches": 2, "seconds": 1e-5, "cubes": [1, 1, 1]}
    low = [
        {**far, "share": 0.3, "of_ceiling": 0.2},
        {**far, "op": "sum", "share": 0.2, "of_ceiling": 0.35},
        {**far, "op": "max", "share": 0.01, "of_ceiling": 0.3},
    ]
    row = {"case": "GPT-2 124M inference float32, batch 3, tiny", "far_below": low}
    path = tmp_path / "census.json"
    path.write_text(json.dumps({"rows": [row]}), "utf-8")
    return path


def run(tmp_path: Path, stored: Path, numbers: Sequence[int | None], text: str, *more: str) -> int:
    ncu = tmp_path / "ncu"
    ncu.write_text(NCU.format(python=sys.executable, numbers=list(numbers), text=text), "utf-8")
    ncu.chmod(0o755)
    words = ["gpt2", "--size", "tiny", "--census", str(stored), "--ncu", str(ncu), *more]
    return counters.main(words)


def test_a_step_of_a_stored_census_is_counted(
    tmp_path: Path, stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("harness.report.open_device", lambda name: "a GPU")
    file = tmp_path / "counters.json"
    # The second launch of the list comes first in the step.
    text = written({"gpu__time_duration.sum": "1000"}, {"gpu__time_duration.sum": "2000"})
    raw = tmp_path / "raw"
    assert run(tmp_path, stored, [7, 4], text, "--json", str(file), "--raw", str(raw)) == 0
    assert (raw / "gpt2-inference-float32.csv").read_text("utf-8") == text
    (row,) = json.loads(file.read_text("utf-8"))["rows"]
    found = [(one["op"], one["counters"]["seconds"]) for one in row["launches"]]
    assert found == [("exp", pytest.approx(2e-6)), ("sum", pytest.approx(1e-6))]
    assert all(one["why"] for one in row["launches"])
    assert "warps wait for reads of memory" in capsys.readouterr().out
    assert run(tmp_path, stored, [7], written({}), "--below", ".3") == 0
    assert run(tmp_path, stored, [None, 7], written({})) == 0
    assert "the step has no exp, flat of ['float32[3]']" in capsys.readouterr().out
    assert run(tmp_path, stored, [], "", "--below", ".1") == 0
    assert "nothing of 2% or more below 0.1" in capsys.readouterr().out


def test_a_step_that_cannot_be_counted_is_a_failure(
    tmp_path: Path, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, stored, [7, 4], written({})) == 1
    assert "ncu counted 1 launches, and 2 were asked for" in capsys.readouterr().out
    assert run(tmp_path, stored, [7, 4], written({}), "--batch", "2") == 1
    assert "has no launches of GPT-2 124M inference" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpt2", "--device", "wgpu"], "launches of cuda and cpu are counted, not wgpu"),
        (["gpt2", "--ncu", "no-such-ncu"], "there is no no-such-ncu; install NVIDIA Nsight"),
    ],
)
def test_what_cannot_be_asked_says_why(words: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        counters.main(words)
