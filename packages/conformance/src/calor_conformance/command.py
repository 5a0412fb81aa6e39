"""The command line: run the suite on a device, verify or merge reports, test the suite itself."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calor.errors import CalorError
from calor.plugins.discovery import get_device

from . import markdown, parallel, report, running, suite, verify
from .checks.base import TIERS
from .collecting import quick_collections
from .outcomes import Result
from .selection import PROFILES, Selection, selection


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of ``calor-conformance``.

    Parameters
    ----------
    arguments : sequence of str, default None
        The command line without the program's name. None takes it from ``sys.argv``.

    Returns
    -------
    int
        The exit status. 0: every tier of the run passed, or the report is valid. 1: it did not, or
        is not. 2: the command could not run.

    Examples
    --------
    >>> from calor_conformance.command import main
    >>> main(["--device", "numpy", "--only", "values/add/float32", "--list"])
    values/add/float32
    0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["verify"]:
            return _verify(given[1:])
        if given[:1] == ["merge"]:
            return _merge(given[1:])
        if given[:1] == ["self-test"]:
            return _self_test(given[1:])
        return _run(given)
    except CalorError as error:
        print(f"calor-conformance: {error}", file=sys.stderr)
        return 2


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that select checks.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser to extend.
    """
    add = parser.add_argument
    add("--profile", default="complete",
        help=f"one of {', '.join(PROFILES)} (default: complete)")  # fmt: skip
    add("--tier", action="append", default=[],
        help=f"only checks of this tier: {', '.join(TIERS)}; may be repeated")  # fmt: skip
    add("--op", action="append", default=[], help="only checks of this op; may be repeated")
    add("--dtype", action="append", default=[], help="only checks in this dtype; may be repeated")
    add("--kind", action="append", default=[], help="only this kind of check; may be repeated")
    add("--only", action="append", default=[], metavar="PATTERN",
        help="only checks with a name such as 'values/add*'; may be repeated")  # fmt: skip
    add("--shard", default="1/1", metavar="N/OF", help="one part of the run, such as 2/5")


def selected(options: argparse.Namespace) -> Selection:
    """Return the selection for parsed options.

    Parameters
    ----------
    options : argparse.Namespace
        Values of the options of :func:`add_selection`.

    Returns
    -------
    Selection
        The selection.

    Raises
    ------
    ArgumentError
        If a profile, tier, op, kind or shard does not exist.
    DTypeError
        If a dtype does not exist.
    """
    known = suite.checks().values()
    return selection(
        profile=options.profile,
        tiers=options.tier,
        ops=options.op,
        dtypes=options.dtype,
        kinds=options.kind,
        patterns=options.only,
        shard=options.shard,
        known_ops={c.op for c in known if c.op},
        known_kinds={c.kind for c in known},
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="calor-conformance",
        description="Test what a device of calor can do.",
        epilog="Also: calor-conformance verify REPORT...; calor-conformance merge REPORT...; "
        "calor-conformance self-test",
    )
    add = parser.add_argument
    add("--device", required=True, help="name of the device, such as numpy or acme:1")
    add_selection(parser)
    add("--json", type=Path, metavar="FILE", help="write the report as data")
    add("--markdown", type=Path, metavar="FILE", help="write the report as a page")
    add("--seed", type=int, help="seed of the operands (default: 0; of --deep: a new one)")
    add("--deep", type=float, metavar="SECONDS",
        help="instead draw new cases of every kind for so long")  # fmt: skip
    add("--timeout", type=float, default=300.0, metavar="SECONDS",
        help="a check that takes longer hangs, which is a failure; 0 for no limit "
        "(default: %(default)s)")  # fmt: skip
    add("--pack", type=int, default=running.PACK,
        help="number of rows that share one graph, 1 for none (default: %(default)s)")  # fmt: skip
    add("--budget", type=float, metavar="SECONDS", help="start no check after this time")
    add("--resume", type=Path, metavar="LOG", help="store results in a file, and resume from it")
    add("--jobs", type=int, default=1, help="number of processes (default: %(default)s)")
    add("--strict", action="store_true", help="check every call against the backend protocol")
    add("--list", action="store_true", help="print the names of the checks and run none")
    add("--begun", type=Path, help=argparse.SUPPRESS)  # Of the processes of a run.
    add("--quiet", action="store_true", help="print the verdicts only")
    return parser


