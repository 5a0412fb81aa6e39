"""Autotuning: times a family's candidates on the device, once per kind of problem.

Requirements: keys round sizes up to powers of two, so similar sizes share a result. Candidates come
in priority groups; a later group is timed only if the earlier ones leave something to gain, and a
time near the roofline ends the search. Slow candidates are dropped early, unsuitable ones with a
reason. Results outlive the process and can be shipped. A deterministic program is never tuned,
because another blueprint gives other bits.

CALOR_TUNE: ``on`` times unknown problems; ``off`` takes the cost model's first candidate; ``dry``
lists on standard error the groups that would be timed, and the dropped candidates; ``own`` uses
stored results, and no installed bundle; if unset, both are used and nothing is timed.
CALOR_TUNE_CHECK=1 compares every timed candidate's results with the first one's.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import Any, Final

import numpy as np

from calor.backends.protocol import Tuned
from calor.cache import cache_directory, keeps
from calor.errors import CompileError, OutOfMemoryError, UnsupportedError
from calor.graph.graph import Graph
from calor.specs import Spec
from calor_kernel.contract.cost import work_seconds
from calor_kernel.contract.work import Candidates, Dropped, View, Work, flags_of
from calor_kernel.device.images import describe
from calor_kernel.device.storage import Lines, bundle_directories
from calor_kernel.errors import KernelCheckError
from calor_kernel.library.elementwise.paths import Move
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.recording import Recorder
from calor_kernel.planning.values import Draft, Piece, Task, Value
from calor_kernel.runtime.bundles import Bundles, op_of

TUNING: Final = "tuning"
_MODES: Final = ("stored", "own", "on", "off", "dry")
_FEWEST, _MOST = 3, 10  # samples of a candidate
_HOPELESS: Final = 1.5  # A candidate this much slower than the best gets no more samples.
_NEAR: Final = 1.1  # A time within this of the roofline is good enough.
_CANDIDATES: Final = 48
# A group is timed if the best time so far exceeds the roofline's by this factor; the last factor
# holds for all later groups. Most first candidates that suit a problem reach four fifths of the
# roofline, so a promising neighbour may gain, and an unpromising one only if none suits.
_WORTH: Final = (0.0, 1.2, 1.5)


def deterministic() -> bool:
    """Return whether CALOR_DETERMINISTIC asks for the same bits in every run."""
    return os.environ.get("CALOR_DETERMINISTIC", "0") not in ("", "0")


def tuning_mode() -> str:
    """Return the value of CALOR_TUNE."""
    mode = os.environ.get("CALOR_TUNE", "stored").strip().lower()
    if mode not in _MODES:
        raise ValueError(f"CALOR_TUNE={mode!r} is none of {', '.join(_MODES)}")
    return mode


def tuning_lines(target: str) -> Lines:
    """Return the stored results for a toolchain's target; CALOR_CACHE=0 keeps none."""
    name = f"{hashlib.sha256(target.encode()).hexdigest()[:16]}.lines"
    bundles = [path / TUNING / name for path in bundle_directories()]
    return Lines(cache_directory() / TUNING / name if keeps() else None, bundles)


