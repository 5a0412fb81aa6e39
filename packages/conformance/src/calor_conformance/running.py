"""Runs a selection on a device: in packs, within a time budget, resumable."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from calor.backends.device import Device
from calor.errors import FormatError

from . import packing, suite
from .checks.base import Check, Place
from .collecting import settle
from .outcomes import Result
from .strict.backend import strict_of
from .watchdog import Watchdog

PACK = 64
# Packs after which garbage collections look no more at what there is: many checks ask for one.
_SETTLES: Final = 128


@dataclass(frozen=True)
class Options:
    """Options of a run.

    Parameters
    ----------
    seed : int, default 0
        Seed of the operands.
    pack : int, default 64
        Number of rows that share a graph; 1 for none.
    budget : float, default None
        Limit in seconds; later checks are "not_run". None is no limit.
    log : Path, default None
        File of results, from which an interrupted run continues.
    strict : bool, default False
        Run every check behind the proxy that checks the protocol.
    timeout : float, default None
        Limit of a check in seconds; one that takes longer hangs, which is a failure. None is no
        limit.
    begun : Path, default None
        File to which a line with the names of the checks that begin is appended, for who waits for
        the process.
    """

    seed: int = 0
    pack: int = PACK
    budget: float | None = None
    log: Path | None = None
    strict: bool = False
    timeout: float | None = None
    begun: Path | None = None


def run(
    device: Device,
    checks: Iterable[Check],
    options: Options = Options(),
    tell: Callable[[Result], None] = lambda _: None,
    stuck: Callable[[Result], None] | None = None,
) -> Iterator[Result]:
    """Run checks on a device and yield their results.

    Parameters
    ----------
    device : Device
        The device.
    checks : iterable of Check
        The checks.
    options : Options, default Options()
        Options of the run.
    tell : callable, optional
        Called with each new result, not with those from the log.
    stuck : callable, default None
        Called with the result of a check that hangs and cannot be interrupted, before the process
        ends. None lets it hang.

    Yields
    ------
    Result
        One result for each check.

    Raises
    ------
    FormatError
        If the log belongs to another run or is not a log.
    """
    asked = list(checks)
    place = Place(strict_of(device) if options.strict else device, device, options.seed)
    end = None if options.budget is None else time.monotonic() + options.budget
    with _Log(options.log, place) as log, _lines(options.begun) as begun:
        yield from log.known(asked)
        left = [c for c in asked if c.name not in log.results]
        watchdog = Watchdog(options.timeout, None if stuck is None else partial(_stuck, log, stuck))
        with watchdog.running():
            for n, pack in enumerate(packing.packs(left, options.pack), 1):
                if n % _SETTLES == 0:
                    settle()
                if end is not None and time.monotonic() > end:
                    yield from (Result(c.name, "not_run", "beyond the time budget") for c in pack)
                    continue
                begun([c.name for c in pack])
                for result in packing.run(pack, place, watchdog):
                    log.add(result)
                    tell(result)
                    yield result


def _stuck(log: _Log, stuck: Callable[[Result], None], name: str) -> None:
    result = Result(name, "failed", "it hangs, and the call of the device hears no interrupt")
    # The next run with this log goes on behind it.
    log.add(result)
    stuck(result)


class _Log:
    """Results as lines of JSON, after a first line that identifies the run."""

    def __init__(self, path: Path | None, place: Place) -> None:
        self.path = path
        self.results: dict[str, Result] = {}
        self._opened = ExitStack()
        head = {
            "suite": suite.digest(),
            "device": place.plain.name,
            "description": place.plain.info.description,
            "seed": place.seed,
        }
        if path is not None and not _created(path, json.dumps(head) + "\n"):
            self.results = dict(_read(path, head))
        self._append = self._opened.enter_context(_lines(path))

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def known(self, asked: Iterable[Check]) -> Iterator[Result]:
        """Yield the results of an earlier run for these checks."""
        for check in asked:
            if check.name in self.results:
                yield self.results[check.name]

    def add(self, result: Result) -> None:
        """Append a result, so that an interrupted run loses at most one pack."""
        self._append(asdict(result))


def append(path: Path, result: Result) -> None:
    """Append a result to the log of a run."""
    with _lines(path) as add:
        add(asdict(result))


@contextmanager
def _lines(path: Path | None) -> Iterator[Callable[[object], object]]:
    """Give what appends a line of JSON to a file, which is opened once; None writes nothing.

    A run has tens of thousands of lines, and opening a file may wait for a disk.
    """
    if path is None:
        yield lambda told: None
        return
    # Each line is one unbuffered write, since the processes of a run share the file.
    with path.open("ab", buffering=0) as file:
        yield lambda told: file.write((json.dumps(told) + "\n").encode())


def _created(path: Path, head: str) -> bool:
    """Create a log that no process sees without its first line; return whether it is new."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent) as file:
        file.write(head)
        file.flush()
        try:
            os.link(file.name, path)
        except FileExistsError:
            return False
    return True


def _read(path: Path, head: Mapping[str, object]) -> Iterator[tuple[str, Result]]:
    lines = path.read_text("utf-8").splitlines()
    try:
        there = json.loads(lines[0])
    except (IndexError, ValueError):
        raise FormatError(
            f"{path} is not the log of a run; remove it, or choose another file"
        ) from None
    for what, value in head.items():
        if there.get(what) != value:
            raise FormatError(
                f"{path} is the log of another run: its {what} is {there.get(what)!r}, not "
                f"{value!r}; remove it, or choose another file"
            )
    for line in lines[1:]:
        try:
            result = Result(**json.loads(line))
        except (TypeError, ValueError):
            continue  # The line that was being written when the run was interrupted.
        yield result.name, result
