"""Tests that a device keeps the contract of calor-kernel's devices: a plugin's tests import them.

The module that does so has a fixture ``device`` without contraction, and a ``CONTRACT`` that says
what is the plugin's own: the texts that differ, and no more.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16, bool_, float16, float32, int8, int32, int64, uint64
from calor.errors import CompileError, OutOfMemoryError
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
from calor_kernel.runtime.backend import KernelBackend
from device_runs import run

__all__ = [
    "contract",
    "test_a_kernel_may_be_called_like_a_function_of_the_language",
    "test_a_memory_limit_keeps_the_bits",
    "test_a_record_runs_again_with_other_memory",
    "test_errors_are_typed_and_leave_the_device_usable",
    "test_scalars_of_every_type_arrive",
    "test_tensors_are_computed_on_it",
    "test_the_entry_module_loads_no_driver",
]


@dataclass(frozen=True)
class Contract:
    """What differs between the plugins.

    ``driver`` is the module that the entry module of ``plugin`` does not load; ``refused`` a text
    of a kernel ``k`` that reads ``nothing_known``, and ``refusal`` what the compiler's error
    matches; ``too_much`` is what the error of an allocation of ``nbytes`` matches; ``timed`` says
    that a launch takes time by the device's clock, and one without cubes none.
    """

    plugin: str
    driver: str
    refused: str
    too_much: str
    refusal: str = "(?s)refuses kernel 'k'.*nothing_known"
    nbytes: int = 1 << 50
    timed: bool = False


@pytest.fixture
def contract(request: pytest.FixtureRequest) -> Contract:
    """Return what the plugin's module says of itself."""
    found: Contract = request.module.CONTRACT
    return found


def held(opened: Any) -> Iterator[Any]:
    """Yield a device for a fixture, and close it afterwards."""
    # Contraction is tested by itself; here results are compared bit for bit.
    opened.toolchain.dialect.fast_fma = False
    yield opened
    opened.close()


@kernel
def scaled(x: Any, y: Any, n: Any, factor: Any) -> None:
    i = absolute_position()
    if i < n:
        y[i] = x[i] * factor


def built(units: int = 8) -> Any:
    """Return a kernel that scales the first n numbers."""
    signature: list[Any] = [
        Buffer(float32, writable=False),
        Buffer(float32),
        Scalar(int64),
        Scalar(float32),
    ]
    return scaled.build(signature, cube=(units, 1, 1))


def loaded(device: Any, made: Any) -> Any:
    """Return a kernel as the device's queue runs it."""
    image = device.toolchain.compile(device.toolchain.source(made), made.name)
    return device.queue.load(image, made)


def test_a_record_runs_again_with_other_memory(device: Any, contract: Contract) -> None:
    memory, queue, function = device.memory, device.queue, loaded(device, built())
    pieces = [memory.alloc(256) for _ in range(3)]
    parts = [memory.part(p, 128, 128) for p in pieces]
    for number, piece in enumerate(pieces):
        memory.copy_in(piece, 0, np.full(64, number + 1, np.float32))
    # The second launch reads what the first one writes; the third has no cubes.
    steps = [
        Step(function, (2, 1, 1), (Slot(0), Slot(1, 16), 10, 2.0)),
        Step(function, (2, 1, 1), (Slot(1, 16), Slot(2), 10, -1.0)),
        Step(function, (0, 1, 1), (Slot(0), Slot(2), 10, 7.0)),
    ]
    recorded = queue.record(steps, 3)
    queue.run(recorded, parts)
    queue.run(recorded, [parts[2], pieces[1], pieces[0]])
    memory.copy(pieces[0], 128, pieces[2], 128, 64)
    queue.synchronize()
    got = [np.empty(64, np.float32) for _ in pieces]
    for piece, array in zip(pieces, got, strict=True):
        memory.copy_out(piece, 0, array)
    assert got[2].tolist() == [3.0] * 32 + [-2.0] * 10 + [3.0] * 22
    assert got[1].tolist() == [2.0] * 4 + [-4.0] * 10 + [2.0] * 22 + [2.0] * 10 + [2.0] * 18
    assert got[0].tolist() == [4.0] * 10 + [1.0] * 22 + [-2.0] * 10 + [3.0] * 6 + [1.0] * 16
    times = queue.seconds(recorded, parts)
    assert len(times) == 3
    assert all(0 <= s < 1 for s in times)
    assert not contract.timed or (min(times[:2]) > 0 and times[2] == 0.0)
    for piece in pieces:
        memory.free(piece)