class Tuner:
    """Chooses among the candidates of tasks on one device."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.mode = "off" if engine.deterministic else tuning_mode()
        self.check = os.environ.get("CALOR_TUNE_CHECK", "0") not in ("", "0")
        self.timed = 0
        # While a program is tuned: until when candidates are timed, and the findings.
        self._end = float("inf")
        self._tuned: Tuned | None = None
        self._seen: set[str] = set()
        # The dropped candidates of the tuned tasks, by key.
        self.dropped: dict[str, list[Dropped]] = {}

    @cached_property
    def lines(self) -> Lines:
        """The stored results, read on first use."""
        device = self.engine.device
        # Threads share caches and memory, so their number counts.
        return tuning_lines(f"{device.toolchain.target} {device.info.cores}")

    @cached_property
    def bundles(self) -> Bundles:
        """The choices of installed bundles, read on first use."""
        return Bundles(self.engine.device)

    def wants(self, op: str) -> bool:
        """Return whether an op needs its alternatives: to time, to list, or to look up."""
        return self.mode in ("on", "dry") or (self.mode in ("stored", "own") and op in self._stored)

    @cached_property
    def _stored(self) -> frozenset[str]:
        # Other things than tuning results, as ceilings, are stored beside them.
        found = frozenset(op_of(k) for k, value in self.lines.items() if isinstance(value, dict))
        return found | self.bundles.ops if self.mode == "stored" else found

    @contextmanager
    def timing(self, seconds: float) -> Iterator[Tuned]:
        """Time unknown problems in a context, for at most ``seconds``; yield the findings.

        Raises
        ------
        UnsupportedError
            If the device is deterministic, since another blueprint gives other bits.
        """
        if self.engine.deterministic:
            raise UnsupportedError(
                "CALOR_DETERMINISTIC=1 asks for the same bits in every run, and a tuned program "
                "has others; unset it to tune"
            )
        mode, begin, timed = self.mode, perf_counter(), self.timed
        self.mode, self._end, self._tuned = "on", begin + seconds, Tuned()
        self._seen.clear()
        try:
            yield self._tuned
        finally:
            self._tuned.seconds = perf_counter() - begin
            self._tuned.timed = self.timed - timed
            self.mode, self._end, self._tuned = mode, float("inf"), None
            # What is stored has grown.
            vars(self).pop("_stored", None)

    def choose_all(self, tasks: Sequence[Task]) -> list[Work]:
        """Return the works chosen for tasks; those that take longest are timed first."""
        if self._tuned is not None:
            ceilings = self.engine.ceilings
            several = [task for task in tasks if len(task.works) > 1]
            total: dict[str, float] = {}
            for task in several:
                key = task_key(task)
                total[key] = total.get(key, 0.0) + work_seconds(task.works[0], ceilings)
            for task in sorted(several, key=lambda task: -total[task_key(task)]):
                self._note(task, self.choose(task))
        return [self.choose(task) for task in tasks]

    def state(self) -> str | None:
        """Return a digest of all that choices depend on; None while they are made by time."""
        if self.mode not in ("off", "stored", "own"):
            return None
        known = sorted(
            (key, value["work"]) for key, value in self.lines.items() if isinstance(value, dict)
        )
        fitting = self.bundles.fitting if self.mode == "stored" else ()
        shipped = [(sorted({*b.tables} - b.stale), sorted(b.choices.items())) for b in fitting]
        text = json.dumps([self.mode, known, shipped])
        return hashlib.sha256(text.encode()).hexdigest()

    def _note(self, task: Task, work: Work) -> None:
        """Add a task's choice to the findings, once for each problem."""
        key, tuned = task_key(task), self._tuned
        if tuned is None or key in self._seen:
            return
        self._seen.add(key)
        tuned.problems += 1
        tuned.left += self.lines.get(key) is None
        tuned.changed += work is not task.works[0]

    def choose(self, task: Task) -> Work:
        """Return the work chosen for a task."""
        works = task.works
        if self.mode == "off" or (len(works) == 1 and not (self.mode == "dry" and _dropped(task))):
            return works[0]
        key = task_key(task)
        names = [work_name(work) for work in works]
        known = self.lines.get(key)
        if known is not None and known["work"] in names:
            return works[names.index(known["work"])]
        if self.mode == "dry":
            print("\n".join(_listing(task, key)), file=sys.stderr)
        if self.mode != "on" or perf_counter() > self._end:
            shipped = self.bundles.get(task.op, key) if self.mode in ("stored", "on") else None
            return works[names.index(shipped) if shipped in names else 0]
        best, seconds, first = self._best(task, key)
        found = {
            "work": names[best],
            "label": works[best].launches[0].label,
            "seconds": seconds,
            "instead": title_of(works[0]),
            "first": first,
        }
        self.lines.put(key, found)
        return works[best]

    def _best(self, task: Task, key: str) -> tuple[int, float, float]:
        """Return the fastest candidate, its time, and the time of the first."""
        trial = Trial(self.engine, task)
        try:
            best, seconds, first = self._search(task, key, trial)
            if best and first < float("inf"):
                # A second look: what ran beside the first samples may have slowed them down.
                first = min(first, trial.time(task.works[0], first))
                seconds = min(seconds, trial.time(task.works[best], seconds))
        finally:
            trial.close()
        return (best, seconds, first) if seconds < first else (0, first, first)

    def _search(self, task: Task, key: str, trial: Trial) -> tuple[int, float, float]:
        """Return the fastest candidate of the groups that are worth it, as :meth:`_best`."""
        floor = min(work_seconds(work, self.engine.ceilings) for work in task.works)
        dropped = self.dropped.setdefault(key, list(_dropped(task)))
        best, seconds, first = 0, float("inf"), float("inf")
        expected: list[np.ndarray[Any, Any]] | None = None
        for group, members in groups_of(task.works):
            if seconds <= worth(group) * floor:
                break
            for number in members:
                if seconds < float("inf") and perf_counter() > self._end:
                    return best, seconds, first
                work = task.works[number]
                try:
                    found = trial.time(work, seconds)
                except (CompileError, OutOfMemoryError) as error:
                    dropped.append(Dropped(title_of(work), str(error)))
                    continue
                self.timed += 1
                if self.check:
                    results = trial.results()
                    expected = results if expected is None else expected
                    compare(task, work, results, expected)
                first = min(first, found) if number == 0 else first
                if found < seconds:
                    best, seconds = number, found
                if seconds <= _NEAR * floor:
                    return best, seconds, first
        return best, seconds, first


