"""The hardware counters of chosen launches of a step, read by NVIDIA's Nsight Compute (ncu).

Requirements: a launch is counted once, at its place in a step, on the data of the step; every other
launch runs at full speed. What ncu writes is read by names of metrics, and what a version or a chip
lacks is None.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.gate import in_turn

Launch = Mapping[str, Any]
Cells = Mapping[str, float]
# What makes a launch of a step the same one in another process.
_KEY = ("op", "kernel", "results", "bytes", "flops")
SECTIONS = (
    "SpeedOfLight",
    "LaunchStats",
    "Occupancy",
    "SchedulerStats",
    "WarpStateStats",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
)
# What no section has; ncu fails if a chip lacks one, so they are asked for by what it has.
METRICS = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "sm__cycles_active.avg",
    "gpc__cycles_elapsed.max",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_tensor.sum",
    "smsp__inst_executed.sum",
    "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
)
_STALL = re.compile(r"smsp__average_warps?_issue_stalled_(\w+?)_per_issue_active\.ratio")
_PIPE = re.compile(r"sm__inst_executed_pipe_(\w+)\.avg\.pct_of_peak_sustained_active")
_TENSOR = re.compile(r"sm__pipe_tensor\w*_cycles_active\.avg\.pct_of_peak_sustained_\w+")
_LIMIT = re.compile(r"launch__occupancy_limit_(registers|shared_mem|warps|blocks|barriers)")
_FORBIDDEN = "ERR_NVGPUCTRPERM"
_LACKING = "Failed to find metric"


class CounterError(RuntimeError):
    """The counters cannot be read."""


@dataclass(frozen=True)
class Counters:
    """What the hardware counted of a launch; shares are of the unit's peak, between 0 and 1.

    ``busy``: the share of the launch's time in which an average multiprocessor had work. ``waves``:
    the cubes beside those that fit the GPU at once. ``eligible``: the warps that could issue in an
    average cycle of a scheduler, of ``warps`` that it held. ``issue``: the share of cycles in which
    a scheduler issued. ``stalls``: the share of a warp's time by what it waited for, the longest
    first. ``limits``: the cubes a multiprocessor takes, by what limits them. ``instructions``:
    those of warps; ``spills``: those that move a register to memory or back.
    """

    kernel: str
    grid: tuple[int, ...]
    seconds: float | None
    dram_bytes: float | None
    dram: float | None
    l2_bytes: float | None
    l2: float | None
    l2_hits: float | None
    l1: float | None
    sm: float | None
    tensor: float | None
    issue: float | None
    pipes: dict[str, float]
    busy: float | None
    waves: float | None
    occupancy: float | None
    possible: float | None
    warps: float | None
    eligible: float | None
    registers: float | None
    limits: dict[str, float]
    stalls: dict[str, float]
    instructions: float | None
    spills: float | None

    def plain(self) -> dict[str, Any]:
        """Return the counters as data of a result file, with four digits."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return float(f"{value:.4g}") if isinstance(value, float) else value


def key(launch: Launch) -> tuple[Any, ...]:
    """Return what a launch of a step is the same by."""
    return tuple(tuple(v) if isinstance(v := launch[k], list) else v for k in _KEY)


def numbers_of(events: Sequence[Any], wanted: Sequence[Launch]) -> list[int | None]:
    """Return the number of the first launch of each kind among a step's events, None if none is.

    A stored census has launches of kernels that have changed since.
    """
    first: dict[tuple[Any, ...], int] = {}
    for number, e in enumerate(events):
        made = (e.op, e.blueprint, tuple(e.results), int(e.nbytes), int(e.flops))
        first.setdefault(made, number)
    found = [first.get(key(one)) for one in wanted]
    if all(number is None for number in found):
        raise CounterError("the step has none of the launches any more; take a new census")
    return found


@contextmanager
def chosen(
    queue: Any,
    numbers: Sequence[int],
    begin: Callable[[], Any],
    end: Callable[[], Any],
    gate: Path | None = None,
) -> Iterator[None]:
    """Run a profiled step launch by launch, with calls around each of the launches ``numbers``.

    Each of these passes a gate. In place of times a profile has zeros.
    """
    wanted, passed = set(numbers), 0

    def seconds(recorded: Any, handles: Sequence[int]) -> list[float]:
        nonlocal passed
        on = queue.on
        with on.lock, on.told("counting kernels"):
            on.use()
            recorded.put(tuple(handles))
            launches = iter(recorded.launches)
            for empty in recorded.empty:
                if not empty and passed in wanted:
                    on.wait()
                    with in_turn(gate):
                        begin()
                        on.driver.launchKernel(*next(launches))
                        on.wait()
                        end()
                elif not empty:
                    on.driver.launchKernel(*next(launches))
                passed += 1
            on.wait()
        return [0.0] * len(recorded.empty)

    queue.seconds = seconds
    try:
        yield
    finally:
        del queue.seconds


def run_chosen(
    step: Any,
    wanted: Sequence[Launch],
    begin: Callable[[], Any],
    end: Callable[[], Any],
    gate: Path | None = None,
) -> list[int | None]:
    """Make a step with calls around the chosen launches; return their numbers."""
    import calor
    import calor_kernel
    from calor_kernel.runtime.backend import engine_of

    step.run()
    step.run(2)
    step.wait()
    with calor.device(step.device):
        with calor_kernel.profile(step.device) as profile:
            step.run()
        numbers = numbers_of(profile.events, wanted)
        queue = engine_of(step.device, "it has no launches").device.queue
        present = [number for number in numbers if number is not None]
        with chosen(queue, present, begin, end, gate), calor_kernel.profile(step.device):
            step.run()
    return numbers


