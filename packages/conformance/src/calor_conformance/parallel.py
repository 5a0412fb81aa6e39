"""One run in several processes: shards of the same command, merged.

Requirements: a check that ends its process, as a driver that crashes does, is one failure, and the
rest of its shard runs. Each process appends what it begins to a file; where it ends without a
report, the checks that it had begun run one by one until one of them ends it again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calor.errors import CalorError

from .outcomes import Result
from .report import merge
from .running import append

# Crashes of one shard after which a run is given up.
CRASHES = 60


def run(
    arguments: Sequence[str],
    jobs: int,
    shard: tuple[int, int] = (1, 1),
    log: Path | None = None,
) -> dict[str, Any]:
    """Run a command as ``jobs`` shards at once and return the merged report.

    Parameters
    ----------
    arguments : sequence of str
        The command line of each shard.
    jobs : int
        Number of processes.
    shard : tuple of int
        The part (number, count) of the run that the processes share.
    log : Path, default None
        The file of ``--resume``, if it is among the arguments; None for files of this run only.

    Returns
    -------
    dict
        The merged report.

    Raises
    ------
    CalorError
        If a process fails in no check, or the reports do not fit together.
    """
    number, count = shard
    # The processes share the processor's cores, and so do the compilers that each would start.
    environment = {"CALOR_COMPILE_WORKERS": str(max(_cores() // jobs - 1, 0)), **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        shards = [
            _Shard(
                Path(folder) / f"{n}.json",
                [*arguments, "--shard", f"{number + (n - 1) * count}/{count * jobs}"],
                environment,
                log,
            )
            for n in range(1, jobs + 1)
        ]
        left = shards
        while left:
            for one in left:
                one.start()
            left = [one for one in left if not one.ended()]
        return merge([one.report for one in shards])


class _Shard:
    """A part of the run: its process, and the next one where that ends too early."""

    def __init__(
        self, path: Path, arguments: Sequence[str], environment: dict[str, str], log: Path | None
    ) -> None:
        self.path = path
        self.arguments = [*arguments, "--quiet", "--json", str(path)]
        self.environment = environment
        self.begun = path.with_suffix(".begun")
        self.arguments += ["--begun", str(self.begun)]
        self.log = path.with_suffix(".log") if log is None else log
        if log is None:
            self.arguments += ["--resume", str(self.log)]
        self.alone = False
        self.crashes = 0
        self.report: Mapping[str, Any] = {}

    def start(self) -> None:
        """Start a process for what the log does not have."""
        more = ["--pack", "1"] if self.alone else []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "calor_conformance", *self.arguments, *more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def ended(self) -> bool:
        """Wait for the process; return whether the shard has its report, False to go on."""
        said = self.process.communicate()[1]
        if self.path.exists():
            self.report = json.loads(self.path.read_text("utf-8"))
            return True
        code = self.process.returncode
        begun = self._begun() if code < 0 else []
        self.crashes += 1
        if not begun or self.crashes > CRASHES:
            raise CalorError(f"a shard of the run wrote no report:\n{said[-2000:]}")
        self.alone = len(begun) > 1
        if not self.alone:
            told = f"it ended the process by {signal.Signals(-code).name}\n{said[-1000:]}"
            append(self.log, Result(begun[0], "failed", told))
        return False

    def _begun(self) -> list[str]:
        """Return the checks that the process had begun, [] if it ended before or after them."""
        if not self.begun.exists():
            return []
        lines = self.begun.read_text("utf-8").splitlines()
        names: list[str] = json.loads(lines[-1]) if lines else []
        known = {json.loads(line).get("name") for line in self.log.read_text("utf-8").splitlines()}
        return (
            [] if not names or names[-1] in known else [name for name in names if name not in known]
        )


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