def worth(group: int) -> float:
    """Return the factor over the roofline's time above which a group is timed."""
    return _WORTH[min(group, len(_WORTH) - 1)]


def groups_of(works: Sequence[Work]) -> list[tuple[int, list[int]]]:
    """Return the groups in order, each with its candidates' numbers in order."""
    found: dict[int, list[int]] = {}
    for number, work in enumerate(works[:_CANDIDATES]):
        found.setdefault(work.group, []).append(number)
    return sorted(found.items())


def _listing(task: Task, key: str) -> list[str]:
    """Return the lines of a dry run for a task."""
    groups, count = groups_of(task.works), len(task.works)
    lines = [f"would time {count} candidates of {task.op}: {key}"]
    if count == 1:
        lines, groups = [f"takes {title_of(task.works[0])} for {task.op}: {key}"], []
    for group, members in groups:
        when = f", beyond {worth(group):g} times the roofline" if group else ""
        titles = "; ".join(title_of(task.works[number]) for number in members)
        lines.append(f"  group {group}{when}: {titles}")
    lines += [f"  drops out: {one.variant}: {one.reason}" for one in _dropped(task)]
    return lines


def _dropped(task: Task) -> tuple[Dropped, ...]:
    return task.works.dropped if isinstance(task.works, Candidates) else ()


def title_of(work: Work) -> str:
    """Return a candidate's name for people."""
    return work.variant or ", ".join(dict.fromkeys(la.label for la in work.launches))


class Trial:
    """The memory used to time the candidates of a task."""

    def __init__(self, engine: Engine, task: Task) -> None:
        self.engine = engine
        self.held: list[tuple[Any, int]] = []
        rng = np.random.default_rng(0)
        pairs = enumerate(task.inputs)
        inputs = tuple(Value(Piece("input", v.piece.nbytes, i), v.view) for i, v in pairs)
        self.task = replace(task, inputs=inputs)
        graph = Graph([], (), [], (), len(inputs))
        self._draft = Draft(graph, [self.task], [*task.outputs], b"", [], 0)
        self.inputs = [self._upload(_sample(v.view, rng)) for v in inputs]
        self.outputs = [self._take(p.nbytes) for p in task.outputs]
        words = flags_of(task.works), 1
        self._flags, self._status = [self._upload(np.zeros(n, np.int32)) for n in words]

    def _take(self, nbytes: int) -> Any:
        self.held.append(self.engine.pool.raw(max(nbytes, 1)))
        return self.held[-1][0]

    def _upload(self, array: np.ndarray[Any, Any]) -> Any:
        handle = self._take(array.nbytes)
        self.engine.pool.memory.copy_in(handle, 0, array)
        return handle

    def time(self, work: Work, best: float) -> float:
        """Return the minimum of 3 to 10 samples in seconds; raises CompileError."""
        made = Recorder(self.engine, self._draft, [work], {0: 0}).record()
        (recorded,), queue, pool = made.lists, self.engine.device.queue, self.engine.pool
        # The next candidate reuses this memory, so many candidates need no more than one.
        arena, room = pool.raw(max(made.arena, 1))
        own = self._flags, self._status, arena, self.engine.nothing.handle
        handles = [*self.inputs, *own, *self.outputs]
        try:
            queue.run(recorded, handles)
            found = float("inf")
            for sample in range(_MOST):
                found = min(found, sum(queue.seconds(recorded, handles)))
                if sample + 1 >= _FEWEST and found > _HOPELESS * best:
                    break
            return found
        finally:
            pool.give(arena, room, 0)

    def results(self) -> list[np.ndarray[Any, Any]]:
        """Return the last candidate's results."""
        self.engine.device.queue.synchronize()
        made = []
        for handle, known in zip(self.outputs, self.task.results, strict=True):
            array = np.empty(known.shape, known.dtype.numpy)
            self.engine.pool.memory.copy_out(handle, 0, array)
            made.append(array)
        return made

    def close(self) -> None:
        """Free the memory."""
        while self.held:
            self.engine.pool.give(*self.held.pop(), 0)


