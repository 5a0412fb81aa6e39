"""A pytest plugin: which tests are left to full runs (``--full``), by what they cost.

A run with ``--costs FILE`` leaves out slow tests alone, and appends a line for each test to a file:
the seconds of processor time that it took, in this process and its children, and what it covers.
``tools/choose_tests.py`` picks from these lines the costly tests that cover nothing that the others
do not, and stores them in ``testing/left_to_full_runs.json``. A run without ``--full`` leaves out
what is stored there. Slow tests are not measured: other tests cannot rely on what they cover.

A stored test is known by its name and parameters, not by its file, so that it is found where files
are moved. Where two tests have one name and the same parameters, both are run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import pytest

STORED = Path(__file__).parent / "left_to_full_runs.json"


def name_of(nodeid: str) -> str:
    """Return a test's class, function and parameters: its name wherever its file lies."""
    return nodeid.partition("::")[2]


def left_out(nodeids: Sequence[str], stored: Sequence[str]) -> set[str]:
    """Return which tests are stored as left to full runs; of namesakes, none is."""
    count = Counter(map(name_of, nodeids))
    unique = {name for name in stored if count[name] == 1}
    return {nodeid for nodeid in nodeids if name_of(nodeid) in unique}


def stored_names() -> list[str]:
    """Return the names of the tests that are left to full runs."""
    return list(json.loads(STORED.read_text("utf-8"))["seconds"])


def processor_time() -> float:
    """Return the seconds that this process and the children that it waited for computed."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def parameters(item: pytest.Item) -> list[str]:
    """Return what a test covers by its place: its function, and the simple parameters in its file.

    A device, a dtype or a flag is a simple parameter, of which each value stays covered in each
    file. A row of a table of cases is not: its values are written for that one test.
    """
    function = item.nodeid.partition("[")[0]
    spec = getattr(item, "callspec", None)
    found = [function]
    for name, value in (spec.params if spec is not None else {}).items():
        if isinstance(value, str | bool | int | float | None):
            found.append(f"{item.nodeid.partition('::')[0]} {name}={value}")
        elif isinstance(getattr(value, "name", None), str):
            found.append(f"{item.nodeid.partition('::')[0]} {name}={value.name}")
    return found


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

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Look at each launch on lanes from here on."""
        from calor_interpreter.machine import Launch

        made = Launch.__init__

        def noted(launch: Any, kernel: Any, cubes: Any, checks: bool, output: Any) -> None:
            made(launch, kernel, cubes, checks, output)
            memories = [p.memory for p in kernel.parameters if p.memory is not None]
            types = sorted({str(memory.type) for memory in memories})
            # The files of its operations tell namesakes apart.
            files = sorted({op.position[0] for op in kernel.body.walk() if op.position})
            names = (Path(file).stem for file in files)
            how = "checked" if checks and prod(cubes) else "unchecked"
            self.kernels.add(" ".join(["kernel", kernel.name, *names, *types, form(kernel), how]))

        monkeypatch.setattr(Launch, "__init__", noted)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Time a test with its fixtures."""
        self.kernels.clear()
        start = processor_time()
        result = yield
        row = {
            "test": item.nodeid,
            "seconds": round(processor_time() - start, 3),
            "covers": [*parameters(item), *sorted(self.kernels)],
        }
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
    config.pluginmanager.register(costs, "calor-costs")


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ
