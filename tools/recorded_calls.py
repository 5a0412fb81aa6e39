"""Record what drawn calls of functions give, for the conformance suite to compare with.

    python tools/recorded_calls.py                 # of all functions
    python tools/recorded_calls.py --only 'calor_special.*'
    python tools/recorded_calls.py --check cpu     # take away what another device gives otherwise

A call is kept if it comes to lines of calor that none before it came to, and a few of each function
anyway. How far a number may be off follows from the same call in float64, and from one whose
operands are moved by their rounding.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.errors import CalorError, UnsupportedError
from calor_conformance.checks.recorded_calls import chosen, wrong_places
from calor_conformance.outcomes import clear
from calor_conformance.rows.functions.drawing import Arguments
from calor_conformance.rows.recorded import points, results
from calor_conformance.rows.recorded.store import STORED, Recorded, read, write
from calor_conformance.rows.recorded.subjects import Subject, subjects
from calor_conformance.rows.recorded.variations import arguments

_ROOT: Final = str(Path(__file__).parents[1])
# Bytes of memory and seconds that a call may take.
_ROOM, _HANGS, _LONG = 6 << 30, 2, 0.05
# The rounding of each dtype, and how many of them a result may be off.
_UNITS: Final = {
    "float64": 2.0**-52, "complex128": 2.0**-52, "float32": 2.0**-23, "complex64": 2.0**-23,
    "float16": 2.0**-10, "bfloat16": 2.0**-7, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2,
}  # fmt: skip
_ROUNDINGS: Final = {"float64": 256, "complex128": 256, "float32": 32, "complex64": 48}


class _HangsError(TimeoutError):
    """A call takes too long."""


@contextmanager
def soon() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise _HangsError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(_HANGS)
    try:
        yield
    finally:
        signal.alarm(0)


class Lines:
    """The steps from line to line of calor that calls have taken."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, int, int]] = set()
        self.known: dict[str, bool] = {}

    def new(self, run: Callable[[], Any]) -> tuple[Any, int]:
        """Return what a function returns, and how many new steps it took."""
        found: set[tuple[Any, int, int]] = set()
        known = self.known

        def enter(frame: Any, event: str, arg: Any) -> Any:
            name = frame.f_code.co_filename
            own = known.get(name)
            if own is None:
                own = known[name] = (
                    name.startswith(_ROOT)
                    and "/src/calor" in name
                    and (
                        "conformance" not in name
                        and "/recording/" not in name
                        and "/compiling/" not in name
                        and "/graph/" not in name
                    )
                )
            if not own:
                return None
            code, before = frame.f_code, 0

            def step(frame: Any, event: str, arg: Any) -> Any:
                nonlocal before
                if event == "line":
                    found.add((code, before, frame.f_lineno))
                    before = frame.f_lineno
                return step

            return step

        sys.settrace(enter)
        try:
            made = run()
        finally:
            sys.settrace(None)
        fresh = len(found - self.seen)
        self.seen |= found
        return made, fresh


def _called(subject: Subject, given: Arguments, *, slopes: bool) -> results.Outcome | None:
    """Return what a call gives; None where that is nothing to record."""
    try:
        with soon():
            return results.outcome(subject, given, slopes=slopes)
    except (UnsupportedError, MemoryError, RecursionError, _HangsError):
        clear()
        return None
    except Exception as error:
        clear()
        told = f"{type(error).__name__}: {error}"[:120]
        print(f"  untyped error of {subject.label}: {told} | {_short(given)}", flush=True)
        return None


def _short(given: Any) -> str:
    """Return arguments in few words."""
    return str(_cast(given, lambda one: f"{one.dtype}{one.shape}"))[:300]


