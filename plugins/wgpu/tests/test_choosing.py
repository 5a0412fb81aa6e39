"""Memory chosen by a number: a body for each memory."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32
from calor_kernel.ir.passes.guard import guard
from calor_kernel.language import (
    Buffer,
    barrier,
    cube_position,
    kernel,
    registers,
    select,
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


@pytest.mark.parametrize("failed", [0, 1])
def test_a_launch_that_may_do_nothing_chooses(device: Any, failed: int) -> None:
    """A guard's branch is around the choices and the barriers that follow them."""
    x = [np.arange(64, dtype=np.float32) + 100 * k for k in range(COUNT)]
    y = [np.zeros(64, np.float32) for _ in x]
    word = np.array([failed], np.uint32)
    run(device, guard(built(turned)), (COUNT, 1, 1), [*x, *y, word])
    for source, target in zip(x, y, strict=True):
        assert target.tolist() == (target * 0 if failed else source[::-1]).tolist()


@kernel
def gathered(a: Any, b: Any, c: Any, x: Any, y: Any, z: Any) -> None:
    """Add up elements of all buffers, each from the buffer of a turn and then a cube's own."""
    number, i = cube_position(), unit_position()
    total = registers(1, float32)
    total[0] = 0.0
    for turn in range(select(number < COUNT, COUNT, 0)):
        chosen: Any = turn
        total[0] = total[0] * 2.0 + selected((a, b, c), chosen)[i]
    if number > 0:
        total[0] += selected((a, b, c), number)[i]
    selected((x, y, z), number)[i] = total[0]


def test_values_leave_the_blocks_that_choose(device: Any) -> None:
    x = [np.arange(64, dtype=np.float32) + 100 * k for k in range(COUNT)]
    y = [np.zeros(64, np.float32) for _ in x]
    run(device, built(gathered), (COUNT, 1, 1), [*x, *y])
    total = (x[0] * 2 + x[1]) * 2 + x[2]
    for number, target in enumerate(y):
        assert target.tolist() == (total + x[number] * (number > 0)).tolist()


def built(function: Any) -> Any:
    """Return a kernel of two groups of buffers."""
    features = frozenset({"pointers", "barrier"})
    return function.build([F] * (2 * COUNT), cube=(64, 1, 1), features=features)
