"""Running a selection on a device: in packs, within a time budget, from where a run stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from calor.backends.device import Device
from calor.errors import FormatError

from . import packing, suite
from .checks.base import Check, Place
from .checks.protocol import strict_of
from .outcomes import Result

PACK = 64


@dataclass(frozen=True)
class Options:
    """How a selection runs. ``budget`` is in seconds; ``log`` is the file to resume from."""

    seed: int = 0
    pack: int = PACK
    budget: float | None = None
    log: Path | None = None
    strict: bool = False


def run(
    device: Device,
    checks: Iterable[Check],
    options: Options = Options(),
    tell: Callable[[Result], None] = lambda _: None,
) -> Iterator[Result]:
    """Yield a result for every check; those beyond the budget as not_run.

    ``tell`` hears of each result that was worked out now, and not read from the log.
    """
    asked = list(checks)
    place = Place(strict_of(device) if options.strict else device, device, options.seed)
    log = _Log(options.log, place)
    yield from log.known(asked)
    left = [c for c in asked if c.name not in log.results]
    end = None if options.budget is None else time.monotonic() + options.budget
    for pack in packing.packs(left, options.pack):
        if end is not None and time.monotonic() > end:
            yield from (Result(c.name, "not_run", "the time budget was spent") for c in pack)
            continue
        for result in packing.run(pack, place):
            log.add(result)
            tell(result)
            yield result


class _Log:
    """Results as lines of JSON, under a first line that says what they are results of."""

    def __init__(self, path: Path | None, place: Place) -> None:
        self.path = path
        self.results: dict[str, Result] = {}
        head = {
            "suite": suite.digest(),
            "device": place.plain.name,
            "description": place.plain.info.description,
            "seed": place.seed,
        }
        if path is None:
            return
        if path.exists():
            self.results = dict(_read(path, head))
        else:
            path.write_text(json.dumps(head) + "\n", "utf-8")

    def known(self, asked: Iterable[Check]) -> Iterator[Result]:
        """Yield what an earlier run found for these checks."""
        for check in asked:
            if check.name in self.results:
                yield self.results[check.name]

    def add(self, result: Result) -> None:
        """Keep a result, so that a run that is cut off loses at most one pack."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")


def _read(path: Path, head: Mapping[str, object]) -> Iterator[tuple[str, Result]]:
    lines = path.read_text("utf-8").splitlines()
    try:
        there = json.loads(lines[0])
    except (IndexError, ValueError):
        raise FormatError(f"{path} is no log of a run; remove it, or name another file") from None
    for what, value in head.items():
        if there.get(what) != value:
            raise FormatError(
                f"{path} is the log of another run: its {what} is {there.get(what)!r}, not "
                f"{value!r}; remove it, or name another file"
            )
    for line in lines[1:]:
        try:
            result = Result(**json.loads(line))
        except (TypeError, ValueError):
            continue  # The line that was being written when the run was cut off.
        yield result.name, result
