"""The result files under `benchmarks/results/`, and what all their tables need: units and settings.

A file is named `NAME-DATE.json`. Tables read the newest file of a name.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
# Packages that decide how fast a peer is; the others of a result file are calor's own.
NAMED_VERSIONS = ("python", "torch", "jax", "onnxruntime")
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Ratio:
    """One measured case: the two times in seconds, and the peer's time over calor's."""

    case: str
    peer: str
    ours: float
    theirs: float
    ratio: float


def newest(name: str, folder: Path = RESULTS) -> Result:
    """The newest result of a name; FileNotFoundError when there is none."""
    dated = re.compile(re.escape(name) + r"-\d{4}-\d\d-\d\d\.json")
    found = sorted(path for path in folder.glob("*.json") if dated.fullmatch(path.name))
    if not found:
        raise FileNotFoundError(f"no result {name}-DATE.json in {folder}")
    result: Result = json.loads(found[-1].read_text("utf-8"))
    return result


def names_of(start: str, folder: Path = RESULTS) -> list[str]:
    """The names of results that begin so, without their dates."""
    dated = re.compile(rf"({re.escape(start)}.*)-\d{{4}}-\d\d-\d\d\.json")
    found = (dated.fullmatch(path.name) for path in folder.glob("*.json"))
    return sorted({match[1] for match in found if match})


def latest(start: str, folder: Path = RESULTS) -> list[str]:
    """The names of results that begin so, of each setting those of its newest date.

    Names of one setting differ by the seed alone.
    """
    dated = re.compile(rf"({re.escape(start)}.*)-(\d{{4}}-\d\d-\d\d)\.json")
    found = [match for path in folder.glob("*.json") if (match := dated.fullmatch(path.name))]
    newest_of: dict[str, str] = {}
    for name, date in (match.groups() for match in found):
        setting = re.sub(r"-seed-\d+", "", name)
        newest_of[setting] = max(date, newest_of.get(setting, ""))
    return sorted(
        name
        for name, date in (match.groups() for match in found)
        if newest_of[re.sub(r"-seed-\d+", "", name)] == date
    )


def ratios(result: Result, peer: str | None = None) -> list[Ratio]:
    """The cases of a result that a peer ran too; of one peer if it is given."""
    return [
        Ratio(r["case"], r["peer"], r["ours_s"], r["peer_s"], r["ratio"])
        for r in result["rows"]
        if r["peer_s"] is not None and peer in (None, r["peer"])
    ]


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def duration(seconds: float) -> str:
    """A time with three digits in the unit that fits it."""
    scale, unit = next((u for u in UNITS if seconds >= u[0]), UNITS[-1])
    return f"{digits(seconds / scale)} {unit}"


def digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    places = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, places):,.{max(places, 0)}f}"


def setting(result: Result) -> Iterator[str]:
    """The lines that say on what, when and by which command a result was measured."""
    where = [str(result.get("description", result.get("device", "")))]
    if "cpu" in result and not where[0].startswith(result["cpu"]):
        where.append(f"host {result['cpu']}")
    if "cores" in result:
        where.append(f"{result['cores']} cores")
    if result.get("threads"):
        where.append(f"{result['threads']} thread{'s' * (result['threads'] > 1)}")
    versions = {
        **result.get("versions", {}),
        **{k: result[k] for k in NAMED_VERSIONS if k in result},
    }
    software = [f"{name} {versions[name]}" for name in NAMED_VERSIONS if name in versions]
    yield f"Measured {result['date'][:10]}: {', '.join(where)}; {', '.join(software)}."
    yield ""
    yield "```text"
    yield str(result["command"])
    yield "```"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int = 1
) -> Iterator[str]:
    """A Markdown table whose columns from `numbers_from` on are aligned to the right."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "".join(" --- |" if i < numbers_from else " ---: |" for i in range(len(head)))
    for row in rows:
        yield f"| {' | '.join(row)} |"
