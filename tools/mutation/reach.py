"""Which functions each check of the suite enters, recorded once and stored.

Requirements: a mutant is shown only to checks that can see it, so each check runs alone, with a
tracer that notes the code objects it enters. The record is stored as it grows: an interrupted one
is continued, and checks that are new are added. It names functions by file and qualified name, so
it outlives edits of the sources.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import numpy as np

# Seconds between two times that a record is stored.
_STORED_EVERY: Final = 60.0
_LAMBDA: Final = "<lambda>"


def named(path: str, code: CodeType) -> str:
    """Return the name of a function in a record.

    Parameters
    ----------
    path : str
        The file of the function.
    code : CodeType
        Its code.

    Returns
    -------
    str
        File and qualified name; functions without a name have their line too.
    """
    line = f":{code.co_firstlineno}" if code.co_name == _LAMBDA else ""
    return f"{path}::{code.co_qualname}{line}"


@dataclass
class Reach:
    """The checks of a suite and the functions that each enters.

    Parameters
    ----------
    checks : list of str
        Names of checks.
    seconds : list of float
        Processor time of each.
    passed : list of bool
        Whether each passed.
    functions : list of str
        Names of functions, see :func:`named`.
    entered : list of ndarray
        For each check, the positions of its functions.
    """

    checks: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    passed: list[bool] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    entered: list[np.ndarray[Any, Any]] = field(default_factory=list)

    def of(self, functions: Iterable[str]) -> list[int]:
        """Return the positions of the checks that passed and enter one of some functions."""
        of_function, places, ends = self._inverse
        numbers = [of_function[name] for name in functions if name in of_function]
        found = [places[ends[n] : ends[n + 1]] for n in numbers]
        every = np.unique(np.concatenate([np.zeros(0, int), *found]))
        return [int(n) for n in every if self.passed[n]]

    @cached_property
    def _inverse(self) -> tuple[dict[str, int], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The number of each function, and the checks of each, one function after another."""
        flat = np.concatenate([np.zeros(0, np.uint32), *self.entered])
        checks = np.repeat(np.arange(len(self.entered)), [len(e) for e in self.entered])
        ends = np.cumsum([0, *np.bincount(flat, minlength=len(self.functions))])
        numbers = {name: n for n, name in enumerate(self.functions)}
        return numbers, checks[np.argsort(flat, kind="stable")], ends

    def store(self, path: Path) -> None:
        """Write the record to a file, whole or not at all."""
        ends = np.cumsum([0, *map(len, self.entered)])
        draft = path.with_suffix(".draft.npz")
        np.savez_compressed(
            draft,
            checks=np.array(self.checks, str),
            seconds=np.array(self.seconds, float),
            passed=np.array(self.passed, bool),
            functions=np.array(self.functions, str),
            ends=ends,
            entered=np.concatenate([np.zeros(0, np.uint32), *self.entered]),
        )
        draft.replace(path)


def stored(path: Path) -> Reach:
    """Return the record of a file; an empty one if there is none."""
    if not path.exists():
        return Reach()
    with np.load(path) as held:
        ends, every = held["ends"], held["entered"]
        return Reach(
            held["checks"].tolist(),
            held["seconds"].tolist(),
            held["passed"].tolist(),
            held["functions"].tolist(),
            [every[a:b] for a, b in itertools.pairwise(ends)],
        )


class Recorder:
    """Notes the functions of some folders that are entered.

    Parameters
    ----------
    root : Path
        The folder that paths are relative to.
    folders : sequence of str
        Beginnings of the relative paths of the files that count.
    reach : Reach
        The record to extend.
    """

    def __init__(self, root: Path, folders: Sequence[str], reach: Reach) -> None:
        self._root, self._folders, self.reach = f"{root}/", tuple(folders), reach
        self._places = {name: n for n, name in enumerate(reach.functions)}
        # Codes are kept, since the identity of one that dies is given to another.
        self._codes: dict[int, tuple[CodeType, int]] = {}
        self._seen: dict[int, CodeType] = {}

    def _place(self, code: CodeType) -> int:
        known = self._codes.get(id(code))
        if known is not None:
            return known[1]
        place, path = -1, code.co_filename.removeprefix(self._root)
        if path.startswith(self._folders):
            name = named(path, code)
            place = self._places.setdefault(name, len(self._places))
            if place == len(self.reach.functions):
                self.reach.functions.append(name)
        self._codes[id(code)] = code, place
        return place

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note what the block enters, in all threads that it starts."""
        seen = self._seen = {}

        def trace(frame: FrameType, event: str, argument: Any) -> None:
            code = frame.f_code
            seen[id(code)] = code

        before = sys.gettrace()
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)

    def add(self, check: str, passed: bool, seconds: float) -> None:
        """Add what the last block entered as that of a check."""
        places = {self._place(code) for code in list(self._seen.values())} - {-1}
        reach = self.reach
        reach.checks.append(check)
        reach.passed.append(passed)
        reach.seconds.append(seconds)
        reach.entered.append(np.array(sorted(places), np.uint32))


def record(
    recorder: Recorder,
    path: Path,
    checks: Iterable[str],
    ask: Callable[[str], bool],
    tell: Callable[[str], None] = print,
) -> None:
    """Ask checks one by one and store what they enter; those that are recorded are left out.

    Parameters
    ----------
    recorder : Recorder
        Notes the functions.
    path : Path
        The file of the record.
    checks : iterable of str
        Names of checks.
    ask : callable
        Runs a check and returns whether it passed.
    tell : callable, default print
        Called with lines about the progress.
    """
    reach, last = recorder.reach, time.monotonic()
    known = set(reach.checks)
    left = [name for name in checks if name not in known]
    for n, name in enumerate(left):
        begin = time.process_time()
        with recorder.noting():
            passed = ask(name)
        recorder.add(name, passed, time.process_time() - begin)
        if not passed:
            tell(f"{name} does not pass without a fault, and is asked no more")
        if time.monotonic() > last + _STORED_EVERY or n == len(left) - 1:
            reach.store(path)
            last = time.monotonic()
            tell(f"recorded {n + 1} of {len(left)} checks")
