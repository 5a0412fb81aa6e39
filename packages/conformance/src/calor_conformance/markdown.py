"""The report as a page for publication."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .outcomes import OUTCOMES

# Number of failures shown on a page; the data has all.
SHOWN = 20


def page(report: Mapping[str, Any]) -> str:
    """Return a report as Markdown.

    Parameters
    ----------
    report : mapping
        A report, as :func:`calor_conformance.report.build` returns it.

    Returns
    -------
    str
        The page. It shows a limited number of failures; the data has all.
    """
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    device = report["device"]
    yield f"# Conformance of {device['name']}"
    yield ""
    yield f"{device['description']}; brought by {device['distribution']}."
    yield ""
    whole = "the whole profile" if report["whole"] else "a part of the profile, which is no claim"
    yield f"Profile `{report['profile']}`, {whole}; {report['date']}, {report['seconds']} s."
    yield ""
    yield from _tiers(report["tiers"])
    yield from _matrix(report)
    yield from _failures(report["results"])
    yield from _skipped(report["results"])
    yield from _device(device)
    yield from _identity(report)


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield "| " + " | ".join(header) + " |"
    yield "| " + " | ".join("---" for _ in header) + " |"
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
    yield ""


def _tiers(tiers: Mapping[str, Any]) -> Iterator[str]:
    header = ["tier", "verdict", *(o.replace("_", " ") for o in OUTCOMES), "provisional"]
    rows = []
    for name, tier in tiers.items():
        counts = tier["counts"]
        numbers = [counts.get(o, 0) for o in OUTCOMES]
        provisional = ", ".join(f"{n} {o}" for o, n in tier["provisional"].items()) or "none"
        verdict = tier["verdict"] + "".join(f"; {why}" for why in tier["why"])
        rows.append([name, verdict, *numbers, provisional])
    yield from table(header, rows)


def _matrix(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of ops by dtype: passed checks of values, and their number."""
    cells: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in report["results"]:
        kind, subject, *rest = row["name"].split("/")
        if kind in ("values", "special") and rest:
            op = subject if kind == "special" else subject.partition("-")[0]
            cells[op][rest[-1]].append(row["outcome"])
    dtypes = [d for d in report["device"]["dtypes"] if any(d in row for row in cells.values())]
    if not dtypes:
        return
    yield "## Ops and dtypes"
    yield ""
    yield "Each cell: ✓ all checks passed, ✗ some failed, – impossible, · not yet; empty: no row."
    yield ""
    rows = [
        [f"`{op}`", *(_cell(row.get(d, [])) for d in dtypes)] for op, row in sorted(cells.items())
    ]
    yield from table(["op", *dtypes], rows)


def _cell(outcomes: Sequence[str]) -> str:
    if not outcomes:
        return ""
    for outcome, sign in (("failed", "✗"), ("passed", "✓"), ("impossible", "–")):
        if outcome in outcomes:
            return sign
    return "·"


def _failures(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    failed = [r for r in rows if r["outcome"] == "failed"]
    if not failed:
        return
    yield "## Failures"
    yield ""
    for row in failed[:SHOWN]:
        yield f"### {row['name']}"
        yield ""
        yield "```text"
        yield row.get("detail", "").replace("```", "'''")
        yield "```"
        yield ""
    if len(failed) > SHOWN:
        yield f"And {len(failed) - SHOWN} more: " + ", ".join(r["name"] for r in failed[SHOWN:])
        yield ""


def _skipped(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        if row["outcome"] in ("impossible", "not_yet"):
            counts[row["outcome"], row.get("detail", "")] += 1
    if not counts:
        return
    yield "## What was not asked"
    yield ""
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    yield from table(
        ["state", "reason", "checks"],
        [[state.replace("_", " "), reason, n] for (state, reason), n in ordered],
    )


def _device(device: Mapping[str, Any]) -> Iterator[str]:
    yield "## What the device declares"
    yield ""
    rows = [["dtype", n, s] for n, s in device["dtypes"].items()]
    rows += [["feature", n, s] for n, s in device["features"].items()]
    rows += [["op", n, s] for n, s in device["ops"].items()]
    rows += [["limit", n, s] for n, s in device["limits"].items()]
    yield from table(["kind", "name", "state"], rows)


def _identity(report: Mapping[str, Any]) -> Iterator[str]:
    yield "## What this is a report of"
    yield ""
    rows = [
        ["suite", report["suite"]["digest"]],
        ["protocol", report["protocol"]],
        ["report", report["digest"]],
        ["seed", report["seed"]],
        ["command", f"`{report['command']}`"],
    ]
    rows += [[name, value] for name, value in report["environment"].items()]
    rows += [[n, f"{w['version']} {w['digest']}".strip()] for n, w in report["wheels"].items()]
    yield from table(["what", "which"], rows)
