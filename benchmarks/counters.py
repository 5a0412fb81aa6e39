"""Counters of the launches far from their ceilings, and why they are slow.

    python benchmarks/counters.py resnet50 --device cuda --mode training --dtype bfloat16
    python benchmarks/counters.py resnet50 --device cpu --size small --threads 1
    python benchmarks/counters.py all --mode training,inference --dtype tf32,bfloat16 \\
        --census benchmarks/results/census-cuda-h200-2026-11-28.json --json counters.json

Takes the launches of 2 % of a step or more below .4 of their ceiling, .5 on a processor
(``--share``, ``--below``), from a census of the step, or from a stored one. On a GPU NVIDIA's
Nsight Compute (``ncu``) then counts each of them once within a step. On a processor, which may hide
its counters, a cube of each is stepped through instruction by instruction, on one thread: the bytes
of each cache are those of a model of the caches, and the cycles of ports those of LLVM's
``llvm-mca``. Where that is not installed, ``--ports FILE`` adds them to a stored file elsewhere. A
table says what the counters make of it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

import census  # noqa: E402
from thread_limits import limit_threads  # noqa: E402

# Where CUDA's installer puts ncu.
_TOOLKIT = "/usr/local/cuda/bin"
# What a launch of weight has to reach of its ceiling.
_BELOW = {"cpu": 0.5, "cuda": 0.4}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; a wrong one ends the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add(
        "models",
        nargs="?",
        default="",
        metavar="MODELS",
        help="names from benchmarks/models, or all",
    )
    add("--device", default="cuda", help="a GPU of CUDA, or cpu")
    add("--mode", default="inference", help="some of inference,training,decoding, or all")
    add("--dtype", default="float32", help="some of float32,tf32,bfloat16")
    add("--batch", type=int, help="the number of samples; by default the model's own")
    add("--size", choices=("full", "small", "tiny"), default="full")
    add("--below", type=float, help="count launches below this of their ceiling")
    add("--share", type=float, default=0.02, help="and of this share of the step or more")
    add("--census", type=Path, metavar="FILE", help="take the launches from a stored census")
    add("--ncu", default="", metavar="PROGRAM", help="Nsight Compute's; by default as installed")
    add("--most", type=int, default=1 << 20, metavar="N", help="instructions of a cube on a cpu")
    add("--ports", type=Path, metavar="FILE", help="only add the ports' cycles to a stored file")
    add("--raw", type=Path, metavar="FOLDER", help="keep the text that ncu writes of each step")
    gate = "a file: processes that are given the same one measure in turns"
    add("--gate", type=Path, metavar="FILE", help=gate)
    add("--json", type=Path, metavar="FILE", help="write what was found and the setting")
    add("--append", action="store_true", help="keep what the file has of other steps")
    add("--replay", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name in ("models", "mode", "dtype"):
        setattr(options, name, [part for part in getattr(options, name).split(",") if part])
    if not options.models and not options.ports:
        parser.error("name models, or a stored file with --ports")
    if options.below is None:
        options.below = _BELOW["cpu" if options.device == "cpu" else "cuda"]
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the launches of all steps; 1 if a step fails."""
    options = parse(arguments)
    if options.replay:
        replay(options.replay)
        return 0
    if options.ports:
        add_ports(options.ports)
        return 0
    from programs.hardware_counters import CounterError
    from programs.stepping import SteppingError

    if options.device == "cpu":
        limit_threads(1)
        count: Callable[[Any], dict[str, Any]] = Stepped(options).counted
    elif options.device.partition(":")[0] == "cuda":
        ncu = program(options.ncu)
        count = lambda setting: counted(setting, options, ncu)  # noqa: E731
    else:
        raise SystemExit(f"counters: launches of cuda and cpu are counted, not {options.device}'s")
    rows, failures = [], []
    given = sys.argv[1:] if arguments is None else arguments
    for setting in census.settings(options):
        print(f"== {setting.title}", flush=True)
        try:
            rows.append({"case": setting.title, **asdict(setting), **count(setting)})
        except (CounterError, SteppingError, RuntimeError, OSError, ValueError) as error:
            failures.append(f"{setting.title}: {type(error).__name__}: {error}"[:800])
            print(f"FAILED: {failures[-1]}", flush=True)
        if options.json:
            store(options, given, rows, failures)
    return int(bool(failures))


def program(given: str) -> str:
    """Return ncu's path; an error ends the program."""
    found = shutil.which(given or "ncu")
    if found is None and not given:
        found = shutil.which("ncu", path=_TOOLKIT)
    if found is None:
        raise SystemExit(
            f"counters: there is no {given or 'ncu'}; install NVIDIA Nsight Compute, which is part "
            "of the CUDA toolkit, or name it with --ncu"
        )
    return found


def store(options: argparse.Namespace, given: Sequence[str], rows: Any, failures: Any) -> None:
    """Write what was found so far."""
    from harness import report

    command = shlex.join(["python", "benchmarks/counters.py", *given])
    about = report.setting(command, options.device, [], None)
    document = {**about, "suite": "counters", "rows": rows, "failures": failures}
    before = None
    if options.append and options.json.exists():
        before = json.loads(options.json.read_text("utf-8"))
    whole = census.joined(before, document)
    options.json.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")


def counted(setting: Any, options: argparse.Namespace, ncu: str) -> dict[str, Any]:
    """Return the slow launches of a step with their counters and the reasons."""
    from programs import reasons

    low = taken(setting, options)
    low = [
        one for one in low if one["of_ceiling"] < options.below and one["share"] >= options.share
    ]
    if not low:
        print(f"nothing of {options.share:.0%} or more below {options.below:g} of its ceiling")
        return {"launches": []}
    rows = []
    for launch, found, cores in under_ncu(setting, options, ncu, low):
        why = reasons.reason(found, launch, cores)
        rows.append({**launch, "why": why, "counters": found.plain()})
    print("\n".join(reasons.table(rows)), flush=True)
    return {"launches": rows}


