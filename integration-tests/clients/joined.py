"""A pytest plugin: calor as one more backend of the array-API tests of SciPy and scikit-learn.

Requirements: the suites run as they are installed. SciPy's fixture ``xp`` gets one more parameter
when its conftest is registered, and scikit-learn's generators of namespaces yield one more name. A
report counts each test under the backend that it ran on.

    CALOR_VIEWS=shared CALOR_DEFAULT_DTYPE=float64 python -m pytest -p joined --pyargs scipy.signal

The suites compare with NumPy, whose default dtype is float64 and whose slices share memory.
``--backends calor,array_api_strict`` keeps the tests of these backends alone, and ``--outcomes
FILE`` writes test to outcome.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

NAME = "calor"
PEER = "array_api_strict"
# Device and dtype with which scikit-learn's tests run, as they do on array-api-strict.
COMBINATIONS = ((None, "float64"), (None, "float32"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("clients")
    group.addoption("--backends", default="calor", help="the backends whose tests run")
    group.addoption("--outcomes", help="a file for the outcome of each test")


@pytest.hookimpl(tryfirst=True)
def pytest_plugin_registered(plugin: object) -> None:
    """Give SciPy's fixture of namespaces one more parameter, before it is collected."""
    if getattr(plugin, "__name__", "") == "scipy.conftest":
        join_scipy(plugin)


def join_scipy(conftest: Any) -> None:
    """Make calor a backend that SciPy's conftest knows and runs."""
    import calor

    conftest.xp_known_backends.add(NAME)
    definition = conftest.xp
    marker = definition._fixture_function_marker
    ours = pytest.param(calor, id=NAME, marks=pytest.mark.array_api_backends)
    definition._fixture_function_marker = dataclasses.replace(marker, params=(*marker.params, ours))


def join_scikit_learn() -> None:
    """Make calor a namespace that scikit-learn's tests are generated for."""
    from sklearn.utils import _array_api as tools

    namespaces = tools.yield_namespaces
    combinations = tools.yield_namespace_device_dtype_combinations

    def with_ours(include_numpy_namespaces: bool = True) -> Iterator[str]:
        yield from namespaces(include_numpy_namespaces)
        yield NAME

    def with_our_combinations(include_numpy_namespaces: bool = True) -> Iterator[Any]:
        for name, device, dtype in combinations(include_numpy_namespaces):
            if name != NAME:
                yield name, device, dtype
        for device, dtype in COMBINATIONS:
            yield NAME, device, dtype

    tools.yield_namespaces = with_ours
    tools.yield_namespace_device_dtype_combinations = with_our_combinations


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add calor to a test of scikit-learn that lists the libraries itself."""
    if metafunc.module.__name__.startswith("sklearn."):
        for mark in metafunc.definition.iter_markers("parametrize"):
            if len(mark.args) > 1 and isinstance(mark.args[1], list):
                mark.args[1].extend(in_place_of_the_peer(mark.args[1]))


def in_place_of_the_peer(values: list[Any]) -> list[Any]:
    """Return the parameters that name the peer, with calor in its place; none if calor is there."""
    rows = [value if type(value) is tuple else (value,) for value in values]
    if any(_names(row, NAME) for row in rows):
        return []
    ours = (tuple(NAME if _is(part, PEER) else part for part in r) for r in rows if _names(r, PEER))
    return [row if type(values[0]) is tuple else row[0] for row in ours]


def _names(row: tuple[Any, ...], library: str) -> bool:
    """Return whether a library is among some parameters."""
    return any(_is(part, library) for part in row)


def _is(part: Any, library: str) -> bool:
    """Return whether a parameter is the name of a library; it may be an array."""
    return isinstance(part, str) and part == library


def join_einops() -> None:
    """Make calor a backend of einops's tests, which name the others."""
    import einops.tests as tools

    from calor.einops_backend import CalorBackend

    collect = tools.collect_test_backends

    def with_ours(symbolic: bool = False, layers: bool = False) -> list[Any]:
        ours = [] if symbolic or layers else [CalorBackend()]
        return [*collect(symbolic, layers), *ours]

    tools.collect_test_backends = with_ours


def pytest_configure(config: pytest.Config) -> None:
    """Join scikit-learn and einops before their tests are imported, and collect outcomes."""
    if any("sklearn" in argument for argument in config.args):
        join_scikit_learn()
    if any("einops" in argument for argument in config.args):
        join_einops()
    config.pluginmanager.register(Outcomes(config), "client-outcomes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that run on one of the asked backends."""
    asked = config.getoption("--backends").split(",")
    if "all" in asked:
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (kept if backend_of(item) in asked else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def backend_of(item: pytest.Item) -> str | None:
    """Return the name of the array library that a test was generated for, None if for none."""
    call = getattr(item, "callspec", None)
    parts = call.id.split("-") if call is not None else []
    found = [name for name in (NAME, PEER) if name in parts]
    return found[0] if found else None


class Outcomes:
    """The outcome of each test: that of its call, or of the set-up that ended it."""

    def __init__(self, config: pytest.Config) -> None:
        self.file = config.getoption("--outcomes")
        self.found: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test."""
        if report.when == "call" or report.outcome != "passed":
            outcome = (
                "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
            )
            self.found[report.nodeid] = [outcome, _last_line(report)]

    def pytest_sessionfinish(self) -> None:
        """Write what was found."""
        if self.file:
            with open(self.file, "w", encoding="utf-8") as file:
                json.dump(self.found, file, indent=0)


def _last_line(report: pytest.TestReport) -> str:
    """Return the reason of a failure in a line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr or "")[-300:]
    return f"{crash.path}:{crash.lineno}: {crash.message}"[:400]
