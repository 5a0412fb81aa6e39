"""Steps of models larger than a member of a router, beside the time that their transfers need.

    python benchmarks/streaming.py MODEL[,MODEL...|all] --member cuda --beside cpu --mode training

The member's limit is a share of the bytes of the model's weights, so values stream through it. The
results are compared with those of the member without a limit. The floor is the time in which the
bytes that a call moves cross the bus at the rates measured here: page-locked memory, one direction
at a time. The ratio is the floor by the time of a step. A second floor lets both directions
overlap.
"""

from __future__ import annotations

import argparse
import gc
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "testing")]

# The bytes of a transfer whose rate is measured, and how often it is made.
_MEASURED = 128 << 20
_TIMES = 5
# The least ratio of the floor by a step.
LEAST = 0.7


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; a wrong one ends the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("models", metavar="MODELS", help="names from benchmarks/models, or all")
    add("--member", default="cuda", help="the member with the limit")
    add("--beside", default="cpu", help="the other members; none if it is empty")
    add("--share", type=float, default=1 / 3, help="the limit as a share of the weights' bytes")
    add("--mode", default="training", help="some of inference,training,decoding, or all")
    add("--dtype", default="float32", help="some of float32,tf32,bfloat16")
    add("--batch", type=int, help="the number of samples; by default the model's own")
    sizes = "the model's; GPT-2 has large, of 774 million weights"
    add("--size", choices=("large", "full", "small", "tiny"), default="full", help=sizes)
    add("--repeats", type=int, default=5, metavar="N", help="samples of a step")
    add("--json", type=Path, metavar="FILE", help="write what was found and the setting")
    options = parser.parse_args(arguments)
    for name in ("models", "mode", "dtype", "beside"):
        setattr(options, name, [part for part in getattr(options, name).split(",") if part])
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the steps; 1 if one fails, differs, or takes too long."""
    options = parse(arguments)
    import census
    from harness import report

    given = sys.argv[1:] if arguments is None else arguments
    command = shlex.join(["python", "benchmarks/streaming.py", *given])
    rates = measured_rates(options.member)
    print("rates:", ", ".join(f"{way} {rate / 1e9:.1f} GB/s" for way, rate in rates.items()))
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    for setting in census.settings(options):
        print(f"== {setting.title}", flush=True)
        try:
            found = measured(setting, options, rates)
            rows.append({"case": setting.title, **asdict(setting), **found})
        except Exception as error:
            failures.append(f"{setting.title}: {type(error).__name__}: {error}"[:400])
            print(f"FAILED: {failures[-1]}", flush=True)
        gc.collect()
    if options.json:
        about = report.setting(command, options.member, [options.member, *options.beside], None)
        document = {**about, "suite": "streaming", "rates": rates, "rows": rows}
        document["failures"] = failures
        options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return int(bool(failures) or any(row["disagrees"] or row["ratio"] < LEAST for row in rows))


def measured_rates(member: str) -> dict[str, float]:
    """Return the bytes a second to a member and from it, at best: of its own copies or torch's."""
    import calor
    from calor.specs import spec

    device = calor.device(member)
    backend, index = device.backend, device.index
    known = spec((_MEASURED // 4,), calor.float32)
    there = backend.upload(index, np.ones(_MEASURED // 4, np.float32))
    array = backend.offload(index, there, known)
    ways: dict[str, list[Callable[[], Any]]] = {
        "up": [lambda: backend.verify(index, [backend.upload(index, array)])],
        "down": [lambda: backend.offload(index, there, known)],
    }
    if device.backend.name == "cuda":
        import torch

        host = torch.empty(_MEASURED // 4, pin_memory=True)
        on_gpu = torch.empty(_MEASURED // 4, device=f"cuda:{index}")
        ways["up"].append(partial(_torch_copied, on_gpu, host))
        ways["down"].append(partial(_torch_copied, host, on_gpu))
    return {way: _MEASURED / min(map(_least, calls)) for way, calls in ways.items()}


def _torch_copied(target: Any, source: Any) -> None:
    import torch

    target.copy_(source)
    torch.cuda.synchronize()


def _least(call: Callable[[], Any]) -> float:
    found = []
    for _ in range(_TIMES):
        start = perf_counter()
        call()
        found.append(perf_counter() - start)
    return min(found)


def measured(setting: Any, options: argparse.Namespace, rates: dict[str, float]) -> dict[str, Any]:
    """Return the seconds of a step through the limited member, the bytes it moves, and ratios."""
    import calor
    from programs import compared
    from programs.ours import Ours

    first = Ours(setting, "numpy")
    state = {name: x.numpy().copy() for name, x in first.module.state_dict().items()}
    if setting.mode == "decoding" and setting.model.begin is not None:
        setting.model.begin(setting.size, state)
    weights = sum(x.nbytes for x in first.module.parameters())
    want = compared.results(Ours(setting, options.member, state), setting)
    gc.collect()
    limit = int(weights * options.share)
    # A limit counts whatever is in use on the member.
    used = calor.device(options.member).memory.in_use
    members = [f"{options.member}[{used + limit}]", *options.beside]
    router = "router:" + ",".join(members)
    step = Ours(setting, router, state)
    start = perf_counter()
    made = compared.results(step, setting)
    # The first one of these is traced, planned and compiled.
    first_s = perf_counter() - start
    error = max(compared.relative_error(a, b) for a, b in zip(made, want, strict=True))
    seconds = compared.timed({"router": step}, options.repeats)["router"]
    told = step.jitted.programs[0].executable.placement()
    moved = {"up": 0, "down": 0}
    for value, _, target in told.streamed or ():
        moved["down" if target < 0 else "up"] += told.graph.specs[value].nbytes
    needed = {way: nbytes / rates[way] for way, nbytes in moved.items()}
    floor = sum(needed.values())
    found = {
        "weights": weights, "limit": limit, "peak": calor.device(options.member).memory.peak,
        "error": error, "disagrees": not error <= compared.TOLERANCES[setting.dtype],
        "first_s": first_s, "seconds": seconds, "moved": moved,
        "transfers": len(told.streamed or ()),
        "parts": len(told.stages), "on_member": sum(m == 0 for m, _ in told.stages),
        "floor_s": floor, "floor_overlapped_s": max(needed.values()), "ratio": floor / seconds,
    }  # fmt: skip
    print(
        f"{seconds * 1e3:.1f} ms a step, the first ones {first_s:.1f} s; "
        f"{found['transfers']} transfers, {moved['up'] / 1e6:.0f} MB up, "
        f"{moved['down'] / 1e6:.0f} MB down; floor "
        f"{floor * 1e3:.1f} ms, ratio {found['ratio']:.2f}; {found['on_member']} of "
        f"{found['parts']} parts on the member; error {error:.1e}",
        flush=True,
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
