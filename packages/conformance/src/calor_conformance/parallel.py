"""One run in several processes: shards of the same command, merged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calor.errors import CalorError

from .report import merge


def run(arguments: Sequence[str], jobs: int, shard: tuple[int, int] = (1, 1)) -> dict[str, Any]:
    """Run a command as ``jobs`` shards at once and return the merged report.

    Parameters
    ----------
    arguments : sequence of str
        The command line of each shard.
    jobs : int
        Number of processes.
    shard : tuple of int
        The part (number, count) of the run that the processes share.

    Returns
    -------
    dict
        The merged report.

    Raises
    ------
    CalorError
        If a process fails, or the reports do not fit together.
    """
    number, count = shard
    # The processes share the processor's cores, and so do the compilers that each would start.
    environment = {"CALOR_COMPILE_WORKERS": str(max(_cores() // jobs - 1, 0)), **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n}.json" for n in range(1, jobs + 1)]
        processes = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "calor_conformance",
                    *arguments,
                    "--quiet",
                    "--shard",
                    f"{number + (n - 1) * count}/{count * jobs}",
                    "--json",
                    str(path),
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for n, path in enumerate(paths, 1)
        ]
        said = [process.communicate()[1] for process in processes]
        return merge([_read(path, text) for path, text in zip(paths, said, strict=True)])


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _read(path: Path, said: str) -> Mapping[str, Any]:
    if not path.exists():
        raise CalorError(f"a shard of the run wrote no report:\n{said[-2000:]}")
    report: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return report
