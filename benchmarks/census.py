"""The census of models: the launches of whole steps, and their times beside other libraries.

    python benchmarks/census.py MODEL[,MODEL...|all] --device cuda --mode training --dtype tf32
    python benchmarks/census.py gpt2 --device cuda --mode decoding --compare torch-graphs,jax
    python benchmarks/census.py roberta --device described:cuda --mode training --dtype tf32

Without ``--compare``: each kernel of a step with its launches, its share of the step and its time
beside the ceilings, and the peak memory; ``--peak`` tells what is in memory then. ``--first-call``:
the seconds of the first call in a new process, with empty and with warm caches; alone it does only
this. ``described:NAME`` plans the step for a device that is only described
(`testing/census_devices.py`); nothing runs, so times are those of the ceilings. With ``--compare``:
whole steps in turns with peers, after the results were found to agree.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "testing")]

# Only what imports no numerical library may be imported here: thread counts are read at import.
from thread_limits import limit_peers, limit_threads  # noqa: E402

DESCRIBED = "described:"
# What a launch of weight has to reach of its ceiling: on processors, and elsewhere.
LEAST = {"cpu": 0.5}
PEERS = ("torch-eager", "torch-compile", "torch-graphs", "jax", "onnxruntime", "calor-unfused")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; a wrong one ends the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("models", metavar="MODELS", help="names from benchmarks/models, or all")
    add("--device", default="cpu", help="where calor runs; described:NAME plans and runs nothing")
    add("--mode", default="inference", help="some of inference,training,decoding, or all")
    add("--dtype", default="float32", help="some of float32,tf32,bfloat16")
    add("--batch", type=int, help="the number of samples; by default the model's own")
    add("--size", choices=("full", "small", "tiny"), help="full by default, small on a processor")
    add("--compare", default="", metavar="PEERS", help=f"some of {','.join(PEERS)}")
    add("--launches", action="store_true", help="launches too, where --compare is given")
    add("--sequence", action="store_true", help="every launch in order as well")
    add("--peak", action="store_true", help="what is in memory at the peak, and who made it")
    add("--first-call", action="store_true", help="time first calls, in processes of their own")
    add("--threads", type=int, metavar="N", help="threads for everyone")
    add("--repeats", type=int, default=7, metavar="N", help="samples of a step")
    gate = "a file: processes that are given the same one measure in turns, and compile together"
    add("--gate", type=Path, metavar="FILE", help=gate)
    add("--json", type=Path, metavar="FILE", help="write what was found and the setting")
    add("--append", action="store_true", help="keep what the file has of other steps")
    add("--start", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name in ("models", "mode", "dtype", "compare"):
        setattr(options, name, [part for part in getattr(options, name).split(",") if part])
    unknown = [peer for peer in options.compare if peer not in PEERS]
    if unknown:
        parser.error(f"no peer {unknown[0]!r}; there are {', '.join(PEERS)}")
    options.described = options.device.startswith(DESCRIBED)
    options.device = options.device.removeprefix(DESCRIBED)
    if options.size is None:
        options.size = "small" if options.device in ("cpu", "numpy") else "full"
    return options


@contextlib.contextmanager
def opened(options: argparse.Namespace) -> Iterator[None]:
    """Put a described device in the place of one."""
    if not options.described:
        yield
        return
    from kernel_census import described

    with described(options.device):
        yield


def settings(options: argparse.Namespace) -> list[Any]:
    """Return the steps that the options name; modes that a model lacks are left out."""
    import models
    from programs.setting import DTYPES, MODES, Setting

    try:
        names = [name for given in options.models for name in models.named(given)]
    except ValueError as error:
        raise SystemExit(str(error)) from None
    modes = MODES if options.mode == ["all"] else options.mode
    for given, known in ((modes, MODES), (options.dtype, DTYPES)):
        for one in given:
            if one not in known:
                raise SystemExit(f"no {one!r}; there are {', '.join(known)}")
    return [
        Setting(name, mode, dtype, options.size, options.batch)
        for name in names
        for mode in modes
        if mode in models.load(name).modes
        for dtype in options.dtype
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the census; 1 if a step fails or does not agree with a peer."""
    options = parse(arguments)
    if options.threads is not None:
        limit_threads(options.threads)
        limit_peers(["torch"] if options.compare else [], options.threads)
    from harness import report

    rows, failures = [], []
    given = sys.argv[1:] if arguments is None else arguments
    command = shlex.join(["python", "benchmarks/census.py", *given])
    before = None
    if options.append and options.json.exists():
        before = json.loads(options.json.read_text("utf-8"))
    libraries = list(dict.fromkeys(peer.partition("-")[0] for peer in options.compare))
    for setting in settings(options):
        print(f"== {setting.title}", flush=True)
        try:
            rows.append({"case": setting.title, **asdict(setting), **measured(setting, options)})
        except Exception as error:
            if options.start:
                raise
            failures.append(f"{setting.title}: {type(error).__name__}: {error}"[:400])
            print(f"FAILED: {failures[-1]}", flush=True)
        if options.json:
            with opened(options):
                about = report.setting(command, options.device, libraries, options.threads)
            document = {**about, "suite": "census", "rows": rows, "failures": failures}
            whole = joined(before, document)
            options.json.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    return int(bool(failures) or any(row.get("disagreements") for row in rows))