@kernel
def numbers(y: Any, *given: Any) -> None:
    for place, number in enumerate(given):
        y[place] = number.to(float32)


def test_scalars_of_every_type_arrive(device: Any) -> None:
    dtypes = [bool_, float16, bfloat16, int8, uint64]
    made = numbers.build([Buffer(float32), *map(Scalar, dtypes)])
    y = np.zeros(5, np.float32)
    run(device, made, (1, 1, 1), [y, True, 1.5, -2.5, -7, 2**40])
    assert y.tolist() == [1.0, 1.5, -2.5, -7.0, 2.0**40]


def test_errors_are_typed_and_leave_the_device_usable(device: Any, contract: Contract) -> None:
    def refused() -> None:
        # A driver may see the text only when a launch of it binds its buffers.
        image = device.toolchain.compile(contract.refused, "k")
        function = device.queue.load(image, replace(built(), name="k"))
        step = Step(function, (1, 1, 1), (Slot(0), Slot(0), 8, 3.0))
        device.queue.run(device.queue.record([step], 1), [device.memory.alloc(256)])

    with pytest.raises(CompileError, match=contract.refusal):
        refused()
    with pytest.raises(OutOfMemoryError, match=contract.too_much):
        device.memory.alloc(contract.nbytes)
    arguments: list[Any] = [np.ones(8, np.float32), np.zeros(8, np.float32), 8, 3.0]
    run(device, built(), (1, 1, 1), arguments)
    assert arguments[1].tolist() == [3.0] * 8


@kernel
def exp(x: Any) -> None:
    x[absolute_position()] = 1


@kernel
def select(x: Any) -> None:
    x[absolute_position()] = 2


@kernel
def clamp(x: Any) -> None:
    x[absolute_position()] = 3


def test_a_kernel_may_be_called_like_a_function_of_the_language(device: Any) -> None:
    for value, made in enumerate((exp, select, clamp), 1):
        x = np.zeros(4, np.int32)
        run(device, made.build([Buffer(int32)], cube=(2, 1, 1)), (2, 1, 1), [x])
        assert x.tolist() == [value] * 4


def test_tensors_are_computed_on_it(device: Any) -> None:
    backend = KernelBackend("contract", lambda number: device)
    host = np.linspace(-2, 2, 37, dtype=np.float32)
    with calor.device(device_of(backend, 0)):
        x = calor.asarray(host)
        y = calor.jit(lambda x: calor.maximum(x * x - 1, 0) + x)(x)
        assert y.device.backend is backend
        np.testing.assert_allclose(y.numpy(), np.maximum(host * host - 1, 0) + host, rtol=1e-6)


def test_a_memory_limit_keeps_the_bits(device: Any) -> None:
    def loss(x: Any) -> Any:
        y = x
        for _ in range(8):
            y = calor.tanh(y * 1.5)
        return calor.sum(y)

    backend = KernelBackend("limited", lambda index: device, fusers=())
    place, pool = device_of(backend, 0), backend.engine(0).pool
    x = calor.asarray(np.linspace(-2, 2, 1000, dtype=np.float32), device=place)

    def peak(limit: int | None) -> tuple[Any, int]:
        function = calor.jit(calor.grad(loss), memory_limit=limit)
        calor.eval(function(x))
        pool.peak = pool.in_use
        pool.set_limit(None)
        return function(x).tolist(), pool.peak

    plain, most = peak(None)
    within, least = peak(int(0.7 * most))
    assert within == plain
    assert least <= 0.7 * most


def test_the_entry_module_loads_no_driver(contract: Contract) -> None:
    program = f"import sys, {contract.plugin}.plugin; print({contract.driver!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