def _run(given: Sequence[str]) -> int:
    options = _parser().parse_args(given)
    chosen = selected(options)
    asked = chosen.of(suite.checks().values())
    if options.list:
        print("\n".join(c.name for c in asked))
        return 0
    start = time.monotonic()
    if options.deep is not None:
        return _deep(options, chosen)
    options.seed = options.seed or 0
    if options.jobs > 1:
        made = parallel.run(_shared(given), options.jobs, chosen.shard, options.resume)
        made["seconds"] = round(time.monotonic() - start, 1)
        made["command"] = _command(given)
        made["digest"] = report.digest(made)
    else:
        device = get_device(options.device)
        how = running.Options(
            options.seed, options.pack, options.budget, options.resume, options.strict,
            options.timeout or None, options.begun,
        )  # fmt: skip
        progress = _Progress(len(asked), options.quiet)
        results: list[Result] = []

        def built() -> dict[str, Any]:
            return report.build(
                device, chosen, results, seed=options.seed, command=_command(given),
                seconds=time.monotonic() - start,
                published=options.json is not None or options.markdown is not None,
            )  # fmt: skip

        def stuck(result: Result) -> None:
            there = {r.name for r in results} | {result.name}
            why = f"the run ended at {result.name}, which hangs"
            results.append(result)
            results.extend(Result(c.name, "not_run", why) for c in asked if c.name not in there)
            progress.end()
            _finish(built(), options)
            sys.stdout.flush()

        with quick_collections():
            for result in running.run(device, asked, how, progress, stuck):
                results.append(result)
        progress.end()
        made = built()
    return _finish(made, options)


def _deep(options: argparse.Namespace, chosen: Selection) -> int:
    from . import deep

    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
    print(f"deep search of {options.device} for {options.deep:g} s, seed {seed}", flush=True)
    start = time.monotonic()

    def tell(result: Result) -> None:
        print(f"\nFAILED {result.name}\n{result.detail}", flush=True)

    with quick_collections():
        found = deep.search(
            get_device(options.device), options.deep, seed, chosen=chosen, strict=options.strict,
            timeout=options.timeout or None, tell=tell,
        )  # fmt: skip
    print(deep.told(found, time.monotonic() - start, seed))
    if options.json is not None:
        rows = [asdict(result) for result in found]
        text = json.dumps({"device": options.device, "seed": seed, "deep": rows}, indent=1)
        options.json.write_text(text + "\n", "utf-8")
    return 1 if any(r.outcome == "failed" for r in found) else 0


def _finish(made: dict[str, Any], options: argparse.Namespace) -> int:
    if options.json is not None:
        options.json.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    if options.markdown is not None:
        options.markdown.write_text(markdown.page(made), "utf-8")
    failures = [r for r in made["results"] if r["outcome"] == "failed"]
    if not options.quiet:
        for row in failures[: markdown.SHOWN]:
            print(f"\nFAILED {row['name']}\n{row.get('detail', '')}")
    for tier, verdict in made["tiers"].items():
        counts = ", ".join(f"{n} {o.replace('_', ' ')}" for o, n in verdict["counts"].items())
        why = "".join(f"; {w}" for w in verdict["why"])
        print(f"{tier}: {verdict['verdict']} ({counts}){why}")
    return 0 if report.passed(made) else 1


def _command(given: Sequence[str]) -> str:
    return shlex.join(["calor-conformance", *given])


def _shared(given: Sequence[str]) -> list[str]:
    """Return the arguments without those of the whole run only."""
    kept: list[str] = []
    skip = False
    for text in given:
        name = text.partition("=")[0]
        if skip or name in ("--jobs", "--json", "--markdown", "--shard"):
            skip = not skip and "=" not in text
            continue
        kept.append(text)
    return kept


class _Progress:
    """A counter on a terminal; it prints nothing if the output is not a terminal."""

    def __init__(self, total: int, quiet: bool) -> None:
        self.total, self.done = total, 0
        self.counts: Counter[str] = Counter()
        self.shown = sys.stderr.isatty() and not quiet
        self.next = 0.0

    def __call__(self, result: Result) -> None:
        self.done += 1
        self.counts[result.outcome] += 1
        if self.shown and time.monotonic() > self.next:
            self.next = time.monotonic() + 0.2
            told = ", ".join(f"{n} {o.replace('_', ' ')}" for o, n in self.counts.items())
            print(f"\r{self.done}/{self.total}: {told} ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _verify(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="calor-conformance verify")
    parser.add_argument("reports", type=Path, nargs="+", help="reports written by --json")
    status = 0
    for path in parser.parse_args(given).reports:
        there = verify.read(path)
        found = list(verify.problems(there))
        for problem in found:
            print(f"{path}: {problem}")
            status = 1
        if not found:
            print(verify.claim(there))
    return status


def _merge(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="calor-conformance merge")
    parser.add_argument("reports", type=Path, nargs="+", help="reports of the shards of one run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as data")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report as a page")
    parser.add_argument("--quiet", action="store_true", help="print the verdicts only")
    options = parser.parse_args(given)
    return _finish(report.merge([verify.read(path) for path in options.reports]), options)


def _self_test(given: Sequence[str]) -> int:
    from . import self_test

    parser = argparse.ArgumentParser(
        prog="calor-conformance self-test",
        description="Run the suite on backends that are broken on purpose; it must catch each.",
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="number of seeds to try")
    found = []
    for finding in self_test.findings(parser.parse_args(given).seeds):
        print(self_test.line(finding), flush=True)
        found.append(finding)
    missed = sum(bool(finding.unmet) for finding in found)
    print(f"{len(found)} broken backends: {len(found) - missed} caught, {missed} not")
    return 1 if missed else 0
