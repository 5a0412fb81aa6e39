"""After a fork the reference works on, and a device that cannot says so."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

# What runs before the fork, in the child, and in the parent afterwards.
SCRIPT = """
    import os, sys, threading
    from dataclasses import replace
    import calor
    from calor.backends.device import device_of
    from calor.backends.lost import LostBackend
    from calor.backends.numpy_backend import NumpyBackend
    from calor.backends.protocol import NOT_YET
    from calor.errors import DeviceLostError
    from calor.plugins.discovery import registry

    class Driver(NumpyBackend):
        name = "driver"

        def info(self, index):
            info = super().info(index)
            return replace(info, features={{**info.features, "fork": NOT_YET}})

    class Asleep(Driver):
        asked = 0

        def opened(self, index):
            return False

        def info(self, index):
            Asleep.asked += 1
            return super().info(index)

    other = device_of(Driver(), 0)
    asleep = device_of(Asleep(), 0)
    numbers = calor.asarray([1.0, 2.0], device="numpy")
    held = calor.asarray([1.0, 2.0], device=other)
    pending = numbers * 2
    double = calor.jit(lambda x: x * 2)
    assert double(numbers).tolist() == double(held).tolist() == [2.0, 4.0]

    def lost(function):
        try:
            function()
        except DeviceLostError as error:
            assert "opened before this process was forked" in str(error), error
            return True
        return False

    def child():
        {child}

    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            child()
            code = 0
        except BaseException as error:
            print(type(error).__name__, error)
        finally:
            sys.stdout.flush()
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"
    assert pending.tolist() == double(numbers).tolist() == [2.0, 4.0]
    assert (held + 1).tolist() == [2.0, 3.0]
    assert double(held).tolist() == [2.0, 4.0]
"""
CHILDREN = {
    "pending": "assert pending.tolist() == [2.0, 4.0]",
    "recorded": "assert (numbers + pending).sum().item() == 9.0",
    "jit": "assert double(numbers).tolist() == [2.0, 4.0]",
    "made": "assert calor.ones(3, device='numpy').sum().item() == 3.0",
    "strict": "assert calor.ones(3, device='strict:numpy').sum().item() == 3.0",
    "look": "assert lost(held.numpy)",
    "op": "assert lost(lambda: (held + 1).numpy())",
    "traced": "assert lost(lambda: double(held))",
    "upload": "assert lost(lambda: calor.asarray([1.0], device=other))",
    "moved": "assert lost(lambda: held.to('numpy'))",
    "waited for": "assert lost(lambda: calor.synchronize(other))",
    "asked about": "assert other.info.description and other.name == 'driver:0'",
    "asleep": "assert not Asleep.asked and not isinstance(asleep.backend, LostBackend)",
    "locked": "assert calor.zeros(2, device='null').numpy().sum() == 0",
}


@pytest.mark.parametrize("case", CHILDREN)
def test_in_a_forked_child(case: str) -> None:
    script = dedent(SCRIPT).format(child=CHILDREN[case])
    if case == "locked":
        # Another thread holds the registry's lock at the moment of the fork, and dies with it.
        waiting = "threading.Event()"
        script = script.replace(
            "pid = os.fork()",
            f"ready, done = {waiting}, {waiting}\n"
            "def hold():\n"
            "    with registry._lock:\n"
            "        ready.set(); done.wait()\n"
            "thread = threading.Thread(target=hold); thread.start(); ready.wait()\n"
            "pid = os.fork()\n"
            "if pid: done.set(); thread.join()",
        )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
