"""Kernels mean what Python means: each program on lanes, as built and optimized, and as Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calor.dtypes import int32, int64
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes import optimize
from calor_kernel.ir.text import kernel_text
from calor_kernel.language import Buffer, Scalar, registers

from . import programs, programs_of_values  # noqa: F401 - they fill the table
from .program_table import PROGRAMS

X = [3, 1, 4, 1, 5, 9, 2, 6]
NUMBERS = (0, 1, 2, 3, 5)


class Zeros(dict[Any, Any]):
    """What ``registers`` is in Python."""

    def __missing__(self, index: Any) -> int:
        return 0


def python(name: str, n: int) -> list[int]:
    """What a program writes, as Python runs it."""
    y = [0] * 16
    PROGRAMS[name].function(y, X, n, make=lambda shape: Zeros())
    return y


def build(name: str, dtype: Any = int64, **declared: Any) -> Kernel:
    """A program as a kernel."""

    def make(shape: tuple[int, ...]) -> Any:
        return registers(shape, dtype)

    buffers = [Buffer(dtype), Buffer(dtype, writable=False)]
    return PROGRAMS[name].build([*buffers, Scalar(dtype, **declared)], make=make, index=dtype)


def lanes(kernel: Kernel, n: int, dtype: Any = int64) -> list[int]:
    """What a kernel writes."""
    y = np.zeros(16, dtype.numpy)
    run_on_lanes(kernel, (1, 1, 1), [y, np.array(X, dtype.numpy), n])
    return list(map(int, y))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_means_what_it_means_in_python(name: str) -> None:
    built = verify(build(name, nonnegative=True))
    passes: dict[str, Callable[[Kernel], Kernel]] = {"built": verify, "optimized": optimize}
    for stage, run in passes.items():
        kernel = verify(run(built))
        for n in NUMBERS:
            assert lanes(kernel, n) == python(name, n), f"{stage}, n = {n}\n{kernel_text(kernel)}"


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"ranges"}))
def test_a_program_means_the_same_with_other_indices(name: str) -> None:
    kernel = verify(build(name, int32))
    assert lanes(kernel, 3, int32) == python(name, 3)


def test_building_and_optimizing_are_repeatable() -> None:
    for name in PROGRAMS:
        first, second = (build(name, nonnegative=True) for _ in range(2))
        assert kernel_text(first) == kernel_text(second)
        assert kernel_text(optimize(first)) == kernel_text(optimize(second))
