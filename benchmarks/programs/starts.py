"""The first call of a step in a new process, with empty caches and with those it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from programs.ours import Ours
from programs.setting import Setting

CENSUS = Path(__file__).parents[1] / "census.py"


def started(setting: Setting, device: str) -> dict[str, Any]:
    """Make the model and its first step; print the seconds of the step until its result is made."""
    step = Ours(setting, device)
    step.wait()
    start = perf_counter()
    step.first()
    step.wait()
    found = {"first_s": perf_counter() - start}
    print(json.dumps(found))
    return found


def of_processes(setting: Setting, device: str) -> dict[str, float]:
    """Return the seconds of the first call in a process with empty caches, and in one after it."""
    with tempfile.TemporaryDirectory() as cache:
        return {name: _process(setting, device, cache) for name in ("cold_s", "warm_s")}


def _process(setting: Setting, device: str, cache: str) -> float:
    command = [sys.executable, str(CENSUS), setting.name, "--start", "--device", device]
    command += ["--mode", setting.mode, "--dtype", setting.dtype, "--size", setting.size_name]
    if setting.batch_given is not None:
        command += ["--batch", str(setting.batch_given)]
    environment = {**os.environ, "CALOR_CACHE_DIR": cache}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(json.loads(done.stdout.splitlines()[-1])["first_s"])
