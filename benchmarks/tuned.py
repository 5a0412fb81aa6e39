"""Whole steps of the census before tuning, after it, and in a fresh store with the bundle of it.

    python benchmarks/tuned.py resnet50,roberta --device cuda --dtype tf32 --export h200.json
    python benchmarks/tuned.py all --threads 2 --mode inference,training --export avx512-2.json

``--seconds`` is the time of all steps together; a step has an equal part of what is left, and is
left out when nothing is. Where the first choice is more than a tenth slower than the tuned one,
the problems that differ follow. The bundle has the choices of all steps. Run it with an empty
``CALOR_CACHE_DIR``: results of earlier runs are no first choices.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "testing")]

from thread_limits import limit_threads  # noqa: E402

# How much slower than the tuned step the first choice may be.
BAR = 1.1
# Problems shown of a step beyond it.
_SHOWN = 8


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("models", metavar="MODELS", help="names from benchmarks/models, or all")
    add("--device", default="cpu", help="the device")
    add("--mode", default="inference,training", help="some of inference,training,decoding")
    add("--dtype", default="float32", help="some of float32,tf32,bfloat16")
    add("--batch", type=int, help="the number of samples; by default the model's own")
    add("--size", choices=("full", "small", "tiny"), help="full by default, small on a processor")
    add("--threads", type=int, metavar="N", help="threads of a processor")
    add("--seconds", type=float, default=200.0, help="the time for all steps, 200 if not given")
    add("--most", type=float, default=60.0, help="the time for tuning a step, 60 if not given")
    add("--repeats", type=int, default=5, metavar="N", help="samples of a time; 0 tunes only")
    add("--export", type=Path, metavar="FILE", help="write the bundle")
    gate = "a file: processes that are given the same one plan side by side, and measure in turns"
    add("--gate", type=Path, metavar="FILE", help=gate)
    add("--json", type=Path, metavar="FILE", help="write the times and the setting")
    add("--append", action="store_true", help="keep what the file has of other steps")
    options = parser.parse_args(arguments)
    for name in ("models", "mode", "dtype"):
        setattr(options, name, [part for part in getattr(options, name).split(",") if part])
    if options.size is None:
        options.size = "small" if options.device in ("cpu", "numpy") else "full"
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune the steps; 1 if one is more than a tenth slower before."""
    options = parse(arguments)
    # Neither a bundle that is installed nor results of a user are first choices.
    os.environ["CALOR_TUNE"] = "own"
    if options.threads is not None:
        limit_threads(options.threads)
    from census import settings

    end = perf_counter() + options.seconds
    waiting, done = settings(options), []
    for number, setting in enumerate(waiting):
        part = (end - perf_counter()) / (len(waiting) - number)
        if end - perf_counter() < 1.0:
            print(f"== {setting.title}: no time was left", flush=True)
            continue
        # The first call and the samples take time too.
        begin = perf_counter()
        step = Step(setting, options)
        step.tune(min(options.most, max(part - (perf_counter() - begin), 1.0)))
        done.append(step)
        # A model's memory is not needed any more.
        step.forget()
    if done and options.export is not None:
        fresh(done, options)
    if options.json is not None:
        store(done, options, sys.argv[1:] if arguments is None else arguments)
    return int(any(step.before > BAR * step.after for step in done))


def store(steps: Sequence[Step], options: argparse.Namespace, given: Sequence[str]) -> None:
    """Write the times of the steps."""
    from census import joined
    from harness import report

    command = shlex.join(["python", "benchmarks/tuned.py", *given])
    rows = [
        {
            "case": step.setting.title,
            "untuned_s": step.before,
            "tuned_s": step.after,
            "bundle_s": step.shipped,
            "tuning": asdict(step.found),
        }
        for step in steps
    ]
    about = report.setting(command, options.device, [], options.threads)
    document = {**about, "suite": "tuned", "rows": rows, "failures": []}
    before = None
    if options.append and options.json.exists():
        before = json.loads(options.json.read_text("utf-8"))
    options.json.write_text(json.dumps(joined(before, document), indent=1) + "\n", "utf-8")


