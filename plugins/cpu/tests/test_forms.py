"""Plans that are filled in: they are what recording the same launches makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor_cpu.device import CpuDevice
from calor_kernel.device.protocol import Queue, Slot, Step, Varying, filled
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import cube_position, kernel

COUNT = 4096


@kernel
def raise_by(x, y, n, step, *, times):
    i = cube_position(0) * 4
    if i < n:
        y.store(i, x.load(i, 4) + step.to(float32) * times)


def built(times: int) -> Kernel:
    signature = [Buffer(float32), Buffer(float32), Scalar(int64), Scalar(int64)]
    return raise_by.build(signature, times=times)


@pytest.fixture(scope="module")
def device() -> Iterator[CpuDevice]:
    opened = CpuDevice(threads=2)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def functions(device: CpuDevice) -> list[Any]:
    tools, found = device.toolchain, []
    for times in (1, 10):
        made = built(times)
        found.append(device.queue.load(tools.compile(tools.source(made), made.name), made))
    return found


@pytest.mark.parametrize("way", ["filled in", "recorded"])
@pytest.mark.parametrize("work", [0, 1000, 10**9])
def test_a_form_makes_plans_of_other_numbers(
    device: CpuDevice, functions: list[Any], way: str, work: int
) -> None:
    queue, memory = device.queue, device.memory
    cubes, offset, n, step, flops = map(Varying, range(5))
    given: Any = [
        Step(functions[0], (cubes, 1, 1), (Slot(0, offset), Slot(1), n, step), flops, 0),
        Step(functions[0], (cubes, 1, 1), (Slot(1), Slot(1), n, 2), flops, 8),
    ]
    form = queue.form(given, 2) if way == "filled in" else Queue.form(queue, given, 2)
    x, y = memory.alloc(8 * COUNT), memory.alloc(4 * COUNT)
    values = np.arange(2 * COUNT, dtype=np.float32)
    memory.copy_in(x, 0, values)
    plans = [
        (form((size // 4, 4 * first, size, added & 2**64 - 1, work), others), size, first, added, f)
        for size, first, added, others, f in (
            (COUNT, 0, 5, {}, 1),
            (64, 100, -7, {}, 1),
            (COUNT, COUNT, 3, {0: functions[1]}, 10),
        )
        if way == "filled in" or added >= 0
    ]
    for plan, size, first, added, factor in plans * 2:
        queue.run(plan, [x, y])
        got = np.zeros(size, np.float32)
        memory.copy_out(y, 0, got)
        np.testing.assert_array_equal(got, values[first : first + size] + added * factor + 2)
        assert len(queue.seconds(plan, [x, y])) == 2
    memory.free(x)
    memory.free(y)


def test_filled_words_are_those_of_a_plan_that_is_recorded(
    device: CpuDevice, functions: list[Any]
) -> None:
    generator = np.random.default_rng(3)
    queue = device.queue
    cubes, offset, n, flops, nbytes = map(Varying, range(5))
    given: Any = [
        Step(functions[0], (cubes, 1, 1), (Slot(0, offset), Slot(1), n, 1), flops, nbytes),
        Step(functions[1], (2, cubes, 1), (Slot(1), Slot(0, 64), 7, n), 1 << 20, nbytes),
        Step(functions[0], (cubes, 1, 1), (Slot(0, offset), Slot(1), n, 1), flops, nbytes),
        Step(functions[0], (3, 1, 1), (Slot(0), Slot(1), 7, 9)),
    ]
    form = queue.form(given, 2)
    for _ in range(200):
        exponents = generator.integers(0, 40, 5)
        numbers = [int(generator.integers(0, 2 << e)) for e in exponents]
        numbers[0] %= 1 << 20
        filled_in = form(numbers, {})._runner.block
        recorded = queue.record([filled(s, numbers) for s in given], 2)._runner.block
        words = []
        for block in (filled_in, recorded):
            block.own(0, 2 * block.address)  # Addresses become places again.
            words.append(list(block.words))
        assert words[0] == words[1]


def test_numbers_that_are_missing_or_none_are_refused(
    device: CpuDevice, functions: list[Any]
) -> None:
    step: Any = Step(functions[0], (Varying(0), 1, 1), (Slot(0), Slot(1), Varying(1), 1))
    form = device.queue.form([step], 2)
    for numbers in ((1,), (1, "2")):
        with pytest.raises(TypeError):
            form(numbers, {})
