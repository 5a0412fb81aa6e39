"""Choose the tests that only full runs have, from what `pytest --costs FILE` measured.

    python tools/choose_tests.py FILE [--part]

A test is left to full runs where it takes at least 0.02 seconds and the tests that stay
cover what it covers: its function, the values of its simple parameters in its file, the lines of
the packages that it runs, and the kernels that it runs on lanes, checked or not, with each dtype of
their buffers. Where no lines were measured, each form of a kernel, which is the kinds of its
operations, and each set of files that they are written in stand for them. Parameters with many
values in a file name the rows of a table, and do not count unless the rows are operations. Of the
tests that may go, those stay that cover most of what the others do not for their seconds. With
``--part``, a measurement of some tests, others keep what was chosen for them.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import or_
from pathlib import Path
from typing import Any

from costs import names_of

STORED = Path(__file__).parents[1] / "testing" / "left_to_full_runs.json"
LEAST = 0.02
# Strings with more values in a file are the names of rows, but for parameters that name operations
# and their kinds: what tells these apart may be data, of which no line tells.
FEW = 4
ALL = frozenset(("kind", "op", "way"))
DTYPES = frozenset((
    "bool", "bfloat16", "complex64", "complex128", "float16", "float32", "float64", "int8", "int16",
    "int32", "int64", "uint8", "uint16", "uint32", "uint64",
))  # fmt: skip
WHAT = "Tests that only --full runs, and their seconds of processor time; nox -s costs writes this."


@dataclass(frozen=True)
class Measured:
    """What one line of a measurement says.

    ``name`` is empty where other tests have the names too; ``lines`` are the bits of a number for
    each file.
    """

    name: str
    seconds: float
    covers: frozenset[str]
    lines: tuple[tuple[str, int], ...] = ()


def read(lines: Iterable[str]) -> list[Measured]:
    """Return the tests of a measurement, by the names that they are stored under."""
    rows = list({row["test"]: row for row in map(json.loads, lines)}.values())
    count = Counter(name for row in rows for name in names_of(row["test"]))
    values: dict[str, set[str]] = defaultdict(set)
    for name, value in (_parted(what) for row in rows for what in row["covers"]):
        values[name].add(value)

    def counts(what: str) -> bool:
        name, value = _parted(what)
        every = name.rpartition(" ")[2] in ALL
        return every or value in DTYPES or len(values[name]) <= FEW

    return [
        Measured(
            next((name for name in names_of(row["test"]) if count[name] == 1), ""),
            row["seconds"],
            frozenset(filter(counts, row["covers"])) - _told(row),
            tuple((file, int(bits, 16)) for file, bits in row.get("lines", {}).items()),
        )
        for row in rows
    ]


def _parted(what: str) -> tuple[str, str]:
    """Return a parameter in its file, and its value; of all else, the whole and nothing."""
    name, _, value = what.partition("=")
    return (name, value) if "::" not in name and not what.startswith("kernel ") else (what, "")


def _told(row: dict[str, Any]) -> set[str]:
    """Return what is covered of a test's kernels that its lines tell better."""
    kernels = (what for what in row["covers"] if what.startswith("kernel ") and "lines" in row)
    return {what for what in kernels if what.split()[2] in ("form", "of")}


def choose(tests: list[Measured], least: float = LEAST) -> list[Measured]:
    """Return the tests that are left out, in the order of their names."""
    bits = _bits(tests)
    known, others = 0, []
    for n in sorted(range(len(tests)), key=lambda n: tests[n].name):
        if tests[n].seconds < least or not tests[n].name:
            known |= bits[n]
        else:
            others.append(n)
    needed = _cover(tests, bits, others, known)
    # What others of them cover together is not needed; the costliest go first.
    order = sorted(needed, key=lambda n: (-tests[n].seconds, tests[n].name))
    later = [0, *accumulate((bits[n] for n in order[:0:-1]), or_)][::-1]
    for n, rest in zip(order, later, strict=False):
        if bits[n] & ~(known | rest):
            known |= bits[n]
        else:
            needed.remove(n)
    return [tests[n] for n in others if n not in needed]


def _bits(tests: list[Measured]) -> list[int]:
    """Return what each test covers as the bits of a number, a bit for each thing of all tests."""
    places: dict[str, int] = {}
    for test in tests:
        for file, bits in test.lines:
            places[file] = max(places.get(file, 0), bits.bit_length())
    places |= {what: 1 for test in tests for what in test.covers}
    starts = dict(zip(places, accumulate(places.values(), initial=0), strict=False))
    return [
        reduce(or_, (bits << starts[file] for file, bits in test.lines), 0)
        | reduce(or_, (1 << starts[what] for what in test.covers), 0)
        for test in tests
    ]


def _cover(tests: list[Measured], bits: list[int], others: list[int], known: int) -> set[int]:
    """Return which of the others cover what all do: those that add most for their seconds."""
    found: set[int] = set()
    queue = [(-bits[n].bit_count() / tests[n].seconds, n) for n in others]
    heapq.heapify(queue)
    while queue:
        _, n = heapq.heappop(queue)
        adds = -(bits[n] & ~known).bit_count() / tests[n].seconds
        if adds and queue and adds > queue[0][0]:
            heapq.heappush(queue, (adds, n))
        elif adds:
            found.add(n)
            known |= bits[n]
    return found


def main(arguments: list[str] | None = None, stored: Path = STORED) -> None:
    """Store the choice, and print what it saves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="what pytest --costs wrote")
    parser.add_argument("--part", action="store_true", help="keep the choice of all other tests")
    given = parser.parse_args(arguments)
    lines = given.file.read_text("utf-8").splitlines()
    tests = read(lines)
    gone = choose(tests)
    seconds = {test.name: test.seconds for test in gone}
    if given.part:
        measured = {name for line in lines for name in names_of(json.loads(line)["test"])}
        former = json.loads(stored.read_text("utf-8"))["seconds"]
        seconds.update((name, s) for name, s in former.items() if name not in measured)
    told = {"what": WHAT, "seconds": dict(sorted(seconds.items()))}
    stored.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")
    saved, whole = sum(test.seconds for test in gone), sum(test.seconds for test in tests)
    print(f"{len(gone)} of {len(tests)} tests, {saved:.0f} of {whole:.0f} s, are left to full runs")


if __name__ == "__main__":
    main()
