"""A census of kernels: which launches do each case of the benchmarks, without a device.

    python testing/kernel_census.py --device cuda,cpu --suite gpu,rows --only softmax --json FILE
    python testing/kernel_census.py --device cuda --compare FILE
    python testing/kernel_census.py --winners FILE
    python testing/kernel_census.py --device all --ways testing/ways_won.json

Cases are planned for devices that are only described, kernels are printed and not compiled, and
nothing runs. Of each task the census keeps the chosen way, the ways that were offered, what dropped
out and why; of each launch the kernel's digests, the cubes, the arguments and the work; of each
task the bytes of scratch memory. ``--compare`` prints what differs from a file, by case, and exits
with 1 if anything does: a change of the kernel library that keeps kernels keeps the census.
A launch whose text differs and whose operations are the same is called renamed, which is no
difference; ``--exact`` makes it one. ``--winners`` lists how many cases each way wins in a file.
``--ways`` stores in how many cases each row of the families' tables is the first choice: a test
asks that every row wins some case.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "benchmarks")]

import numpy as np  # noqa: E402

from calor.plugins.discovery import registry  # noqa: E402
from calor_kernel.contract.work import Candidates, Refusal, Request, Work  # noqa: E402
from calor_kernel.planning.lowering import Lowerings  # noqa: E402
from calor_kernel.planning.recording import Recorder  # noqa: E402
from calor_kernel.runtime.autotune import title_of  # noqa: E402
from calor_kernel.runtime.backend import KernelBackend  # noqa: E402
from census_devices import DEVICES, PROCESSORS  # noqa: E402
from kernel_ways import place_of  # noqa: E402

Json = Any
Case = Callable[[], Any]
GPU_SUITES = ("gpu", "gpu_products", "gpu_attention", "gpu_convolution", "families")
SUITES = (
    *GPU_SUITES,
    *("matmul", "convolution", "attention", "rows", "moving", "pooling", "linear"),
    *("elementwise", "models", "operations"),
)


class Zeros:
    """Stands for a generator of random numbers, where only shapes matter."""

    def standard_normal(self, size: Any = None, dtype: Any = float) -> Any:
        """Return zeros, of which the system gives no memory until they are written."""
        return np.zeros(size if size is not None else (), dtype)

    def random(self, size: Any = None, dtype: Any = float) -> Any:
        """Return zeros."""
        return np.zeros(size if size is not None else (), dtype)

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64) -> Any:
        """Return zeros."""
        return np.zeros(size if size is not None else (), dtype)

    def uniform(self, low: float = 0, high: float = 1, size: Any = None) -> Any:
        """Return zeros."""
        return np.zeros(size if size is not None else ())

    normal = uniform


@dataclass
class Census:
    """The tasks of cases on one device, and the kernels of their launches by digest of the text."""

    cases: dict[str, list[Json]] = field(default_factory=dict)
    kernels: dict[str, Json] = field(default_factory=dict)
    ways: dict[str, Counter[str]] = field(default_factory=dict)
    _offers: dict[int, tuple[Any, Json]] = field(default_factory=dict)

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Keep what is recorded from here on under a name."""
        found: list[Json] = []
        record = Recorder.record
        won: set[tuple[str, str]] = set()

        def noted(recorder: Any, *given: Any, **named: Any) -> Any:
            made = record(recorder, *given, **named)
            for task in self.tasks(recorder, made):
                if task not in found:
                    found.append(task)
            pairs = zip(recorder.draft.tasks, recorder.works, strict=True)
            won.update((task.op, place_of(work.way)) for task, work in pairs if work.way)
            return made

        Recorder.record = noted  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Recorder.record = record  # type: ignore[method-assign]
        self.cases[name] = found
        for op, way in won:
            self.ways.setdefault(op, Counter())[way] += 1

    def tasks(self, recorder: Any, recording: Any) -> Iterator[Json]:
        """Yield the tasks of a recording with their launches."""
        pairs = (
            (launched, step)
            for launches, steps in zip(recording.launches, recording.steps, strict=True)
            for launched, step in zip(launches, steps, strict=True)
        )
        of: dict[int, list[Json]] = {}
        for launched, step in pairs:
            of.setdefault(launched.task, []).append(self.launch(launched.launch, step))
        for number, launches in sorted(of.items()):
            if number < 0:
                yield {"op": "late copy", "launches": launches}
                continue
            task, work = recorder.draft.tasks[number], recorder.works[number]
            yield {
                "op": task.op,
                "way": title_of(work),
                "scratch": [int(n) for n in work.scratch],
                "launches": launches,
                **self.offers(recorder.engine, task),
            }

    def launch(self, launch: Any, step: Any) -> Json:
        """Return a launch, and keep its kernel."""
        printed = step.function
        self.kernels[printed.text] = {
            "name": printed.name,
            "form": printed.form,
            "cube": printed.cube,
            "plane": printed.plane,
            "shared": printed.shared,
        }
        return {
            "label": launch.label,
            "kernel": printed.text,
            "cubes": [int(n) for n in launch.cubes],
            "arguments": [argument(a) for a in launch.arguments],
            "flops": int(launch.flops),
            "nbytes": int(launch.nbytes),
        }

    def offers(self, engine: Any, task: Any) -> Json:
        """Return the ways that a family offers for a task, and what dropped out."""
        # A task that reads copies made by others is asked for as it was.
        task = task.members[0] if len(task.members) == 1 else task
        key = id(task.works)
        if key not in self._offers:
            views = tuple(value.view for value in task.inputs)
            given = (task.op, task.attributes, views, task.results, engine.device.info)
            answer: Sequence[Work] = ()
            if task.results and task.op in engine.lowerings:
                made = Lowerings.answer(Request(*given, candidates=True))
                answer = () if isinstance(made, Refusal) else made
            dropped = answer.dropped if isinstance(answer, Candidates) else ()
            said = {
                "offered": [title_of(work) for work in answer] if len(answer) > 1 else [],
                "dropped": {one.variant: one.reason for one in dropped},
            }
            self._offers[key] = task.works, {name: found for name, found in said.items() if found}
        return self._offers[key][1]

    def json(self) -> Json:
        """Return the census as plain data."""
        ways = {op: dict(sorted(found.items())) for op, found in sorted(self.ways.items())}
        made = {"cases": self.cases, "kernels": self.kernels, "ways": ways}
        return json.loads(json.dumps(made))


