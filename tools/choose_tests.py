"""Choose the tests that only full runs have, from what `pytest --costs FILE` measured.

    python tools/choose_tests.py FILE [--part]

A test is left to full runs where it takes at least 0.02 seconds and the tests that stay
cover what it covers: its function, the values of its simple parameters in its file, and the kernels
that it runs on lanes, each with the types of its buffers and the kinds of its operations, checked
or not. The costliest go first. With ``--part``, a measurement of some tests, others keep what was
chosen for them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

STORED = Path(__file__).parents[1] / "testing" / "left_to_full_runs.json"
LEAST = 0.02
WHAT = "Tests that only --full runs, and their seconds of processor time; nox -s costs writes this."


@dataclass(frozen=True)
class Measured:
    """What one line of a measurement says."""

    name: str
    seconds: float
    covers: frozenset[str]


def read(lines: Iterable[str]) -> list[Measured]:
    """Return the tests of a measurement, by the names that they are stored under."""
    rows = map(json.loads, lines)
    return [
        Measured(row["test"].partition("::")[2], row["seconds"], frozenset(row["covers"]))
        for row in rows
    ]


def choose(tests: list[Measured], least: float = LEAST) -> list[Measured]:
    """Return the tests that are left out, in the order of their names."""
    count = Counter(what for test in tests for what in test.covers)
    namesakes = Counter(test.name for test in tests)
    gone = []
    for test in sorted(tests, key=lambda test: (-test.seconds, test.name)):
        if test.seconds < least:
            break
        # A test without a namesake alone can be told by its name.
        if namesakes[test.name] == 1 and all(count[what] > 1 for what in test.covers):
            count.subtract(test.covers)
            gone.append(test)
    return sorted(gone, key=lambda test: test.name)


def main(arguments: list[str] | None = None, stored: Path = STORED) -> None:
    """Store the choice, and print what it saves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="what pytest --costs wrote")
    parser.add_argument("--part", action="store_true", help="keep the choice of all other tests")
    given = parser.parse_args(arguments)
    tests = read(given.file.read_text("utf-8").splitlines())
    gone = choose(tests)
    seconds = {test.name: test.seconds for test in gone}
    if given.part:
        measured = {test.name for test in tests}
        former = json.loads(stored.read_text("utf-8"))["seconds"]
        seconds.update((name, s) for name, s in former.items() if name not in measured)
    told = {"what": WHAT, "seconds": dict(sorted(seconds.items()))}
    stored.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")
    saved, whole = sum(test.seconds for test in gone), sum(test.seconds for test in tests)
    print(f"{len(gone)} of {len(tests)} tests, {saved:.0f} of {whole:.0f} s, are left to full runs")


if __name__ == "__main__":
    main()