def _sample(view: View, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return sample data for a view: small numbers, which are also valid indices."""
    last = view.offset + sum(
        max((n - 1) * s, 0) for n, s in zip(view.shape, view.strides, strict=True)
    )
    count = last + 1 if view.size else 1
    if view.dtype.kind in ("bool", "int", "uint"):
        return rng.integers(0, 2, count).astype(view.dtype.numpy)
    return rng.standard_normal(count, np.float32).astype(view.dtype.numpy)


def compare(
    task: Task,
    work: Work,
    found: Sequence[np.ndarray[Any, Any]],
    expected: Sequence[np.ndarray[Any, Any]],
) -> None:
    """Raise KernelCheckError if a candidate's results differ from another's beyond rounding."""
    mantissas = {"float16": 10, "bfloat16": 7, "float32": 23, "complex64": 23}
    for known, a, b in zip(task.results, found, expected, strict=True):
        # Half of the digits are equal.
        digits = mantissas.get(known.dtype.name, 52)
        tolerance = 2.0 ** (-digits / 2) if known.dtype.is_inexact else 0.0
        wide = np.complex128 if known.dtype.is_complex else np.float64
        x, y = a.astype(wide), b.astype(wide)
        most = float(np.nanmax(np.abs(y), initial=0.0, where=np.isfinite(y)))
        error = np.abs(x - y)
        if not (error <= tolerance * max(most, 1e-30)).all():
            raise KernelCheckError(
                f"candidate {work.launches[0].label!r} of {task.op} differs from the first by "
                f"{float(np.nanmax(error)):.3g}, where numbers go up to {most:.3g}"
            )


def task_key(task: Task) -> str:
    """Return the key of a task's problem, with sizes rounded up to powers of two."""
    operands = ";".join(_view_text(v.view) for v in task.inputs)
    results = ";".join(_spec_text(s) for s in task.results)
    return f"{task.op}({operands}){{{_attributes(task.attributes)}}}->{results}"


def _attributes(attributes: Mapping[str, Any]) -> str:
    return ",".join(f"{k}={_attribute(v)}" for k, v in sorted(attributes.items()))


def _view_text(view: View) -> str:
    """Return dtype, rounded sizes, and the axis order by stride."""
    if view.is_dense:
        return _spec_text(view)
    strides = sorted({s for s in view.strides if s}, key=abs)
    ranks = {s: n + 1 for n, s in enumerate(strides)} | {0: 0}
    order = "".join(f"{'-' if s < 0 else ''}{ranks[s]}" for s in view.strides)
    return f"{_spec_text(view)}/{order}{'c' if 1 in view.strides else ''}"


def _spec_text(known: Spec | View) -> str:
    shape = ",".join(str(n if n < 2 else 1 << (n - 1).bit_length()) for n in known.shape)
    return f"{known.dtype.name}[{shape}]"


def _attribute(value: Any) -> str:
    if isinstance(value, Graph):
        nodes = (f"{n.op.name}{n.inputs}{{{_attributes(n.attributes)}}}" for n in value.nodes)
        text = " ".join((*map(_spec_text, value.input_specs), *nodes, str(value.outputs)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
    if isinstance(value, Spec):
        return _spec_text(value)
    if type(value) is tuple:
        return f"({','.join(map(_attribute, value))})"
    if isinstance(value, Move):
        return f"{value.op}{_attribute(value.attributes)}{_attribute(value.result)}"
    return describe(value)


def work_name(work: Work) -> str:
    """Return a persistent name for a candidate: its variant, or the builds of its kernels."""
    if work.variant:
        return work.variant
    text = "\n".join(
        f"{la.label} {la.build.function.name} {describe(la.build.keywords)} {la.build.cube}"
        for la in work.launches
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]
