"""What a run says: a line for each case, quantiles, the worst cases, and the JSON file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fuzzing.launch_floor import with_equal_kernels, without_launches
from fuzzing.quantiles import QUANTILES, by_family
from harness.report import seconds

WORST = 20
# Seconds of a first call that deserve a word.
SLOW_START = 2.0


def header() -> str:
    """Return the names of the columns of lines."""
    return _columns("ratio", "calor", "peer", "floor", "first") + "  case"


def line(row: Mapping[str, Any]) -> str:
    """Return the line of a measured case."""
    floor = row["floor_s"]
    share = "-" if not floor else f"{floor / row['ours_s']:.2f}"
    cells = (f"{row['ratio']:.2f}", seconds(row["ours_s"]), seconds(row["peer_s"]), share)
    hint = ""
    if row["first_s"] > SLOW_START:
        hint = f"  (the first call took {row['first_s']:.1f} s)"
    note = f"  ({row['note']})" if row["note"] else ""
    return f"{_columns(*cells, seconds(row['first_s']))}  {row['case']}{hint}{note}"


def _columns(*cells: str) -> str:
    return " ".join(cell.rjust(8) for cell in cells)


def quantile_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the quantiles of the ratios, of all cases and of each family."""
    names = ("cases", *QUANTILES)
    lines = ["family".ljust(16) + "".join(name.rjust(8) for name in names)]
    for family, found in by_family(rows).items():
        cells = [str(found["cases"])] + [f"{found[q]:.2f}" for q in QUANTILES if q in found]
        lines.append(family.ljust(16) + "".join(cell.rjust(8) for cell in cells))
    return lines


def counted(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows whose launches were counted, with the ratios without them."""
    return [row for row in map(without_launches, rows) if row is not None]


def bounds(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return those rows with the ratios that the peer's kernels would have."""
    return [row for row in map(with_equal_kernels, rows) if row is not None]


def worst_lines(rows: Sequence[Mapping[str, Any]], repeat: str) -> list[str]:
    """Return the slowest cases beside the peer, each with the command that repeats it."""
    measured = sorted((r for r in rows if r["ratio"] is not None), key=lambda r: r["ratio"])
    return [
        f"{row['ratio']:.2f} ({seconds(row['ours_s'])} beside {seconds(row['peer_s'])}): "
        f"{repeat} --repeat '{row['case']}'"
        for row in measured[:WORST]
    ]


def write(path: Path, found: Mapping[str, Any], setting: Mapping[str, Any]) -> None:
    """Write what was found until now, and the setting."""
    document = {**setting, "quantiles": by_family(found["rows"]), **found}
    if of_kernels := counted(found["rows"]):
        document["quantiles_without_launches"] = by_family(of_kernels)
        document["quantiles_with_equal_kernels"] = by_family(bounds(found["rows"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
