"""What every test run of the repository shares, wherever it starts.

It answers for its skips, and it computes on the reference unless the environment names a device.
"""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator

import pytest

pytest_plugins = ["costs", "kernels_on_lanes", "skip_reasons", "pytester"]

# calor reads this when it is imported; without it the first tensor warns, which is an error here.
os.environ.setdefault("CALOR_DEVICE", "numpy")

# Kernels are chosen by the library alone, whatever machine an installed bundle was measured on.
os.environ.setdefault("CALOR_TUNE", "own")

# A run starts with no stored kernel and no tuner's choice, whatever ran on this machine before it;
# its processes share one folder, which goes with the first of them.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["CALOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="calor-tests-")

# Every core has a test process; a program that compiles beside its tests would only take turns.
os.environ.setdefault("CALOR_COMPILE_WORKERS", "0")

# A shell starts background commands with interrupts ignored, and children inherit that; tests of
# Ctrl-C need Python's own handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# These doors put another module in their place, which a collector of docstrings would undo.
DOORS = (
    "distributed", "distributions", "drawing", "linalg", "nn", "signal", "special", "train",
)  # fmt: skip
# A backend of einops is imported by einops alone.
NEEDY = ("einops_backend",)
collect_ignore = [f"packages/core/src/calor/{name}.py" for name in (*DOORS, *NEEDY)]


def pytest_unconfigure() -> None:
    """Leave nothing that the run stored."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["CALOR_CACHE_DIR"], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, which takes a third of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        # Kernels are many objects that stay, and looking at them again and again takes a tenth of a
        # run. Tests of what is freed collect by themselves.
        gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def quick_collections() -> None:
    """Keep what stays from before a module out of the many tests that ask gc.

    That is what collecting made, and what modules before keep; a second of each look otherwise.
    """
    gc.collect()
    gc.freeze()