def argument(given: Any) -> Json:
    """Return an argument of a launch: a number, or which buffer from which element on."""
    if isinstance(given, int | float):
        return given
    name = type(given).__name__.lower()
    number, offset = getattr(given, "number", ""), getattr(given, "offset", 0)
    behind = f"+{offset}" if offset else ""
    return f"{name}{number}{behind}" if name != "flags" else f"flags {given.count}"


def cases_of(suite: str, device: str) -> Iterator[tuple[str, Case]]:
    """Yield the names of a suite's cases, and what plans and calls each once."""
    if suite == "operations":
        from census_cases import cases

        yield from ((name, partial(call, device)) for name, call in cases(device))
        return
    # Suites set the environment when they are imported, each for a process of its own.
    sys.modules.pop(f"suites.{suite}", None)
    for case in importlib.import_module(f"suites.{suite}").cases(device):
        yield case.name, partial(_call, case)


def _call(case: Any) -> None:
    case.ours()()


def forget(device: str) -> None:
    """Drop plans, so that each case is planned anew and none depends on those before it."""
    opened = registry.device(device)
    opened.plans.clear()
    backend: Any = registry.backend(device)
    engine = backend.engine(0)
    known = engine.replanning
    engine.replanning = type(known)(engine)
    operands = sys.modules.get("suites._gpu")
    if operands is not None:
        operands._tensors.cache_clear()


@contextmanager
def described(device: str) -> Iterator[None]:
    """Put a described device in a device's place, and zeros in that of random numbers."""
    made = DEVICES[device]()
    backends, generator = registry._backends, np.random.default_rng
    before = {name: os.environ.get(name) for name in ("CALOR_CACHE", "CALOR_TUNE", "CALOR_KEEP")}
    os.environ.update(CALOR_CACHE="0", CALOR_TUNE="off", CALOR_COMPILE_WORKERS="0")
    # The process may have opened the device itself; a test before this one may have.
    tables: Sequence[dict[str, Any]] = (backends, registry._devices._made)
    opened = [_taken(table, device) for table in tables]
    backends[device] = KernelBackend(device, lambda index: made)
    # A device of a kind that no distribution brings is known while it is described.
    unknown = device not in registry.installed()
    if unknown:
        registry._registered["backend"][device] = (None, "the census")
        registry._loaded.add(device)
    np.random.default_rng = lambda *seed: Zeros()  # type: ignore[assignment]
    try:
        yield
    finally:
        np.random.default_rng = generator
        if unknown:
            registry._loaded.discard(device)
            del registry._registered["backend"][device]
        for table, found in zip(tables, opened, strict=True):
            _taken(table, device)
            table.update(found)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _taken(table: dict[str, Any], device: str) -> dict[str, Any]:
    """Take the entries of a device, with and without an index, out of a table of the registry."""
    names = [name for name in table if name.partition(":")[0] == device]
    return {name: table.pop(name) for name in names}


def take(device: str, suites: Sequence[str], only: Sequence[str] = ()) -> Json:
    """Return the census of suites on a device."""
    census = Census()
    with described(device):
        for suite in suites:
            os.environ.pop("CALOR_KEEP", None)
            for name, call in cases_of(suite, device):
                full = f"{suite}: {name}"
                if only and not any(text in full for text in only):
                    continue
                forget(device)
                try:
                    with census.case(full):
                        call()
                except Exception as error:
                    census.cases[full] = [{"error": f"{type(error).__name__}: {error}"[:300]}]
    return census.json()