def _cast(given: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(given, np.ndarray):
        return change(given)
    if isinstance(given, list | tuple):
        return type(given)(_cast(one, change) for one in given)
    if isinstance(given, dict):
        return {name: _cast(one, change) for name, one in given.items()}
    return given


def _wide(one: Any) -> Any:
    if (one.dtype.kind == "f" and one.dtype.itemsize < 8) or one.dtype == calor.bfloat16.numpy:
        return one.astype(np.float64)
    return one.astype(np.complex128) if one.dtype == np.complex64 else one


def _moved(one: Any) -> Any:
    unit = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float64): 2.0**-52}.get(one.dtype)
    if unit is None:
        return one
    signs = np.random.default_rng(3).choice((-1.0, 1.0), one.shape)
    return (one * (1 + 2 * unit * signs)).astype(one.dtype)


def _bounds(subject: Subject, given: Arguments, made: results.Outcome, slopes: bool) -> Any:
    """Return how far each number of a result may be off."""
    others = []
    for change in (_wide, _moved):
        other = _called(subject, _cast(given, change), slopes=slopes)
        if other is not None and other.values.shape == made.values.shape:
            others.append(other.values)
    bounds, at = [np.zeros(0)], 0
    for head, size in _sizes(made.heads):
        cut = slice(at, at + size)
        at += size
        name = head.partition("(")[0]
        unit = _UNITS.get("float64" if name == "float" else name)
        own = made.values[cut]
        if unit is None:
            bounds.append(np.zeros(size))
            continue
        finite = np.where(np.isfinite(own), np.abs(own), 0.0)
        scale = np.full(size, finite.max(initial=0.0))
        shape = head.partition("(")[2].rstrip(")").replace(",", " ").split()
        pointwise = subject.pointwise and shape == [str(points.COUNT)]
        bound = unit * _ROUNDINGS.get(name, 1.5) * finite + 2.0**-120
        if not pointwise:
            bound = bound + unit * 8 * scale
        with np.errstate(invalid="ignore", over="ignore"):
            for values in others:
                off = np.nan_to_num(np.abs(values[cut] - own), nan=0.0, posinf=0.0)
                bound = bound + 6 * np.minimum(off, 1e-3 * (finite if pointwise else scale))
        bounds.append(bound)
    return np.concatenate(bounds)


def _sizes(heads: Sequence[str]) -> Iterator[tuple[str, int]]:
    for head in heads:
        name, opened, shape = head.partition("(")
        if not opened or (name not in _UNITS and name not in _PLAIN):
            continue
        sides = [int(n) for n in shape.rstrip(")").replace(",", " ").split()]
        count = int(np.prod(sides, dtype=np.int64)) * (2 if name.startswith("complex") else 1)
        yield head, min(count, results.MOST)


_PLAIN: Final = {"float", *(d.name for d in calor.dtypes.ALL)}


def recorded(subject: Subject, lines: Lines, options: argparse.Namespace) -> list[Recorded]:
    """Return the calls of a function that are worth a record."""
    made: list[Recorded] = []
    good = 0
    for number in options.numbers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = arguments(subject, number)
            if given is None:
                continue
            found, fresh = lines.new(partial(_called, subject, given, slopes=False))
            if found is None:
                continue
            right = bool(found.values.size) or len(found.heads) > 1
            least = options.least + 2 * subject.pointwise
            if not fresh and (not right or good >= least):
                continue
            slopes = right and bool(results.moving(given))
            start = time.process_time()
            whole = _called(subject, given, slopes=slopes)
            took = time.process_time() - start
            if whole is None or took > _LONG * (1 + 4 * bool(fresh)):
                continue
            if slopes and whole.heads[-1].startswith("derivative"):
                slopes = not whole.values.size
                whole = found if not slopes else whole
            bounds = _bounds(subject, given, whole, slopes)
        if bounds.shape != whole.values.shape:
            print(f"  {subject.label} {number}: {whole.heads} has {whole.values.size} numbers")
            continue
        good += right
        made.append(
            Recorded(number, results.mark(given), slopes, whole.heads, whole.values, bounds)
        )
    return made


