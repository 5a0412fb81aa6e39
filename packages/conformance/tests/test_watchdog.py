"""A device that hangs does not hang the suite."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from calor.backends.device import device_of
from calor.backends.numpy_backend import NumpyBackend
from calor_conformance import running, suite, watchdog
from calor_conformance.watchdog import HangError, Watchdog

NAMES = ("values/tanh/float32", "values/exp/float32")


class Stuck(NumpyBackend):
    """The reference, whose tanh does not return."""

    name = "stuck"

    def table(self, index: int) -> Any:
        return {**super().table(index), "tanh": lambda x: time.sleep(600)}


def test_a_check_that_hangs_fails_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the check leaves pending hangs too, until the next alarm.
    monkeypatch.setattr(watchdog, "GRACE", 2.0)
    device = device_of(Stuck(), 0)
    checks = [suite.checks()[name] for name in NAMES]
    options = running.Options(timeout=0.4)
    start = time.monotonic()
    found = {r.name: r for r in running.run(device, checks, options)}
    assert time.monotonic() - start < 30
    assert found[NAMES[0]].outcome == "failed"
    assert "hangs" in found[NAMES[0]].detail
    assert found[NAMES[1]].outcome == "passed"


def test_without_a_limit_nothing_is_watched() -> None:
    with Watchdog(None).watched("nothing"):
        pass
    with pytest.raises(HangError, match="nothing within"), Watchdog(0.05).watched("sleeping"):
        time.sleep(10)


DEAF = """
import signal, time
import calor_conformance.watchdog as w
w.GRACE = 0.2
w._can_alarm = lambda: False
dog = w.Watchdog(0.2, lambda name: print("stuck at", name, flush=True))
with dog.running(), dog.watched("values/tanh/float32"):
    time.sleep(60)
"""


def test_what_hears_no_alarm_ends_the_process_with_a_report() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEAF], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "stuck at values/tanh/float32" in done.stdout
