"""What the process of a server keeps of the memory that it freed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig

import pytest

from calor_http import allocator

# Threads that stay, as those of streams and workers do, and blocks of the sizes of contents.
PROGRAM = """
import os, sys, threading
from calor_http.allocator import give_back_freed_memory
told = give_back_freed_memory() if sys.argv[1] == "yes" else None

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

ready, ends = threading.Barrier(9), threading.Event()

def works():
    for turn in range(3):
        for mebibytes in (1, 2, 4, 8, 16, 24):
            held = [b"x" * (mebibytes << 20) for _ in range(2)]
            held.clear()
    ready.wait()
    ends.wait()

before = resident()
for _ in range(8):
    threading.Thread(target=works, daemon=True).start()
ready.wait()
print(told, resident() - before)
ends.set()
"""


def kept(told: str, **variables: str) -> tuple[str, int]:
    """Return what the function says, and the mebibytes that a process keeps of what it freed."""
    environment = {k: v for k, v in os.environ.items() if k not in allocator._SET}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, told],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    said, mebibytes = found.stdout.split()
    return said, int(mebibytes)


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="is about the GNU allocator",
)
def test_blocks_that_were_freed_are_the_systems() -> None:
    said, mebibytes = kept("yes")
    assert said == "True"
    assert mebibytes < 24
    assert kept("no")[1] > 2 * mebibytes


def test_what_an_operator_sets_stays() -> None:
    assert kept("yes", MALLOC_TRIM_THRESHOLD_="100000000")[0] == "False"


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in allocator._SET:
        monkeypatch.delenv(name, raising=False)

    class Other:
        @staticmethod
        def mallopt(name: int, value: int) -> int:
            raise AssertionError("it is told nothing")

    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: Other())
    assert not allocator.give_back_freed_memory()
    monkeypatch.setattr(allocator.os, "name", "nt")
    assert not allocator.give_back_freed_memory()
