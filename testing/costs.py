"""A pytest plugin: which tests are left to full runs (``--full``), by what they cost.

A run with ``--costs FILE`` leaves out slow tests alone, and appends a line for each test to a file:
the seconds of processor time that it took, in this process and its children, what it covers, and
the lines of the packages that it runs, where Python has ``sys.monitoring`` (3.12).
``tools/choose_tests.py`` picks from these lines the costly tests that cover nothing that the others
do not, and stores them in ``testing/left_to_full_runs.json``. A run without ``--full`` leaves out
what is stored there. Slow tests are not measured: other tests cannot rely on what they cover.

A stored test is known by its name and parameters, not by its file, so that it is found where files
are moved; by its file and folders too where another test has the name and the same parameters.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import pytest

from lines_run import LinesRun

STORED = Path(__file__).parent / "left_to_full_runs.json"


def names_of(nodeid: str) -> tuple[str, str]:
    """Return the names of a test: its class, function and parameters, and with the file's before.

    The first is its name wherever its file lies; the second has the file's name and two folders.
    """
    path, _, name = nodeid.partition("::")
    return name, "::".join(["/".join(path.split("/")[-3:]), name])


def left_out(nodeids: Sequence[str], stored: Sequence[str]) -> set[str]:
    """Return which tests are stored as left to full runs; none that shares a stored name is."""
    count = Counter(name for nodeid in nodeids for name in names_of(nodeid))
    unique = {name for name in stored if count[name] == 1}
    return {nodeid for nodeid in nodeids if not unique.isdisjoint(names_of(nodeid))}


def stored_names() -> list[str]:
    """Return the names of the tests that are left to full runs."""
    return list(json.loads(STORED.read_text("utf-8"))["seconds"])


def processor_time() -> float:
    """Return the seconds that this process and the children that it waited for computed."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def parameters(item: pytest.Item) -> list[str]:
    """Return what a test covers by its place: its function, and the simple parameters in its file.

    A device, a dtype or a flag is a simple parameter. A row of a table of cases is not: its values
    are written for that one test. Neither is a size, since the kernels of each are told.
    """
    function = item.nodeid.partition("[")[0]
    spec = getattr(item, "callspec", None)
    found = [function]
    for name, value in (spec.params if spec is not None else {}).items():
        if isinstance(value, str | bool | None):
            found.append(f"{item.nodeid.partition('::')[0]} {name}={value}")
        elif isinstance(getattr(value, "name", None), str):
            found.append(f"{item.nodeid.partition('::')[0]} {name}={value.name}")
    return found


def about(kernel: Any, how: str) -> set[str]:
    """Return what a launch covers: its kernel in a form, with its callees, with each dtype."""
    types = {str(p.memory.type) for p in kernel.parameters if p.memory is not None}
    # The files of its operations tell namesakes apart.
    files = sorted({Path(op.position[0]).stem for op in kernel.body.walk() if op.position})
    said = [f"form {form(kernel)}", f"of {' '.join(files)}", *(f"on {one}" for one in types)]
    return {f"kernel {kernel.name} {one} {how}" for one in said}


def form(kernel: Any) -> str:
    """Return what tells kernels of one name apart: a number of the kinds of their operations.

    What an edge of a tile, an epilogue or a plan adds to a kernel has comparisons, calls or
    barriers that the others lack.
    """
    kinds = sorted({op.name for op in kernel.body.walk()})
    return hashlib.sha256(" ".join(kinds).encode()).hexdigest()[:8]


class Costs:
    """Notes what each test costs and covers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernels: set[str] = set()
        self.lines = LinesRun() if hasattr(sys, "monitoring") else None

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Look at each launch on lanes from here on, and at the lines that run."""
        from calor_interpreter.machine import Launch

        if self.lines is not None:
            self.lines.start()

        made = Launch.__init__

        def noted(launch: Any, kernel: Any, cubes: Any, checks: bool, output: Any) -> None:
            made(launch, kernel, cubes, checks, output)
            self.kernels |= about(kernel, "checked" if checks and prod(cubes) else "unchecked")

        monkeypatch.setattr(Launch, "__init__", noted)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Time a test with its fixtures."""
        self.kernels.clear()
        if self.lines is not None:
            self.lines.take()
        start = processor_time()
        result = yield
        row = {
            "test": item.nodeid,
            "seconds": round(processor_time() - start, 3),
            "covers": [*parameters(item), *sorted(self.kernels)],
        }
        if self.lines is not None:
            row["lines"] = self.lines.take()
        # One write of a line, which is whole beside those of other processes of the run.
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return result


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests that are left out as slow")
    parser.addoption("--sample", type=int, default=1, metavar="N", help="run each Nth test alone")
    parser.addoption("--costs", metavar="FILE", type=Path, help="append each test's cost to a file")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests to full runs, and all but a sample where one is asked for.

    Slow are tests with the marker, and those that are stored. A stored test that the command names
    is run.
    """
    kept = items
    if not config.getoption("--full"):
        kept = [item for item in items if not item.get_closest_marker("slow")]
        # What other runs leave out is measured too; what only full runs have covers nothing there.
        every = any("::" in argument for argument in config.args) or config.getoption("--costs")
        stored = set() if every else left_out([item.nodeid for item in kept], stored_names())
        kept = [item for item in kept if item.nodeid not in stored]
    kept = kept[:: config.getoption("--sample")]
    gone = set(items).difference(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in gone])
    items[:] = kept


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--costs")
    # Of the processes of a run, those that run tests note them.
    if path is None or (config.getoption("numprocesses", None) and not _is_worker()):
        return
    costs = Costs(path.resolve())
    monkeypatch = pytest.MonkeyPatch()
    costs.watch(monkeypatch)
    config.add_cleanup(monkeypatch.undo)
    if costs.lines is not None:
        config.add_cleanup(costs.lines.stop)
    config.pluginmanager.register(costs, "calor-costs")


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ
