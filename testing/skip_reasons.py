"""A pytest plugin: a test may be skipped only for a reason that `skips.toml` lists.

A skip is a test that passed nothing, and a growing number of them hides a feature that nobody
checks. So each reason is data, with an explanation beside it, and the run fails on any other. An
expected failure is treated like a skip.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Allowed:
    """One row of the list: a pattern for the whole reason, and why such a skip is right."""

    reason: re.Pattern[str]
    why: str


def read_allowed(path: Path) -> list[Allowed]:
    """The rows of a skips file; raises ValueError for a row without a reason or a why."""
    if not path.exists():
        return []
    rows: list[Mapping[str, Any]] = tomllib.loads(path.read_text("utf-8")).get("skip", [])
    for row in rows:
        if set(row) != {"reason", "why"} or not all(str(text).strip() for text in row.values()):
            raise ValueError(f"{path}: a row needs `reason` and `why`, both written: {dict(row)}")
    return [Allowed(re.compile(row["reason"], re.DOTALL), row["why"]) for row in rows]


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """The reason of a skip or an expected failure, or None for any other report."""
    expected_failure: str | None = getattr(report, "wasxfail", None)
    if expected_failure is not None:
        return expected_failure.removeprefix("reason: ")
    if not report.skipped:
        return None
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)


class SkipReasons:
    """Collects the reasons of a run and turns an unlisted one into a failure."""

    def __init__(self, allowed: list[Allowed], source: Path) -> None:
        self.allowed = allowed
        self.source = source
        self.listed: Counter[str] = Counter()
        self.unlisted: list[tuple[str, str]] = []

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        reason = reason_of(report)
        if reason is None:
            return
        for row in self.allowed:
            if row.reason.fullmatch(reason):
                self.listed[row.why] += 1
                return
        self.unlisted.append((report.nodeid, reason))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.note(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        passed = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self.unlisted and session.exitstatus in passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.listed:
            terminalreporter.section("skips, by listed reason")
            for why, count in self.listed.most_common():
                terminalreporter.line(f"{count:5}  {why}")
        if self.unlisted:
            terminalreporter.section("FAILED: skips for a reason that is not listed", red=True)
            for nodeid, reason in self.unlisted:
                terminalreporter.line(f"{nodeid}: {reason or 'no reason given'}")
            terminalreporter.line(f"Run the test, or add the reason and a why to {self.source}.")


def pytest_configure(config: pytest.Config) -> None:
    source = config.rootpath / "skips.toml"
    config.pluginmanager.register(SkipReasons(read_allowed(source), source), "calor-skip-reasons")
