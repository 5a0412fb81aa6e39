"""The pytest plugin: ``pytest --conformance-device NAME`` adds the suite to a device's tests.

Requirements: its import costs nothing, because pytest loads it wherever it is installed. Each check
is a test. A missing check is a failure, unless the command line selects a part. A tier passes
exactly if a report calls it passed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .checks.base import Check
    from .outcomes import Result

GROUP = "calor conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup(GROUP)
    add = group.addoption
    add("--conformance-device", metavar="NAME", help="run the conformance suite on this device")
    add("--conformance-profile", metavar="NAME", default="complete",
        help="the profile that the device promises (default: complete)")  # fmt: skip
    add("--conformance-tier", action="append", default=[], metavar="TIER",
        help="only checks of this tier; may be repeated")  # fmt: skip
    add("--conformance-op", action="append", default=[], metavar="OP",
        help="only checks of this op; may be repeated")  # fmt: skip
    add("--conformance-only", action="append", default=[], metavar="PATTERN",
        help="only checks with a matching name; may be repeated")  # fmt: skip
    add("--conformance-seed", type=int, default=0, metavar="N", help="seed of the operands")
    add("--conformance-json", type=Path, metavar="FILE", help="write the report as data")


def _selected(config: pytest.Config) -> Any:
    from .command import selected

    option = config.getoption
    return selected(
        argparse.Namespace(
            profile=option("--conformance-profile"),
            tier=option("--conformance-tier"),
            op=option("--conformance-op"),
            dtype=[],
            kind=[],
            only=option("--conformance-only"),
            shard="1/1",
        )
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Register the run, so that the suite joins the collected tests."""
    name = session.config.getoption("--conformance-device")
    if not name:
        return
    from calor.errors import CalorError

    try:
        run = _Suite(session.config, name)
    except CalorError as error:
        raise pytest.UsageError(str(error)) from error
    session.config.pluginmanager.register(run, "calor-conformance-run")


class _Suite:
    """The run of one pytest session."""

    def __init__(self, config: pytest.Config, name: str) -> None:
        from calor.plugins.discovery import get_device

        from .checks.base import Place

        self.config = config
        device = get_device(name)
        self.place = Place(device, device, config.getoption("--conformance-seed"))
        self.selection = _selected(config)
        self.results: list[Result] = []
        self.expected: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[Any]) -> None:
        """Add a test for each check, one that counts them, and a verdict for each tier."""
        from . import suite

        collector = _Collector.from_parent(session, name=f"conformance[{self.place.plain.name}]")
        made = list(collector.tests(self, self.selection.of(suite.checks().values())))
        self.expected = {item.name for item in made}
        items += made
        items.append(_Complete.from_parent(collector, name="nothing-left-out", run=self))
        if self.selection.whole:
            for tier in dict.fromkeys(item.check.tier for item in made):
                name = f"verdict/{tier}"
                items.append(_Verdict.from_parent(collector, name=name, tier=tier, run=self))

    def pytest_sessionfinish(self) -> None:
        """Write the report."""
        path = self.config.getoption("--conformance-json")
        if path is None or not self.results:
            return
        import json

        from . import report

        made = report.build(
            self.place.plain, self.selection, self.results, seed=self.place.seed,
            command="pytest " + " ".join(self.config.invocation_params.args),
        )  # fmt: skip
        path.write_text(json.dumps(made, indent=1) + "\n", "utf-8")


class _Collector(pytest.Collector):
    """The parent node of the checks."""

    def collect(self) -> list[pytest.Item]:
        return []

    def tests(self, run: _Suite, checks: list[Check]) -> Iterator[_Test]:
        """Yield the tests of some checks."""
        for check in checks:
            yield _Test.from_parent(self, name=check.name, check=check, run=run)


class _Test(pytest.Item):
    """One check."""

    def __init__(self, *, check: Check, run: _Suite, **more: Any) -> None:
        super().__init__(**more)
        self.check, self.run_of = check, run

    def runtest(self) -> None:
        from . import outcomes

        result = outcomes.run(self.check, self.run_of.place)
        self.run_of.results.append(result)
        if result.outcome == "failed" and not self.check.provisional:
            raise AssertionError(result.detail)
        if result.outcome == "failed":
            pytest.xfail(f"provisional since {self.check.provisional}: {result.detail}")
        if result.outcome != "passed":
            pytest.skip(f"the device says {result.outcome}: {result.detail}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if excinfo.errisinstance(AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class _Complete(pytest.Item):
    """Fails if a selected check was removed, deselected or overridden."""

    def __init__(self, *, run: _Suite, **more: Any) -> None:
        super().__init__(**more)
        self.run_of = run

    def runtest(self) -> None:
        missing = self.run_of.expected - {r.name for r in self.run_of.results}
        assert not missing, (
            f"{len(missing)} checks of the suite were left out, such as {min(missing)}; declare in "
            "info what the device cannot do, or select a part with --conformance-only"
        )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class _Verdict(pytest.Item):
    """Fails if a report would not call the tier passed."""

    def __init__(self, *, tier: str, run: _Suite, **more: Any) -> None:
        super().__init__(**more)
        self.tier, self.run_of = tier, run

    def runtest(self) -> None:
        from . import report

        asked = {
            "profile": self.run_of.selection.profile,
            "results": report.rows(self.run_of.results),
        }
        verdict = report.verdicts(asked).get(self.tier)
        why = ["no check was run"] if verdict is None else verdict["why"]
        if why:
            # Raised and not asserted, because pytest would show a difference of two words.
            raise AssertionError(f"{self.tier}: {'; '.join(why)}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name
