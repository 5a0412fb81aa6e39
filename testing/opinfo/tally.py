"""Count the lines of runs: `python testing/opinfo/tally.py LINES ... [--json FILE]`

A mismatch is *known* if a row of `known.py` names it: by entry, dtype, step and a part of its text.
A row that excuses nothing in a whole run is told too, so that no row outlives its reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from opinfo.known import KNOWN, reason_of
from opinfo.tables import TABLE
from opinfo.without_meaning import WITHOUT_MEANING

Line = dict[str, Any]


def tally(lines: Iterable[Line], known: Iterable[str]) -> dict[str, Any]:
    """Return the counts of each device, dtype and step, the mismatches, and what is missing."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    mismatches: list[list[str]] = []
    absent: dict[str, str] = {}
    for line in lines:
        name, kind, device = line["entry"], line["dtype"], line["device"]
        if line["absent"]:
            absent[name] = line["absent"]
        for step, count in line["right"].items():
            counts[f"{device} {kind} {step}"]["right"] += count
        seen = set()
        for step, _, error in line["wrong"]:
            reason = reason_of(name, kind, step, error)
            counts[f"{device} {kind} {step}"]["wrong" if reason is None else "known"] += 1
            if reason is not None:
                reasons[reason] += 1
            elif step not in seen:
                seen.add(step)
                mismatches.append([name, device, kind, step, error])
    known = set(known)
    lacking = sorted(known - {*TABLE} - {*WITHOUT_MEANING})
    return {
        "entries": len(known),
        "counterparts": len({*TABLE} & known - {*absent}),
        "without_meaning": len({*WITHOUT_MEANING} & known),
        "missing": lacking,
        "absent": absent,
        "counts": {key: dict(found) for key, found in sorted(counts.items())},
        "known": dict(reasons.most_common()),
        "mismatches": mismatches,
    }


def told(found: dict[str, Any]) -> str:
    """Return a tally as text."""
    lines = [f"{name} [{device} {kind}] {step}: {error[:300]}"
             for name, device, kind, step, error in found["mismatches"]]  # fmt: skip
    lines.append(
        f"{found['counterparts']} entries with a counterpart, {found['without_meaning']} without "
        f"meaning, {len(found['missing']) + len(found['absent'])} missing of {found['entries']}"
    )
    lines += [f"  {key}: {counts}" for key, counts in found["counts"].items()]
    lines.append(f"  entries with a mismatch: {len({m[0] for m in found['mismatches']})}")
    lines += [f"  known, {count}: {reason}" for reason, count in found["known"].items()]
    lines += [f"  absent: {name} ({what})" for name, what in sorted(found["absent"].items())]
    return "\n".join(lines)


def stale(lines: Iterable[Line]) -> list[str]:
    """Return the rows of known differences that excuse none of the mismatches of some lines."""
    used = {id(row) for line in lines for step, _, error in line["wrong"]
            for row in KNOWN if row.excuses(line["entry"], line["dtype"], step, error)}  # fmt: skip
    return [str(row) for row in KNOWN if id(row) not in used]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--stale", action="store_true", help="tell the rows that excuse nothing")
    options = parser.parse_args()
    from torch.testing._internal.common_methods_invocations import op_db

    from opinfo.run import name_of

    # A later line of an entry, dtype and device replaces an earlier one.
    lines = {
        (line["entry"], line["dtype"], line["device"]): line
        for path in options.files
        for line in map(json.loads, path.read_text().splitlines())
    }
    found = tally(lines.values(), [name_of(info) for info in op_db])
    print(told(found))
    if options.stale:
        print("excuses without a mismatch:", *stale(lines.values()), sep="\n  ")
    if options.json is not None:
        devices = sorted({device for _, _, device in lines})
        runs = (f"nox -s opinfo -- --device {d} --results {d}.jsonl" for d in devices)
        versions = {name: version(name) for name in ("torch", "numpy")}
        head = {"date": str(date.today()), "command": "; ".join(runs), "versions": versions}
        options.json.write_text(json.dumps({**head, **found}, indent=1) + "\n")
    return bool(found["mismatches"] or found["absent"])


if __name__ == "__main__":
    sys.exit(main())
