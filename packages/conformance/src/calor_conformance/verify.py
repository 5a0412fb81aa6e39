"""Whether a report says what it claims: nothing removed or overridden, verdicts that follow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calor.errors import FormatError

from . import suite
from .identity import protocol_digest
from .outcomes import OUTCOMES
from .report import FORMAT, digest, verdicts
from .selection import PROFILES

FIELDS = {
    "format": int, "date": str, "command": str, "seed": int, "suite": dict, "protocol": str,
    "environment": dict, "wheels": dict, "device": dict, "profile": str, "whole": bool,
    "results": list, "tiers": dict, "digest": str,
}  # fmt: skip


def read(path: Path) -> dict[str, Any]:
    """Return a report from a file; FormatError when it is none."""
    try:
        report = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} is no report: {error}") from error
    wrong = [f for f, kind in FIELDS.items() if not isinstance(_get(report, f), kind)]
    if wrong:
        raise FormatError(f"{path} is no report: it lacks {', '.join(wrong)}")
    if report["format"] != FORMAT:
        raise FormatError(
            f"{path} has format {report['format']}, this suite reads {FORMAT}; install the "
            f"calor-conformance that wrote it"
        )
    if report["profile"] not in PROFILES:
        raise FormatError(f"{path} has an unknown profile {report['profile']!r}")
    return dict(report)


def _get(report: Any, field: str) -> Any:
    return report.get(field) if isinstance(report, dict) else None


def problems(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a report; nothing when it can be believed as far as it goes."""
    if digest(report) != report["digest"]:
        yield "it was changed after it was written: its digest is another"
    if report["suite"].get("digest") != suite.digest():
        yield (
            "it is of another suite than the one installed here; install the version of "
            "calor-conformance that it names, or run it again"
        )
    if report["protocol"] != protocol_digest():
        yield "it is of another version of the backend protocol or of the op table"
    yield from _rows(report)
    if verdicts(report) != report["tiers"]:
        yield "its verdicts do not follow from its results"


def _rows(report: Mapping[str, Any]) -> Iterator[str]:
    known = suite.checks()
    profile = PROFILES[report["profile"]]
    rows = {r.get("name"): r for r in report["results"]}
    if len(rows) != len(report["results"]):
        yield "a check is there twice"
    unknown = [str(n) for n in rows if n not in known]
    if unknown:
        yield f"{len(unknown)} checks are not of this suite, such as {unknown[0]}"
    other = [n for n, r in rows.items() if n in known and r.get("digest") != known[n].digest]
    if other:
        yield f"{len(other)} checks were overridden, such as {other[0]}"
    moved = [n for n, r in rows.items() if n in known and r.get("tier") != known[n].tier]
    if moved:
        yield f"{len(moved)} checks are in another tier, such as {moved[0]}"
    bad = [str(n) for n, r in rows.items() if r.get("outcome") not in OUTCOMES]
    if bad:
        yield f"{len(bad)} checks have no outcome, such as {bad[0]}"
    freed = [n for n, r in rows.items() if n in known
             and r.get("provisional", "") != known[n].provisional]  # fmt: skip
    if freed:
        yield f"{len(freed)} checks are called provisional and are not, such as {freed[0]}"
    tiers = report["tiers"]
    missing = [
        n for n, c in known.items() if c.tier in tiers and profile.wants(c) and n not in rows
    ]
    if report["whole"] and missing:
        yield f"{len(missing)} checks were removed, such as {missing[0]}"


def claim(report: Mapping[str, Any]) -> str:
    """Return in one sentence what a report without problems shows."""
    name = report["device"]["name"]
    passed = [tier for tier, v in report["tiers"].items() if v["verdict"] == "passed"]
    failed = [tier for tier, v in report["tiers"].items() if v["verdict"] != "passed"]
    if not report["whole"]:
        return f"{name}: a part of profile {report['profile']} was run; this is no claim"
    text = f"{name} conforms to profile {report['profile']} in {', '.join(passed) or 'no tier'}"
    return text + (f"; not in {', '.join(failed)}" if failed else "")
