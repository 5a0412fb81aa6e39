"""Cubes of a launch hand over values: fences are the barriers beside them, or are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, uint32
from calor.errors import CompileError
from calor_kernel.language import (
    Buffer,
    barrier,
    cube_count,
    cube_position,
    fence,
    helper,
    kernel,
    loop_range,
    unit_index,
)
from calor_kernel.library.arrivals import arrive, is_last, wait_for
from calor_wgpu.wgsl import WGSL, print_wgsl
from device_runs import run

F, FLAGS = Buffer(float32), Buffer(uint32)
COHERENT = WGSL(coherent=True)


@kernel
def last_adds(parts: Any, total: Any, flags: Any) -> None:
    """Each cube leaves a number; the last cube adds them."""
    if unit_index() == 0:
        parts[cube_position()] = 1.0 + cube_position().to(float32)
    last = is_last(flags, 0, cube_count())
    if last & (unit_index() == 0):
        total[0] = 0.0
        for i in loop_range(cube_count()):
            total[0] = total[0] + parts[i]


def test_the_last_cube_sees_what_the_others_stored(device: Any) -> None:
    if not device.toolchain.dialect.coherent:
        pytest.skip("the adapter has no coherent memory")
    count = 300
    parts, total, flags = np.zeros(count, np.float32), np.zeros(1, np.float32), np.zeros(1, "u4")
    made = last_adds.build([F, F, FLAGS], cube=(64, 1, 1))
    run(device, made, (count, 1, 1), [parts, total, flags])
    assert total[0] == count * (count + 1) / 2
    assert flags[0] == 0


def test_memory_that_cubes_hand_over_is_coherent() -> None:
    made = last_adds.build([F, F, FLAGS], cube=(64, 1, 1))
    text = print_wgsl(made, COHERENT)
    assert "@coherent var<storage, read_write> parts: array<f32>;" in text
    assert "workgroupBarrier();\n  storageBarrier();" in text
    with pytest.raises(CompileError, match="fences for other cubes"):
        print_wgsl(made, WGSL())


@helper
def left(x: Any, flags: Any) -> None:
    x[cube_position()] = 2.0
    barrier()
    arrive(flags, 0)


@helper
def left_at_once(x: Any, flags: Any) -> None:
    x[cube_position()] = 2.0
    arrive(flags, 0)


@helper
def left_in_turns(x: Any, flags: Any) -> None:
    barrier()
    for i in loop_range(3):
        arrive(flags, 0)
        x[i] = 2.0


@helper
def left_by_some(x: Any, flags: Any) -> None:
    x[cube_position()] = 2.0
    if cube_position() == 0:
        barrier()
    arrive(flags, 0)


@helper
def taken(x: Any, flags: Any) -> None:
    wait_for(flags, 0, cube_count())
    x[1] = x[0]


@helper
def taken_at_once(x: Any, flags: Any) -> None:
    fence("device", "acquire")
    x[1] = x[0]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (left, ""),
        (left_at_once, "before"),
        (left_in_turns, "before"),
        (left_by_some, "before"),
        (taken, ""),
        (taken_at_once, "behind"),
    ],
)
def test_a_fence_has_a_barrier_beside_it(body: Callable[..., None], where: str) -> None:
    @kernel
    def handing(x: Any, flags: Any) -> None:
        body(x, flags)

    made = handing.build([F, FLAGS], cube=(64, 1, 1))
    if not where:
        assert "@coherent" in print_wgsl(made, COHERENT)
        return
    with pytest.raises(CompileError, match=f"put a barrier of the cube {where} it"):
        print_wgsl(made, COHERENT)


@pytest.mark.parametrize("lacks", ["", "coherent", "runs_on", "unlimited"])
def test_cubes_wait_where_they_hand_over_and_run_on(lacks: str) -> None:
    has = {name: name != lacks for name in ("coherent", "runs_on")}
    dialect = WGSL(limited=lacks == "unlimited", **has)
    assert ("forward_progress" in dialect.features) == (not lacks)
    assert ("early_exit" in dialect.features) == (lacks not in ("coherent", "runs_on"))
    # WebGPU does not say that cubes of a launch run at the same time.
    assert "together" not in dialect.features