def confirmed(subject: Subject, calls: Sequence[Recorded], name: str) -> list[Recorded]:
    """Return calls that another device gives too, with wider bounds where it is off a little."""
    made = []
    for call in calls:
        given = arguments(subject, call.number)
        if given is None or results.mark(given) != call.mark:
            continue
        try:
            with warnings.catch_warnings(), calor.device(name):
                warnings.simplefilter("ignore")
                got = results.outcome(subject, given, slopes=call.slopes)
        except UnsupportedError:
            made.append(call)
            continue
        except (CalorError, Exception) as error:
            clear()
            print(f"  {subject.label} {call.number}: {error!r}"[:300], flush=True)
            continue
        if got.heads != call.heads or got.values.shape != call.values.shape:
            print(
                f"  {subject.label} {call.number}: {got.heads} not {call.heads}"[:300], flush=True
            )
            continue
        wrong = np.asarray(wrong_places(got.values, call))
        with np.errstate(invalid="ignore"):
            off = np.abs(got.values - call.values)
        small = np.nan_to_num(off, nan=np.inf) <= 1e-3 * np.maximum(np.abs(call.values), 1e-3)
        if (wrong & ~small).any():
            at = int(np.flatnonzero(wrong & ~small)[0])
            print(
                f"  {subject.label} {call.number}: {got.values[at]} not {call.values[at]} at {at} "
                f"of {call.heads}"[:300], flush=True,
            )  # fmt: skip
            continue
        bounds = np.where(wrong, 4 * off, np.maximum(call.bounds, 2 * np.nan_to_num(off, posinf=0)))
        made.append(replace(call, bounds=bounds))
    return made


def stored_places() -> None:
    """Store the constants of modules of functions of single elements, as they are now."""
    names = {one.function.__module__ for one in subjects().values()
             if one.pointwise and one.function is not None}  # fmt: skip
    made = {name: points.constants(name) for name in sorted(names)}
    points.STORED.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    points.places.cache_clear()


def main(given: Sequence[str] | None = None) -> None:
    """Record calls, or compare them with those of another device."""
    parser = argparse.ArgumentParser(
        prog="recorded_calls", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only these functions")
    parser.add_argument("--check", metavar="DEVICE", help="keep what this device gives too")
    parser.add_argument(
        "--tries", type=int, default=16, help="calls of each function that are tried"
    )
    parser.add_argument(
        "--first",
        type=int,
        default=0,
        help="the first that is tried; adds to the record",
    )
    parser.add_argument("--least", type=int, default=5, help="calls of each function that are kept")
    parser.add_argument(
        "--places",
        action="store_true",
        help="first store the constants of modules as points of their functions",
    )
    parser.add_argument("--file", type=Path, default=STORED, help="where they are kept")
    options = parser.parse_args(given)
    options.numbers = range(options.first, options.first + options.tries)
    if options.places:
        stored_places()
    calls: dict[str, Sequence[Recorded]] = dict(read(options.file))
    lines = Lines()
    known = subjects()
    calls = {label: own for label, own in calls.items() if label in known}
    labels = [n for n in known if any(fnmatchcase(n, p) for p in options.only or ["*"])]
    start = time.process_time()
    for done, label in enumerate(labels):
        if options.check is not None:
            own = calls.get(label, ())
            asked = chosen(own, options.check) if own else ()
            kept = confirmed(known[label], asked, options.check)
            left = {c.number for c in asked} - {c.number for c in kept}
            by_number = {c.number: c for c in (*own, *kept) if c.number not in left}
            calls[label] = [by_number[n] for n in sorted(by_number)]
        else:
            with calor.device("numpy"):
                made = recorded(known[label], lines, options)
            kept = [c for c in calls.get(label, ()) if c.number not in options.numbers]
            calls[label] = sorted([*kept, *made], key=lambda c: c.number) if options.first else made
        if not calls[label]:
            calls.pop(label)
        if done % 25 == 24 or done == len(labels) - 1:
            write(options.file, calls)
            count = sum(len(own) for own in calls.values())
            spent = time.process_time() - start
            print(f"{done + 1} of {len(labels)}: {count} calls, {spent:.0f} s", flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_ROOM, _ROOM))
    gc.freeze()
    gc.set_threshold(50_000)
    main()
