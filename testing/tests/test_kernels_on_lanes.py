"""The plugin that asks whether lanes ran every kernel of the library, on small test files."""

from pathlib import Path

import numpy as np
import pytest

import kernels_on_lanes
from calor.dtypes import float32, int64
from calor_interpreter.launch import run_on_lanes
from calor_kernel.language import Buffer, Scalar
from calor_kernel.library.attention.bias_gradient import sum_parts
from kernels_on_lanes import KernelsOnLanes, every_kernel


@pytest.fixture(autouse=True)
def plugin_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs beside this process finds the plugin, and does not count here."""
    monkeypatch.setenv("PYTHONPATH", str(Path(kernels_on_lanes.__file__).parent))


def test_the_library_has_kernels_of_every_family() -> None:
    kernels = every_kernel()
    families = {name.split(".")[2] for name in kernels.values()}
    assert families >= {
        "attention", "conv", "copying", "elementwise", "fft", "indexing", "matmul", "pool",
        "random", "reduce", "scan", "sort",
    }  # fmt: skip
    assert len(kernels) == len(set(kernels.values()))


SUM = """
import numpy as np
import pytest
from calor.dtypes import float32, int64
from calor_kernel.language import Buffer, Scalar
from calor_interpreter.launch import run_on_lanes
from calor_kernel.library.attention.bias_gradient import sum_parts

def test_it():
    floats, size = Buffer(float32), Scalar(int64, nonnegative=True)
    built = sum_parts.build([floats, floats, *[size] * 6], accumulate=float32)
    x, y = np.ones(6, np.float32), np.zeros(2, np.float32)
    run_on_lanes(built, (2, 1, 1), [x, y, 2, 1, 2, 3, 2, 1])
    assert y.tolist() == [3, 3]
"""


def test_what_is_missing_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUM)
    options = ("-p", "kernels_on_lanes", "--every-kernel", "-n", "1")
    result = pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    assert "calor_kernel.library.attention.bias_gradient.sum_parts:" not in text
    count = len(every_kernel())
    assert f"FAILED: 1 of the library's {count} kernels ran on lanes" in text
    assert "calor_kernel.library.sort.vector_sorts.sort_values: write a test" in text


def test_runs_without_checks_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    watching = KernelsOnLanes()
    watching.watch(monkeypatch)
    floats, size = Buffer(float32), Scalar(int64, nonnegative=True)
    built = sum_parts.build([floats, floats, *[size] * 6], accumulate=float32)
    x, y = np.ones(6, np.float32), np.zeros(2, np.float32)
    run_on_lanes(built, (2, 1, 1), [x, y, 2, 1, 2, 3, 2, 1], checks=False)
    assert watching.missing == set(watching.wanted)
    run_on_lanes(built, (2, 1, 1), [x, y, 2, 1, 2, 3, 2, 1])
    assert [name for name, _ in set(watching.wanted) - watching.missing] == ["sum_parts"]


def test_nobody_asks_without_the_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_subprocess("-p", "kernels_on_lanes")
    assert result.ret == pytest.ExitCode.OK
    assert "kernels ran on lanes" not in result.stdout.str()