class Stepped:
    """Counts launches on a processor. Kernels of all steps are kept, since steps share them."""

    def __init__(self, options: argparse.Namespace) -> None:
        from programs import processor_counts

        self.options = options
        self.images = processor_counts.seen()

    def counted(self, setting: Any) -> dict[str, Any]:
        """Return the slow launches of a step with their counts and the reasons."""
        from harness.gate import in_turn
        from programs import launches, port_model, processor_counts
        from programs.ours import Ours

        options = self.options
        step = Ours(setting, options.device)
        step.run()
        step.wait()
        with in_turn(options.gate):
            found = launches.of_step(step, launches.ceilings_of(step))
        below = options.below, options.share
        low = stored(setting, options) if options.census else launches.far_below(found, *below)
        if not low:
            print(f"nothing of {below[1]:.0%} or more below {below[0]:g} of its ceiling")
            return {"launches": []}
        footprint = sum(row.nbytes for row in found)
        given = step, low, self.images, footprint, options.most
        rows = []
        for launch, counts in processor_counts.of_launches(*given):
            if port_model.program() is not None:
                ports = port_model.modelled(counts.blocks, counts.processor)
                counts = replace(counts, ports=ports)
            why = processor_counts.reason(counts, launch)
            rows.append({**launch, "why": why, "counters": counts.plain()})
        print("\n".join(processor_counts.table(rows)), flush=True)
        return {"launches": rows}


def add_ports(path: Path) -> None:
    """Add what llvm-mca says of the instructions of a stored file, and print its tables."""
    from programs import port_model, processor_counts

    told = json.loads(path.read_text("utf-8"))
    for row in told["rows"]:
        for launch in row["launches"]:
            counts = processor_counts.Counts.of(launch["counters"])
            ports = port_model.modelled(counts.blocks, counts.processor)
            counts = replace(counts, ports=ports)
            launch["counters"] = counts.plain()
            launch["why"] = processor_counts.reason(counts, launch)
        print(f"== {row['case']}", *processor_counts.table(row["launches"]), sep="\n")
    path.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def taken(setting: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the slow launches of a step, by a stored census or by one of now."""
    from harness.gate import in_turn
    from programs import launches
    from programs.ours import Ours

    if options.census:
        return stored(setting, options)
    step = Ours(setting, options.device)
    step.run()
    step.wait()
    with in_turn(options.gate):
        rows = launches.of_step(step, launches.ceilings_of(step))
    return launches.far_below(rows, options.below, options.share)


def stored(setting: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the slow launches of a step in a stored census."""
    rows = {row["case"]: row for row in json.loads(options.census.read_text("utf-8"))["rows"]}
    if "far_below" not in rows.get(setting.title, {}):
        raise ValueError(f"{options.census} has no launches of {setting.title}; leave --census out")
    found: list[dict[str, Any]] = rows[setting.title]["far_below"]
    return found


def under_ncu(
    setting: Any, options: argparse.Namespace, ncu: str, low: Sequence[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], Any, int]]:
    """Yield each launch with its counters and the number of the GPU's multiprocessors."""
    from programs import hardware_counters

    with tempfile.TemporaryDirectory() as folder:
        asked, log = Path(folder, "asked.json"), Path(folder, "ncu.csv")
        gate = str(options.gate) if options.gate else None
        said = {"setting": asdict(setting), "device": options.device, "gate": gate}
        asked.write_text(json.dumps({**said, "launches": low}), "utf-8")
        ours = [sys.executable, str(Path(__file__).resolve()), "-", "--replay", str(asked)]
        ran, told = hardware_counters.run(ncu, log, ours)
        if options.raw:
            options.raw.mkdir(parents=True, exist_ok=True)
            name = f"{setting.name}-{setting.mode}-{setting.dtype}.csv"
            (options.raw / name).write_text(told, "utf-8")
        numbers = json.loads(asked.read_text("utf-8")).get("numbers")
        if numbers is None:
            raise hardware_counters.CounterError(
                f"the step failed under ncu: {(ran.stdout + ran.stderr)[-600:]} {told[-300:]}"
            )
        found = hardware_counters.read(told)
        cores = json.loads(asked.read_text("utf-8"))["cores"]
    ordered = sorted({number for number in numbers if number is not None})
    if len(found) != len(ordered):
        raise hardware_counters.CounterError(
            f"ncu counted {len(found)} launches, and {len(ordered)} were asked for: {told[-300:]}"
        )
    by_number = dict(zip(ordered, found, strict=True))
    for launch, number in zip(low, numbers, strict=True):
        if number is None:
            print(f"the step has no {launch['op']}, {launch['kernel']} of {launch['results'][:1]}")
        else:
            yield launch, by_number[number], cores


def replay(path: Path) -> None:
    """Make the step that a file asks for, and let ncu see the launches that it asks for."""
    from cuda.bindings import driver

    from calor_kernel.runtime.backend import engine_of
    from programs.hardware_counters import run_chosen
    from programs.ours import Ours
    from programs.setting import Setting

    asked = json.loads(path.read_text("utf-8"))
    gate = asked["gate"] and Path(asked["gate"])
    step = Ours(Setting(**asked["setting"]), asked["device"])
    numbers = run_chosen(
        step, asked["launches"], driver.cuProfilerStart, driver.cuProfilerStop, gate
    )
    cores = engine_of(asked["device"], "it has no launches").device.info.cores
    path.write_text(json.dumps({**asked, "numbers": numbers, "cores": cores}), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
