"""The report that a vendor publishes, as data and as a page.

Requirements: a report has an outcome for each check of its profile; nothing is missing silently. A
verdict follows from the counts by rules that ``verify`` applies again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from calor.backends.device import Device

from . import suite
from .checks.base import TIERS, Check
from .identity import device_identity, environment, protocol_digest, wheels
from .outcomes import OUTCOMES, Result
from .selection import PROFILES, Selection

FORMAT = 1
# The part of a device's name that says which server lends it.
_ADDRESS = re.compile(r"(?<=://)[^/\s,;]+")


def build(
    device: Device,
    selection: Selection,
    results: Iterable[Result],
    *,
    seed: int = 0,
    command: str = "",
    seconds: float = 0.0,
    published: bool = True,
) -> dict[str, Any]:
    """Return the report of a run.

    Parameters
    ----------
    device : Device
        The device.
    selection : Selection
        The selected checks.
    results : iterable of Result
        Their outcomes.
    seed : int, default 0
        Seed of the run.
    command : str, default ""
        Command that repeats the run.
    seconds : float, default 0.0
        Duration in seconds.
    published : bool, default True
        Whether the report has its identity: the digests of checks, suite, protocol and packages,
        which take longer than everything else in it.

    Returns
    -------
    dict
        The report as plain data for JSON; without identity the outcomes and verdicts alone.
    """
    if not published:
        found = {"profile": selection.profile, "results": rows(results, digests=False)}
        return {**found, "tiers": verdicts(found)}
    made: dict[str, Any] = {
        "format": FORMAT,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": command,
        "seed": seed,
        "seconds": round(seconds, 1),
        "suite": {"digest": suite.digest(), "checks": len(suite.checks())},
        "protocol": protocol_digest(),
        "environment": dict(environment()),
        "wheels": wheels(),
        "device": device_identity(device),
        "profile": selection.profile,
        "whole": selection.whole and selection.shard == (1, 1),
        "results": rows(results),
    }
    made["tiers"] = verdicts(made)
    made["digest"] = digest(made)
    return made


def rows(results: Iterable[Result], *, digests: bool = True) -> list[dict[str, Any]]:
    """Return results in the form of a report, ordered by name."""
    known = suite.checks()
    ordered = sorted(results, key=lambda r: r.name)
    return [_row(known[r.name], r, digests=digests) for r in ordered]


def _row(check: Check, result: Result, *, digests: bool) -> dict[str, Any]:
    row = {
        "name": check.name,
        "tier": check.tier,
        **({"digest": check.digest} if digests else {}),
        "outcome": result.outcome,
        "seconds": round(result.seconds, 4),
    }
    if result.detail:
        row["detail"] = result.detail
    if check.provisional:
        row["provisional"] = check.provisional
    return row


def digest(report: Mapping[str, Any]) -> str:
    """Return the digest of a report without its own digest."""
    rest = {key: value for key, value in report.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def verdicts(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict and the counts of each tier.

    Parameters
    ----------
    report : mapping
        A report with `profile` and `results`.

    Returns
    -------
    dict
        For each tier its verdict, the reasons of a failure, and the counts of outcomes.
    """
    profile = PROFILES[report["profile"]]
    made: dict[str, Any] = {}
    for tier in TIERS:
        rows = [r for r in report["results"] if r["tier"] == tier]
        if not rows:
            continue
        expected = {c.name for c in suite.checks().values() if c.tier == tier and profile.wants(c)}
        why = _against(rows, expected)
        if tier == "basic":
            why += _lacking(report["results"], profile.required)
        made[tier] = {
            "verdict": "failed" if why else "passed",
            "why": why,
            "counts": _counts(r for r in rows if not r.get("provisional")),
            "provisional": _counts(r for r in rows if r.get("provisional")),
        }
    return made


def _counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    counts = Counter(r["outcome"] for r in rows)
    return {o: counts[o] for o in OUTCOMES if counts[o]}


def _against(rows: Sequence[Mapping[str, Any]], expected: set[str]) -> list[str]:
    """Return the reasons why a tier fails: failures and checks that did not run."""
    deciding = [r for r in rows if not r.get("provisional")]
    failed = sum(r["outcome"] == "failed" for r in deciding)
    unasked = sum(r["outcome"] == "not_run" for r in deciding)
    unasked += len(expected - {r["name"] for r in rows})
    why = [f"{failed} checks failed"] if failed else []
    why += [f"{unasked} checks were not run"] if unasked else []
    none = not any(r["outcome"] == "passed" for r in deciding)
    return [*why, "no check passed"] if none else why


def _lacking(rows: Sequence[Mapping[str, Any]], required: Sequence[str]) -> list[str]:
    """Return a reason for each required op that passed in no dtype."""
    known = suite.checks()
    there = {known[r["name"]].op for r in rows if r["outcome"] == "passed" and r["name"] in known
             and known[r["name"]].kind == "values"}  # fmt: skip
    asked = {known[r["name"]].op for r in rows if r["name"] in known}
    return [f"the required op {op} passed in no dtype" for op in required
            if op not in there and op in asked]  # fmt: skip


def passed(report: Mapping[str, Any]) -> bool:
    """Return whether every tier of a report passed."""
    return all(t["verdict"] == "passed" for t in report["tiers"].values()) and bool(report["tiers"])


def merge(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the reports of several shards of one run.

    Servers at several addresses may have had a part each, if their devices have the same name,
    description, release and declarations: as with shards of several machines, what is claimed is
    claimed of each of them. The report then has all names, and one without an address.

    Parameters
    ----------
    reports : sequence of mapping
        The reports, at least one.

    Returns
    -------
    dict
        The merged report.

    Raises
    ------
    FormatError
        If the reports belong to different runs.
    """
    from calor.errors import FormatError

    first = reports[0]
    for other in reports[1:]:
        for key in ("format", "suite", "protocol", "device", "profile", "seed"):
            if _anywhere(other[key]) != _anywhere(first[key]):
                raise FormatError(
                    f"the reports belong to different runs: their {key} differs; merge the shards "
                    f"of one run"
                )
    rows = {r["name"]: r for report in reports for r in report["results"]}
    made = {**first, "results": [rows[name] for name in sorted(rows)]}
    made["device"] = _joined([report["device"] for report in reports])
    made["command"] = "; ".join(dict.fromkeys(str(r["command"]) for r in reports))
    made["seconds"] = round(sum(float(r["seconds"]) for r in reports), 1)
    profile = PROFILES[str(made["profile"])]
    made["tiers"] = tiers = verdicts(made)
    wanted = {c.name for c in suite.checks().values() if c.tier in tiers and profile.wants(c)}
    made["whole"] = wanted <= set(rows)
    made["digest"] = digest(made)
    return made


def _anywhere(found: Any) -> Any:
    """Return the identity of a device without addresses; anything else as it is."""
    if not isinstance(found, Mapping) or "name" not in found:
        return found
    texts = {key: _ADDRESS.sub("*", str(found[key])) for key in ("name", "description")}
    return {**{k: v for k, v in found.items() if k != "names"}, **texts}


def _joined(devices: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the identity of devices that differ in their addresses alone."""
    names = sorted({name for d in devices for name in d.get("names", [d["name"]])})
    return devices[0] if len(names) == 1 else {**_anywhere(devices[0]), "names": names}