def run(ncu: str, log: Path, program: Sequence[str]) -> tuple[Any, str]:
    """Run a program under ncu; return how it ended, and what ncu wrote.

    ncu ends if the GPU lacks a metric. Which ones it has takes half a minute to ask.
    """
    ran = _ran(ncu, METRICS, log, program)
    if _LACKING in ran[1] + ran[0].stdout:
        ran = _ran(ncu, available(ncu), log, program)
    return ran


def _ran(ncu: str, metrics: Sequence[str], log: Path, program: Sequence[str]) -> tuple[Any, str]:
    words = command(ncu, metrics, log, program)
    made = subprocess.run(words, capture_output=True, text=True, check=False)
    return made, log.read_text("utf-8") if log.exists() else ""


def available(ncu: str) -> list[str]:
    """Return those of METRICS that ncu knows of the GPU that is there."""
    asked = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, check=False)
    known = {line.split()[0] for line in asked.stdout.splitlines() if line.split()}
    return [name for name in METRICS if name.partition(".")[0] in known]


def command(ncu: str, metrics: Sequence[str], log: Path, program: Sequence[str]) -> list[str]:
    """Return the command that counts a program's launches between its profiler calls.

    Clocks stay as they are. Caches hold what they hold, since the launch before one has just
    written its operands. Processes that compile kernels are not followed.
    """
    sections = [word for name in SECTIONS for word in ("--section", name)]
    more = ["--metrics", ",".join(metrics)] if metrics else []
    return [
        ncu,
        *("--profile-from-start", "off", "--clock-control", "none", "--cache-control", "none"),
        *("--target-processes", "application-only", "--csv", "--page", "raw"),
        *("--print-units", "base", "--log-file", str(log)),
        *sections,
        *more,
        *program,
    ]


def read(text: str) -> list[Counters]:
    """Return the counters of each launch in what ncu wrote, in the order of the launches."""
    if _FORBIDDEN in text:
        raise CounterError(
            "ncu may not read the counters: run as root, or allow it to everyone "
            "(NVreg_RestrictProfilingToAdminUsers=0, see developer.nvidia.com/ERR_NVGPUCTRPERM)"
        )
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        said = " ".join(line for line in text.splitlines() if "==" in line)[-600:]
        raise CounterError(f"ncu counted no launch. It said: {said or 'nothing'}")
    head, units, *rows = csv.reader(lines)
    scale = {name: _scale(unit) for name, unit in zip(head, units, strict=True)}
    return [_counters(dict(zip(head, row, strict=True)), scale) for row in rows]


def _scale(unit: str) -> float:
    return {"%": 0.01, "nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6}.get(unit, 1.0)


def _counters(row: Mapping[str, str], scale: Mapping[str, float]) -> Counters:
    cells: dict[str, float] = {}
    for name, text in row.items():
        try:
            cells[name] = float(text.replace(",", "")) * scale[name]
        except ValueError:
            continue

    def total(*names: str) -> float | None:
        found = [cells[name] for name in names if name in cells]
        return sum(found) if found else None

    def first(*names: str) -> float | None:
        return next((cells[name] for name in names if name in cells), None)

    stalls = {m[1]: v for n, v in cells.items() if (m := _STALL.fullmatch(n))}
    stalls = {n: v for n, v in stalls.items() if not n.endswith("not_issued")} or stalls
    waited = sum(stalls.values()) or 1.0
    stalls.pop("selected", None)
    ordered = sorted(stalls.items(), key=lambda item: -item[1])[:4]
    pipes = {m[1]: v for n, v in cells.items() if (m := _PIPE.fullmatch(n))}
    tensor = [v for n, v in cells.items() if _TENSOR.fullmatch(n)]
    active, elapsed = first("sm__cycles_active.avg"), first("gpc__cycles_elapsed.max")
    return Counters(
        kernel=row.get("Kernel Name", ""),
        grid=tuple(int(n) for n in re.findall(r"\d+", row.get("Grid Size", ""))),
        seconds=first("gpu__time_duration.sum"),
        dram_bytes=total("dram__bytes_read.sum", "dram__bytes_write.sum"),
        dram=first(
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        l2_bytes=first("lts__t_bytes.sum"),
        l2=first("lts__throughput.avg.pct_of_peak_sustained_elapsed"),
        l2_hits=first("lts__t_sector_hit_rate.pct"),
        l1=first("l1tex__throughput.avg.pct_of_peak_sustained_active"),
        sm=first("sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        tensor=max(tensor) if tensor else None,
        issue=first(
            "smsp__issue_active.avg.pct_of_peak_sustained_active",
            "smsp__issue_active.avg.per_cycle_active",
        ),
        pipes=dict(sorted(pipes.items(), key=lambda item: -item[1])[:4]),
        busy=active / elapsed if active is not None and elapsed else None,
        waves=first("launch__waves_per_multiprocessor"),
        occupancy=first("sm__warps_active.avg.pct_of_peak_sustained_active"),
        possible=first("sm__maximum_warps_per_active_cycle_pct"),
        warps=first("smsp__warps_active.avg.per_cycle_active"),
        eligible=first("smsp__warps_eligible.avg.per_cycle_active"),
        registers=first("launch__registers_per_thread"),
        limits={m[1]: v for n, v in cells.items() if (m := _LIMIT.fullmatch(n))},
        stalls={name: value / waited for name, value in ordered},
        instructions=first("smsp__inst_executed.sum"),
        spills=first("derived__local_spilling_requests", "sass__inst_executed_register_spilling"),
    )
