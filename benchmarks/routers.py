"""Whole steps on a router beside its members alone: what the cut gains, and that it loses nothing.

    python benchmarks/routers.py MODEL[,MODEL...|all] --members cpu,opencl --mode training

A step runs on each member and on a router of them, in turns; the results are compared first. The
ratio is the time on the better member by that on the router: above 1 the router is faster, and
below 0.9 it fails. ``--orders`` measures the router of each order of the members. ``--alone``: the
members that are measured alone, where the others take too long to be better. ``--computing``:
the members are the host's processor, so a process that may use one processor (``taskset -c 0``)
counts its own time, which a loaded machine lengthens less.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "testing")]

# Only what imports no numerical library may be imported here: thread counts are read at import.
from thread_limits import limit_threads  # noqa: E402

# The least ratio of a router beside the better one of its members.
LEAST = 0.9


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; a wrong one ends the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("models", metavar="MODELS", help="names from benchmarks/models, or all")
    add("--members", default="cpu,opencl", help="the router's members")
    add("--alone", help="the members that run alone as well; all by default")
    add("--orders", action="store_true", help="routers of every order of the members")
    add("--mode", default="inference", help="some of inference,training,decoding, or all")
    add("--dtype", default="float32", help="some of float32,tf32,bfloat16")
    add("--batch", type=int, help="the number of samples; by default the model's own")
    add("--size", choices=("full", "small", "tiny"), default="small")
    add("--threads", type=int, metavar="N", help="threads for everyone")
    add("--repeats", type=int, default=7, metavar="N", help="samples of a step")
    computing = "all members are the host's processor, whose own time counts if it is one"
    add("--computing", action="store_true", help=computing)
    add("--json", type=Path, metavar="FILE", help="write what was found and the setting")
    add("--append", action="store_true", help="keep what the file has of other steps")
    options = parser.parse_args(arguments)
    options.alone = options.members if options.alone is None else options.alone
    for name in ("models", "mode", "dtype", "members", "alone"):
        setattr(options, name, [part for part in getattr(options, name).split(",") if part])
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the steps; 1 if one fails, differs, or loses more than a tenth to a member alone."""
    options = parse(arguments)
    if options.threads is not None:
        limit_threads(options.threads)
    import census
    from harness import report

    rows, failures = [], []
    given = sys.argv[1:] if arguments is None else arguments
    command = shlex.join(["python", "benchmarks/routers.py", *given])
    before = None
    if options.append and options.json.exists():
        before = json.loads(options.json.read_text("utf-8"))
    for setting in census.settings(options):
        print(f"== {setting.title}", flush=True)
        try:
            found = measured(setting, options)
            rows.append({"case": setting.title, **asdict(setting), **found})
        except Exception as error:
            failures.append(f"{setting.title}: {type(error).__name__}: {error}"[:400])
            print(f"FAILED: {failures[-1]}", flush=True)
        if options.json:
            about = report.setting(command, options.members[0], options.members, options.threads)
            document = {**about, "suite": "routers", "rows": rows, "failures": failures}
            whole = census.joined(before, document)
            options.json.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    slow = [row for row in rows if min(row["ratios"].values()) < LEAST]
    return int(bool(failures or slow) or any(row["disagreements"] for row in rows))


def measured(setting: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds of a step on the members and their routers, ratios, and the parts."""
    from programs import compared
    from programs.ours import Ours

    members, alone = options.members, options.alone
    orderings = [*itertools.permutations(members)] if options.orders else [tuple(members)]
    routers = ["router:" + ",".join(order) for order in orderings]
    first = Ours(setting, "numpy")
    # Reading the state computes it: a step afterwards must not change it.
    state = {name: x.numpy().copy() for name, x in first.module.state_dict().items()}
    if setting.mode == "decoding" and setting.model.begin is not None:
        setting.model.begin(setting.size, state)
    steps = {name: Ours(setting, name, state) for name in (*alone, *routers)}
    results = {name: compared.results(step, setting) for name, step in steps.items()}
    found: dict[str, Any] = {"disagreements": {}, "parts": {}}
    for name, made in results.items():
        pairs = zip(made, results[alone[0]], strict=True)
        error = max(compared.relative_error(a, b) for a, b in pairs)
        if not error <= compared.TOLERANCES[setting.dtype]:
            found["disagreements"][name] = f"{error:.2g} from {alone[0]}"
            print(f"DISAGREES: {name} is {found['disagreements'][name]}", flush=True)
    found["parts"] = {name: parts_of(steps[name]) for name in routers}
    found |= {"seconds": {}, "ratios": {}}
    for name in routers:
        # Each beside members alone: routers share their members' plans, and a plan keeps what
        # it prepared of one model's weights.
        sides = {side: steps[side] for side in (*alone, name)}
        seconds = compared.timed(sides, options.repeats, computing=options.computing)
        found["seconds"] = {**seconds, **found["seconds"]}
        found["ratios"][name] = min(seconds[side] for side in alone) / seconds[name]
    print(shown(found, alone), flush=True)
    return found


def parts_of(step: Any) -> dict[str, Any]:
    """Return how a step was cut: the parts on each member, and the bytes that a call moves."""
    told = step.jitted.programs[0].executable.placement()
    counts = Counter(told.members[member] for member, _ in told.stages)
    return {"members": dict(counts), "moved_bytes": told.moved_bytes}


def shown(found: Mapping[str, Any], members: Sequence[str]) -> str:
    """Return the lines of a step."""
    from harness import report

    seconds, lines = found["seconds"], []
    lines.append("; ".join(f"{name} {report.seconds(seconds[name])}" for name in members))
    for name, ratio in found["ratios"].items():
        parts = ", ".join(f"{n} on {m}" for m, n in found["parts"][name]["members"].items())
        lines.append(f"{name} {report.seconds(seconds[name])} ({ratio:.2f}), parts: {parts}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
