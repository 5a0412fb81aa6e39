"""A pytest plugin: with `--every-kernel` a run fails for a kernel that lanes never ran.

Lanes finds what hardware passes over in silence, which is worth as much as there are kernels that
tests run on it. A kernel is known by its name and its file; a run counts where bounds, races and
barriers are checked. The tests of what finds them may be in any process of the run.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cached_property
from math import prod
from typing import Any

import pytest

Named = tuple[str, str]
# The kernel library, and the kernels that other distributions add to its tables.
PACKAGES = ("calor_kernel.library", "calor_cuda.kernels")


def every_kernel() -> dict[Named, str]:
    """Return the kernels of the packages: name and file, to how one finds them."""
    from calor_kernel.language import KernelFunction

    found = {}
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for kept in vars(importlib.import_module(module.name)).values():
                if isinstance(kept, KernelFunction) and kept.function.__module__ == module.name:
                    file = kept.function.__code__.co_filename
                    found[kept.name, file] = f"{module.name}.{kept.name}"
    return found


class KernelsOnLanes:
    """Notes the kernels that run on lanes in this process, and adds those of others."""

    @cached_property
    def wanted(self) -> dict[Named, str]:
        """The kernels that there are; modules are imported when a first kernel runs."""
        return every_kernel()

    @cached_property
    def missing(self) -> set[Named]:
        return set(self.wanted)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Look at each launch from here on."""
        from calor_interpreter.machine import Launch

        made = Launch.__init__

        def noted(launch: Any, kernel: Any, cubes: Any, checks: bool, output: Any) -> None:
            made(launch, kernel, cubes, checks, output)
            if checks and prod(cubes):
                self.note(kernel)

        monkeypatch.setattr(Launch, "__init__", noted)

    def note(self, kernel: Any) -> None:
        """Take a kernel off the list; the files of its operations tell namesakes apart."""
        possible = {key for key in self.missing if key[0] == kernel.name}
        if possible:
            files = {op.position[0] for op in kernel.body.walk() if op.position}
            self.missing -= {key for key in possible if key[1] in files}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what another process of the run has seen."""
        seen = getattr(node, "workeroutput", {}).get("kernels on lanes", [])
        self.missing -= {(name, file) for name, file in seen}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        told = getattr(session.config, "workeroutput", None)
        if told is not None:
            told["kernels on lanes"] = [list(key) for key in set(self.wanted) - self.missing]
        elif self.missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        seen = len(self.wanted) - len(self.missing)
        text = f"{seen} of the library's {len(self.wanted)} kernels ran on lanes"
        terminalreporter.section(
            f"FAILED: {text}" if self.missing else text, red=bool(self.missing)
        )
        for key in sorted(self.missing):
            terminalreporter.line(
                f"{self.wanted[key]}: write a test that runs it on lanes, checked"
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-kernel", action="store_true", help="fail for kernels that lanes never ran"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--every-kernel"):
        return
    watching = KernelsOnLanes()
    monkeypatch = pytest.MonkeyPatch()
    watching.watch(monkeypatch)
    config.add_cleanup(monkeypatch.undo)
    config.pluginmanager.register(watching, "calor-kernels-on-lanes")
