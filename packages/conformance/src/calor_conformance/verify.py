"""Verification of a report: complete, unchanged, with verdicts that follow from its results."""

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
    """Read a report from a file.

    Parameters
    ----------
    path : Path
        A file that ``--json`` wrote.

    Returns
    -------
    dict
        The report.

    Raises
    ------
    FormatError
        If the file is not a report, or one of another format or profile.
    """
    try:
        report = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} is not a report: {error}; write one with --json") from error
    wrong = [f for f, kind in FIELDS.items() if not isinstance(_get(report, f), kind)]
    if wrong:
        raise FormatError(f"{path} is not a report, because it lacks {', '.join(wrong)}")
    if report["format"] != FORMAT:
        raise FormatError(
            f"{path} has format {report['format']}, and this suite reads {FORMAT}; install the "
            f"version of calor-conformance that wrote it"
        )
    if report["profile"] not in PROFILES:
        raise FormatError(
            f"{path} has an unknown profile {report['profile']!r}; install the version of "
            f"calor-conformance that wrote it"
        )
    return dict(report)


def _get(report: Any, field: str) -> Any:
    return report.get(field) if isinstance(report, dict) else None


def problems(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of a report.

    Parameters
    ----------
    report : mapping
        A report, as :func:`read` returns it.

    Yields
    ------
    str
        One problem as a sentence; none for a valid report.
    """
    if digest(report) != report["digest"]:
        yield "it was changed after it was written: its digest does not match; run it again"
    if report["suite"].get("digest") != suite.digest():
        yield (
            "it belongs to another version of the suite; install the version of "
            "calor-conformance that it names, or run it again"
        )
    if report["protocol"] != protocol_digest():
        yield "it belongs to another version of the backend protocol or op table; run it again"
    yield from _rows(report)
    if verdicts(report) != report["tiers"]:
        yield "its verdicts do not follow from its results"


def _rows(report: Mapping[str, Any]) -> Iterator[str]:
    known = suite.checks()
    profile = PROFILES[report["profile"]]
    rows = {r.get("name"): r for r in report["results"]}
    if len(rows) != len(report["results"]):
        yield "it has a check twice"
    unknown = [str(n) for n in rows if n not in known]
    if unknown:
        yield f"it has {len(unknown)} checks that the suite lacks, such as {unknown[0]}"
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
        yield f"{len(freed)} checks are wrongly marked as provisional, such as {freed[0]}"
    tiers = report["tiers"]
    missing = [
        n for n, c in known.items() if c.tier in tiers and profile.wants(c) and n not in rows
    ]
    if report["whole"] and missing:
        yield f"{len(missing)} checks were removed, such as {missing[0]}"


def claim(report: Mapping[str, Any]) -> str:
    """Return the claim of a valid report in one sentence.

    Parameters
    ----------
    report : mapping
        A report without problems.

    Returns
    -------
    str
        The profile and the tiers that the device passed.
    """
    name = report["device"]["name"]
    passed = [tier for tier, v in report["tiers"].items() if v["verdict"] == "passed"]
    failed = [tier for tier, v in report["tiers"].items() if v["verdict"] != "passed"]
    if not report["whole"]:
        return f"{name}: only a part of profile {report['profile']} ran, which is no claim"
    text = f"{name} conforms to profile {report['profile']} in {', '.join(passed) or 'no tier'}"
    return text + (f"; not in {', '.join(failed)}" if failed else "")
