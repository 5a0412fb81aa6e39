"""Memory chosen by a number: a body for each memory."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32
from calor.errors import CompileError
from calor_kernel.language import (
    Buffer,
    barrier,
    cube_position,
    kernel,
    selected,
    shared,
    unit_position,
)
from calor_wgpu.wgsl import WGSL, print_wgsl
from device_runs import run

F, COUNT = Buffer(float32), 3


@kernel
def turned(a: Any, b: Any, c: Any, x: Any, y: Any, z: Any) -> None:
    """Write the units of a cube's own buffer in reverse."""
    number, i = cube_position(), unit_position()
    source, target = selected((a, b, c), number), selected((x, y, z), number)
    held = shared(64, float32)
    held[i] = source[i]
    barrier()
    target[i] = held[63 - i]


def test_a_cube_has_the_buffers_of_its_number(device: Any) -> None:
    x = [np.arange(64, dtype=np.float32) + 100 * k for k in range(COUNT)]
    y = [np.zeros(64, np.float32) for _ in x]
    run(device, built(turned), (COUNT, 1, 1), [*x, *y])
    for source, target in zip(x, y, strict=True):
        assert target.tolist() == source[::-1].tolist()


def test_choices_by_one_number_are_made_together() -> None:
    text = print_wgsl(built(turned), WGSL(buffers=16))
    assert text.count("workgroupBarrier();") == COUNT
    assert text.count("} else {") == COUNT - 1


def test_a_choice_in_a_branch_is_refused() -> None:
    @kernel
    def branched(a: Any, b: Any, c: Any, x: Any, y: Any, z: Any) -> None:
        if unit_position() == 0:
            selected((x, y, z), cube_position())[0] = a[0] + b[0] + c[0]

    with pytest.raises(CompileError, match="outside of branches"):
        print_wgsl(built(branched), WGSL(buffers=16))


def built(function: Any) -> Any:
    """Return a kernel of two groups of buffers."""
    features = frozenset({"pointers", "barrier"})
    return function.build([F] * (2 * COUNT), cube=(64, 1, 1), features=features)
