"""The collected conformance reports: `python tools/conformance_reports.py` writes their page.

`python tools/conformance_reports.py add REPORT.json` verifies a report and adds its summary first.
`python tools/conformance_reports.py check` says whether the page is what the reports make of it.
A whole report says what came of each of twenty thousand checks and has megabytes; the summary keeps
its verdicts, counts, reasons, identity and digest, so that the whole one can be recognised.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calor.errors import CalorError, FormatError
from calor_conformance import verify
from calor_conformance.checks.base import TIERS

sys.path.insert(0, str(Path(__file__).parent))
from dtype_table import by_dtype, dtype_table
from generated_blocks import begin, replaced

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
# The parts of the page that this program writes begin with these comments.
BEGIN = begin("python tools/conformance_reports.py")
BEGIN_TYPES = begin("python tools/conformance_reports.py, types")
# What a summary takes over as it is.
KEPT = (
    "format", "date", "command", "seed", "seconds", "suite", "protocol", "environment", "wheels",
    "device", "profile", "tiers", "digest",
)  # fmt: skip
Report = Mapping[str, Any]


def summary(report: Report, url: str = "") -> dict[str, Any]:
    """A verified report without its passed checks; FormatError when it cannot be believed."""
    problems = list(verify.problems(report))
    if problems:
        raise FormatError(f"the report cannot be believed: {'; '.join(problems)}")
    if not report["whole"]:
        raise FormatError("the report is of a part of its profile, which is no claim")
    rows = report["results"]
    skipped = Counter(
        (row["outcome"], row.get("detail", ""))
        for row in rows
        if row["outcome"] in ("impossible", "not_yet")
    )
    made = {key: report[key] for key in KEPT}
    # Which build of its system a machine runs is nobody's business here.
    system = str(report["environment"]["system"]).partition(" ")[0]
    made["environment"] = {**report["environment"], "system": system}
    made["url"] = url
    made["by_dtype"] = by_dtype(rows)
    made["failed"] = [row["name"] for row in rows if row["outcome"] == "failed"]
    made["skipped"] = [
        {"state": state, "reason": reason, "checks": n}
        for (state, reason), n in sorted(skipped.items(), key=lambda item: (-item[1], item[0]))
    ]
    return made


def add(path: Path, url: str, folder: Path) -> Path:
    """Verify a report and write its summary; the older one of the same device and profile goes."""
    made = summary(verify.read(path), url)
    kind = made["device"]["name"].partition(":")[0]
    target = folder / f"{kind}-{made['profile']}.json"
    folder.mkdir(exist_ok=True)
    target.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8", newline="\n")
    return target


def markdown(folder: Path) -> str:
    """The table of all summaries, and a section for each."""
    found = {
        path.name: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))
    }
    lines = [*table(found.values())]
    for name, report in found.items():
        lines += ["", *section(name, report)]
    return "\n".join(lines)


def types(folder: Path, results: Path) -> str:
    """The table of dtypes: of the summaries, and of the runs that are kept as results."""
    paths = [*sorted(folder.glob("*.json")), *sorted(results.glob("conformance-*.json"))]
    return "\n".join(dtype_table([json.loads(path.read_text("utf-8")) for path in paths]))


def written(text: str) -> str:
    """The page with its tables made anew."""
    made = {BEGIN_TYPES: types(DOCS / "reports", RESULTS), BEGIN: markdown(DOCS / "reports")}
    return replaced(text, made)


def table(reports: Iterable[Report]) -> Iterator[str]:
    yield "| device | brought by | profile | " + " | ".join(TIERS) + " | date |"
    yield "| --- " * (len(TIERS) + 4) + "|"
    for report in reports:
        device = report["device"]
        cells = [f"`{device['name']}`", device["distribution"], f"`{report['profile']}`"]
        cells += [verdict(report["tiers"].get(tier)) for tier in TIERS]
        yield "| " + " | ".join([*cells, report["date"][:10]]) + " |"


def verdict(tier: Report | None) -> str:
    """A tier's verdict and counts in few words."""
    if tier is None:
        return "not run"
    return f"{tier['verdict']}: {counted(tier['counts'])}"


def counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {outcome.replace('_', ' ')}" for outcome, n in counts.items())


def section(name: str, report: Report) -> Iterator[str]:
    device, environment = report["device"], report["environment"]
    yield f"### {device['name']}, profile {report['profile']}"
    yield ""
    yield f"{device['description']}."
    yield ""
    yield from bullets(
        {
            "whole report": f"<{report['url']}>" if report["url"] else "run the command",
            "command": f"`{report['command']}`",
            "calor": f"{environment['calor']}, Python {environment['python']}, "
            f"{environment['system']} on {environment['machine']}",
            "seed and time": f"{report['seed']}; {report['seconds']} s",
            "digest of the report": f"`{report['digest'][:16]}`",
            "digest of the suite": f"`{report['suite']['digest'][:16]}`, "
            f"{report['suite']['checks']:,} checks",
            "failed": str(len(report["failed"])),
            "provisional": provisional(report["tiers"].values()),
            "summary": f"[{name}](reports/{name})",
        }
    )
    if report["skipped"]:
        yield ""
        yield "| state | reason | checks |"
        yield "| --- | --- | --- |"
        for row in report["skipped"][:20]:
            yield f"| {row['state'].replace('_', ' ')} | {row['reason']} | {row['checks']:,} |"


def bullets(facts: Mapping[str, str]) -> Iterator[str]:
    return (f"- {what}: {fact}" for what, fact in facts.items())


def provisional(tiers: Iterable[Report]) -> str:
    counts: Counter[str] = Counter()
    for tier in tiers:
        counts.update(tier["provisional"])
    return counted(counts) or "none"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python tools/conformance_reports.py")
    commands = parser.add_subparsers(dest="command")
    adding = commands.add_parser("add", help="verify a report and add its summary")
    adding.add_argument("report", type=Path)
    adding.add_argument("--url", default="", help="where the whole report is published")
    commands.add_parser("check", help="say whether the page is up to date; 1 if it is not")
    options = parser.parse_args(arguments)
    try:
        if options.command == "add":
            print(add(options.report, options.url, DOCS / "reports"))
    except CalorError as error:
        print(error, file=sys.stderr)
        return 1
    page = DOCS / "conformance-reports.md"
    text = page.read_text("utf-8")
    made = written(text)
    if options.command == "check":
        if made != text:
            print(f"{page.name} is not what the reports say: python {sys.argv[0]}", file=sys.stderr)
        return int(made != text)
    page.write_text(made, "utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