def joined(before: Any, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the commands, the versions and the rows of one before it."""
    if before is None:
        return document
    rows = {row["case"]: row for row in before["rows"]}
    rows |= {row["case"]: rows.get(row["case"], {}) | row for row in document["rows"]}
    left = [one for one in before["failures"] if not any(one.startswith(f"{c}: ") for c in rows)]
    commands = dict.fromkeys([*before["command"].split("; "), document["command"]])
    return {
        **document,
        "command": "; ".join(commands),
        "versions": before["versions"] | document["versions"],
        "rows": list(rows.values()),
        "failures": [*left, *document["failures"]],
    }


def measured(setting: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return what was found of a step."""
    from programs import starts

    if options.start:
        return starts.started(setting, options.device)
    found: dict[str, Any] = {}
    if options.compare or options.launches or options.peak or not options.first_call:
        found = of_step(setting, options)
    if options.first_call:
        found |= starts.of_processes(setting, options.device)
        print(f"first call {found['cold_s']:.2f} s with empty caches, {found['warm_s']:.2f} s warm")
    return found


def of_step(setting: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return what was found of a step in this process: beside peers, and of its launches."""
    from harness.gate import in_turn
    from programs import compared, launches
    from programs.ours import Ours

    found: dict[str, Any] = {}
    state = compared.fresh_state(setting) if options.compare else None
    with opened(options):
        step = Ours(setting, options.device, state)
        if words := getattr(step.module, "layers_in_words", ""):
            print(words, flush=True)
            found["layers"] = words
        if state is not None:
            found |= compared.beside(step, state, options.compare, options.repeats, options.gate)
        if options.launches or not options.compare:
            asked = launches.described_ceilings if options.described else launches.ceilings_of
            with in_turn(options.gate):
                ceilings = asked(step)
                rows = launches.of_step(step, ceilings, options.described)
            found |= {"launches": len(rows), "peak_bytes": {"calor": step.peak_bytes()}} | found
            found["ceilings"] = asdict(ceilings)
            print(launches.heads(rows), flush=True)
            print(ceilings, flush=True)
            print("\n".join(launches.table(rows)))
            print(f"peak memory {(found['peak_bytes']['calor'] or 0) / 2**20:.0f} MiB", flush=True)
            if options.sequence:
                print("\n".join(launches.sequence(rows)))
            found["kernels"] = launches.grouped(rows)
            if not options.described:
                fraction = LEAST.get(options.device, 0.4)
                found["far_below"] = low = launches.far_below(rows, fraction)
                print(f"{len(low)} of 2 % of the step or more below {fraction:g} of their ceilings")
                print("\n".join(launches.told(low)))
    if options.peak:
        with opened(options):
            held = step.peak()
        print(held, flush=True)
        found["peak"] = asdict(held)
    return found


if __name__ == "__main__":
    sys.exit(main())
