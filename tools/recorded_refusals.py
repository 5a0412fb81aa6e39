"""Record what calls with one argument off give, for the conformance suite to compare with.

    python tools/recorded_refusals.py                 # of all functions
    python tools/recorded_refusals.py --only 'calor_special.*'

Along the values of each argument both sides of each change are kept, and the first call that is
told something, whatever its numbers. Errors that are none of calor's are printed: mend them.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase

import calor
from calor.errors import UnsupportedError
from calor_conformance.outcomes import clear
from calor_conformance.rows.recorded.refusals import Refusals, read, write
from calor_conformance.rows.recorded.results import mark
from calor_conformance.rows.recorded.spoilt import Key, base, call, ladders, spoilable, told
from recorded_calls import soon

# Errors of Python and NumPy that calor's functions should not raise.
_RAW = ("ValueError", "IndexError", "ZeroDivisionError", "AttributeError", "KeyError",
        "AssertionError", "OverflowError", "DeviceError", "LaunchError")  # fmt: skip
_LONG = 0.02
# Seconds that the calls of a function may take together.
_MOST = 0.15
_NUMBERS = re.compile(r"-?\d+(\.\d+)?|, |'[^']*'")


def _told(label: str, key: Key, name: str) -> str | None:
    try:
        with soon():
            start = time.process_time()
            text = told(spoilable()[label], call(label, key, name))
            long = time.process_time() - start > _LONG
            return None if long else text
    except (UnsupportedError, MemoryError, RecursionError, TimeoutError):
        clear()
        return None


def _rows(label: str) -> Iterator[tuple[Key, str, str]]:
    senses: set[str] = set()
    end = time.process_time() + _MOST
    for key, steps in ladders(label).items():
        before: tuple[Key, str, str] | None = None
        kept: set[str] = set()
        for name, _ in steps:
            if time.process_time() > end:
                return
            text = _told(label, key, name)
            if text is None or _told(label, key, name) != text:
                continue
            if _sort(text) in _RAW:
                print(f"  {label} with {key!r} {name}: {text}", flush=True)
                continue
            row = (key, name, text)
            sense = _NUMBERS.sub("0", text)
            fresh = sense not in senses and sense[:1] != "="
            senses.add(sense)
            changed = before is not None and _sort(text) != _sort(before[2])
            if changed and before is not None and before[1] not in kept:
                kept.add(before[1])
                yield before
            if changed or fresh:
                kept.add(name)
                yield row
            before = row


def _sort(text: str) -> str:
    """Return the name of an error, or "=" of a result."""
    return text.partition(":")[0] if not text.startswith("=") else "="


def main() -> None:
    """Record calls."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="*", help="only functions with labels like this")
    options = parser.parse_args()
    known: dict[str, Refusals] = {
        label: rows for label, rows in read().items()
        if label in spoilable() and not fnmatchcase(label, options.only)
    }  # fmt: skip
    for number, label in enumerate(spoilable()):
        if number % 50 == 49:
            write(known)
            print(f"{number + 1} of {len(spoilable())}", flush=True)
        if not fnmatchcase(label, options.only):
            continue
        right = base(label)
        if right is None:
            print(f"  {label} has no right call", flush=True)
            continue
        with calor.device("numpy"):
            rows = list(_rows(label))
        if rows:
            known[label] = mark(right), rows
    write(known)
    print(f"{len(known)} functions, {sum(len(rows) for _, rows in known.values())} calls")


if __name__ == "__main__":
    main()