def differences(
    old: Json, new: Json, exact: bool = False, within: Callable[[str], bool] = lambda name: True
) -> list[str]:
    """Return the lines that say how two censuses of a device differ, by case."""
    lines = []
    for name in sorted({*filter(within, old["cases"]), *new["cases"]}):
        before, after = old["cases"].get(name), new["cases"].get(name)
        if before is None or after is None:
            lines.append(f"{name}: {'new' if before is None else 'gone'}")
        else:
            found = list(_apart("", before, after, (old["kernels"], new["kernels"], exact)))
            lines += [f"{name}: {line}" for line in found]
    return lines


def _apart(path: str, a: Json, b: Json, kernels: tuple[Json, Json, bool]) -> Iterator[str]:
    if path.endswith(".kernel"):
        yield from _kernels_apart(path, a, b, kernels)
    elif isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in sorted({*a, *b}):
            yield from _apart(f"{path}.{key}", a.get(key), b.get(key), kernels)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _apart(f"{path}[{number}]", one, other, kernels)
    elif a != b or type(a) is not type(b):
        yield f"{path} {_short(a)} -> {_short(b)}"


def _kernels_apart(path: str, a: str, b: str, kernels: tuple[Json, Json, bool]) -> Iterator[str]:
    if a == b:
        return
    before, after = kernels[0].get(a), kernels[1].get(b)
    if before is None or after is None:
        yield f"{path} {a} -> {b}"
        return
    same = {k: v for k, v in before.items() if k != "name"} == {
        k: v for k, v in after.items() if k != "name"
    }
    if kernels[2] or not same:
        what = "is renamed" if same else "has another text"
        yield f"{path} {before['name']} {a} -> {after['name']} {b} {what}"


def _short(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) < 160 else f"{text[:156]} ..."


def winners(census: Json) -> Counter[tuple[str, str]]:
    """Return in how many cases each way of an op wins, 0 for one that was offered and never won."""
    found: Counter[tuple[str, str]] = Counter()
    for tasks in census["cases"].values():
        won = {(task["op"], task["way"]) for task in tasks if "way" in task}
        for task in tasks:
            found.update({(task["op"], way): 0 for way in task.get("offered", ())})
        found.update(won)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Take or compare a census; 1 where it differs or where a case failed that did not before."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = ",".join(DEVICES)
    parser.add_argument("--device", default="cuda,cpu", help=f"some of {names}, or all")
    parser.add_argument("--suite", default="all", help=f"some of {','.join(SUITES)}, or all")
    parser.add_argument("--only", default="", help="cases with one of these texts in their names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the census")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="a census to compare with")
    parser.add_argument("--exact", action="store_true", help="renamed kernels are differences")
    parser.add_argument("--winners", type=Path, metavar="FILE", help="list the ways of a census")
    parser.add_argument("--ways", type=Path, metavar="FILE", help="store which rows win")
    options = parser.parse_args(arguments)
    if options.winners:
        for device, census in json.loads(options.winners.read_text("utf-8")).items():
            for (op, way), count in sorted(winners(census).items()):
                print(f"{device}  {op}  {count}  {way}")
        return 0
    devices = list(DEVICES) if options.device == "all" else options.device.split(",")
    only = [text for text in options.only.split(",") if text]
    made, lines = {}, []
    old = json.loads(options.compare.read_text("utf-8")) if options.compare else {}
    for device in devices:
        # Suites for GPUs have sizes that no program runs on a processor.
        small = tuple(suite for suite in SUITES if suite not in GPU_SUITES)
        every = small if device in PROCESSORS else SUITES
        suites = every if options.suite == "all" else options.suite.split(",")
        made[device] = take(device, suites, only)
        failed = [n for n, tasks in made[device]["cases"].items() if tasks and "error" in tasks[0]]
        print(f"{device}: {len(made[device]['cases'])} cases, {len(failed)} of them fail,",
              f"{len(made[device]['kernels'])} kernels", flush=True)  # fmt: skip

        def within(name: str, suites: Sequence[str] = suites) -> bool:
            return name.partition(":")[0] in suites and (
                not only or any(text in name for text in only)
            )

        if options.compare:
            before = old.get(device, {"cases": {}, "kernels": {}})
            found = differences(before, made[device], options.exact, within)
            lines += [f"{device} {line}" for line in found]
    if options.json:
        options.json.write_text(
            json.dumps(made, separators=(",", ":"), sort_keys=True) + "\n", "utf-8"
        )
    if options.ways:
        stored = json.loads(options.ways.read_text("utf-8")) if options.ways.exists() else {}
        stored |= {device: census["ways"] for device, census in made.items()}
        options.ways.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", "utf-8")
    if lines:
        print("\n".join(lines))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