class Step:
    """A step and its seconds: before tuning, after it, and with the bundle alone."""

    def __init__(self, setting: Any, options: argparse.Namespace) -> None:
        from calor_kernel.runtime.backend import engine_of

        self.setting, self.options = setting, options
        self.engine = engine_of(options.device, "it has no choices")
        self.known = {*self.stored()}
        self.ours: Any = None
        self.found: Any = None
        self.shipped: float | None = None
        self.before, self.after = self.timed(), 0.0
        print(f"== {setting.title}: {1e3 * self.before:.3f} ms", flush=True)

    def stored(self) -> dict[str, Any]:
        """Return the stored results of the device."""
        return {k: v for k, v in self.engine.tuner.lines.items() if isinstance(v, dict)}

    def timed(self) -> float:
        """Return the median seconds of a step that is made and planned anew."""
        from harness.gate import in_turn
        from programs.compared import timed
        from programs.ours import Ours

        if self.ours is None:
            self.ours = Ours(self.setting, self.options.device)
        if not self.options.repeats:
            return float("nan")
        self.ours.first()
        self.ours.wait()
        with in_turn(self.options.gate):
            return timed({"calor": self.ours}, self.options.repeats)["calor"]

    def tune(self, seconds: float) -> None:
        """Tune the step, and print its time and what is found."""
        import calor
        from harness.gate import in_turn

        given = self.ours.jitted, *self.ours.bound_to
        device = calor.device(self.options.device)
        with in_turn(self.options.gate), device, self.ours.precision():
            found = calor.tune(*given, seconds=seconds)
        self.found, self.after = found, self.timed()
        print(f"   tuned {1e3 * self.after:.3f} ms ({self.before / self.after:.3f}): {found}")
        if self.before > BAR * self.after:
            new = {k: v for k, v in self.stored().items() if k not in self.known}
            print("\n".join(differing(new)))
        sys.stdout.flush()

    def forget(self) -> None:
        """Free the model."""
        self.ours = None


def differing(results: dict[str, Any]) -> Iterator[str]:
    """Yield the problems whose first choice loses most, with both kernels and their times."""
    slower = sorted(results.items(), key=lambda item: item[1]["seconds"] - item[1]["first"])
    for key, one in slower[:_SHOWN]:
        if one["first"] > one["seconds"]:
            times = f"{1e6 * one['first']:.1f} us, {1e6 * one['seconds']:.1f} us"
            yield f"     {times}: {one['instead']} -> {one['work']} ({one['label']})  {key[:160]}"


@contextmanager
def bundle_alone(engine: Any, file: Path) -> Iterator[None]:
    """Let a device choose by a bundle, and by no stored result."""
    from calor_kernel.device.storage import Lines
    from calor_kernel.runtime.bundles import Bundle, Bundles, properties

    tuner = engine.tuner
    before = tuner.lines, tuner.mode
    bundles = Bundles(engine.device)
    bundle = Bundle.read(file, "this run")
    bundles.__dict__["found"] = [(file.name, bundle.refusal(properties(engine.device)) or bundle)]
    tuner.__dict__.update(lines=Lines(None), bundles=bundles)
    tuner.__dict__.pop("_stored", None)
    tuner.mode = "stored"
    engine.forget()
    try:
        yield
    finally:
        tuner.lines, tuner.mode = before
        tuner.__dict__.pop("bundles")
        tuner.__dict__.pop("_stored", None)
        engine.forget()


def fresh(steps: Sequence[Step], options: argparse.Namespace) -> None:
    """Write the bundle, and print each step's time with it and without stored results."""
    from calor.device_selection import as_device
    from calor.transforms.tuning import export

    device = as_device(options.device)
    count = export(device, options.export)
    print(f"{options.export}: {count} choices, {options.export.stat().st_size} bytes")
    if not options.repeats:
        return
    print(f"{'untuned':>10} {'tuned':>10} {'bundle':>10}  ms; untuned and bundle by tuned")
    with bundle_alone(steps[0].engine, options.export):
        for step in steps:
            device.plans.clear()
            step.shipped = shipped = step.timed()
            step.forget()
            times = " ".join(f"{1e3 * s:10.3f}" for s in (step.before, step.after, shipped))
            ratios = f"{step.before / step.after:.3f}, {shipped / step.after:.3f}"
            print(f"{times}  {ratios}  {step.setting.title}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
