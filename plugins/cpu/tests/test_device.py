"""The CPU as a device: memory, recorded launches, threads, and what it says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor.errors import DeviceError, OutOfMemoryError
from calor_cpu.device import CpuDevice
from calor_cpu.host import caches, memory_bytes
from calor_cpu.memory import CpuMemory
from calor_cpu.queue import shares_of
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.errors import KernelCheckError, KernelTypeError
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import cube_position, kernel


@kernel
def scale(x, y, n, factor):
    i = cube_position(0) * 4
    assert n % 4 == 0, "whole vectors"
    if i < n:
        y.store(i, x.load(i, 4) * factor)


def built(debug: bool = False) -> Kernel:
    features = frozenset(("debug",)) if debug else frozenset[str]()
    return scale.build(
        [Buffer(float32, writable=False), Buffer(float32), Scalar(int64), Scalar(float32)],
        features=features,
    )


@pytest.fixture(scope="module")
def device() -> Iterator[CpuDevice]:
    opened = CpuDevice(threads=2)
    yield opened
    opened.close()


def loaded(device: CpuDevice, kernel: Kernel) -> Any:
    tools = device.toolchain
    return device.queue.load(tools.compile(tools.source(kernel), kernel.name), kernel)


@pytest.mark.parametrize("nbytes", [1, 100, 4096, 3 << 20])
def test_memory_is_aligned_and_copied(nbytes: int) -> None:
    memory = CpuMemory()
    piece = memory.alloc(nbytes)
    assert piece % 64 == 0
    assert nbytes < 2 << 20 or piece % (2 << 20) == 0
    given = np.random.default_rng(0).integers(0, 255, nbytes, np.uint8)
    memory.copy_in(piece, 0, given)
    other = memory.alloc(nbytes)
    memory.copy(other, 0, piece, 0, nbytes)
    got = np.zeros_like(given)
    memory.copy_out(other, 0, got)
    np.testing.assert_array_equal(got, given)
    assert memory.address(piece) == piece
    assert memory.part(piece, 64, 1) == piece + 64
    memory.free(piece)
    memory.free(other)


FORK = """
import os, sys, warnings
import numpy as np
from calor_cpu.memory import CpuMemory

warnings.simplefilter("ignore")
memory, got = CpuMemory(), np.zeros(3 << 20, np.uint8)
piece = memory.alloc(3 << 20)
memory.copy_in(piece, 0, got)
child = os.fork()
if not child:
    memory.copy_in(piece, 0, got + 1)
    os._exit(0)
os.waitpid(child, 0)
memory.copy_out(piece, 0, got)
print(got.any())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_memory_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_memory_that_is_not_there_is_a_typed_error() -> None:
    with pytest.raises(
        OutOfMemoryError, match=r"needs 1048576\.0 TiB, the host has (\d.* free|less);"
    ):
        CpuMemory().alloc(1 << 60)


@pytest.mark.parametrize(("flops", "nbytes"), [(0, 0), (100, 100), (10**9, 0)])
def test_recorded_launches_run_with_the_memory_of_the_call(
    device: CpuDevice, flops: int, nbytes: int
) -> None:
    count, memory = 4096, device.memory
    function = loaded(device, built())
    steps = [
        Step(function, (count // 4, 1, 1), (Slot(0, 64), Slot(1), count, 3.0), flops, nbytes),
        Step(function, (count // 4, 1, 1), (Slot(1), Slot(1), count, 0.5), flops, nbytes),
    ]
    recorded = device.queue.record(steps, 2)
    x, y = memory.alloc(4 * count + 64), memory.alloc(4 * count)
    for turn in range(3):
        given = np.arange(count, dtype=np.float32) + turn
        memory.copy_in(x, 64, given)
        device.queue.run(recorded, [x, y])
        device.queue.synchronize()
        got = np.zeros_like(given)
        memory.copy_out(y, 0, got)
        np.testing.assert_array_equal(got, given * 1.5)
    times = device.queue.seconds(recorded, [x, y])
    assert len(times) == 2
    assert all(0 < t < 1 for t in times)
    memory.free(x)
    memory.free(y)


def step(cubes: tuple[int, int, int], flops: int = 0, nbytes: int = 0) -> Step:
    return Step(None, cubes, (), flops, nbytes)


@pytest.mark.parametrize(
    ("given", "grain"),
    [
        (step((1, 1, 1), 10**9), 0),
        (step((1000, 1, 1), 1000), 0),
        (step((100, 10, 1), 2 * 10**8), 1),
        (step((1 << 20, 1, 1), 1 << 24, 1 << 24), 2500),
        (step((2, 1, 1), 10_000, 120_000), 0),
        (step((20, 1, 1), 10_000, 1_200_000), 1),
        (step((8, 1, 1)), 1),
    ],
)
def test_a_launch_is_divided_where_its_work_is_worth_it(given: Step, grain: int) -> None:
    figures = prod(given.cubes), given.flops, given.nbytes
    assert shares_of([figures], 8)[0] == [pytest.approx(grain, rel=0.1)]


def test_a_launch_that_few_threads_share_is_longer() -> None:
    """Two threads gain half of a launch at most, and lose a hand-over."""
    figures = [(8, flops, 0) for flops in (100_000, 200_000, 400_000, 800_000)]
    shared = {n: [grain > 0 for grain in shares_of(figures, n)[0]] for n in (2, 4, 8, 64)}
    assert shared == {
        2: [False, False, False, True],
        4: [False, False, True, True],
        8: [False, True, True, True],
        64: [False, True, True, True],
    }


def test_wrong_arguments_are_found_when_they_are_recorded(device: CpuDevice) -> None:
    function = loaded(device, built())
    for arguments, message in (
        ((Slot(0), Slot(1), 4), "takes 4 arguments, not 3"),
        ((Slot(0), 5, 4, 1.0), "takes a slot, not 5"),
        ((Slot(0), Slot(1), Slot(1), 1.0), "takes a number of int64"),
    ):
        with pytest.raises(KernelTypeError, match=message):
            device.queue.record([Step(function, (1, 1, 1), arguments)], 2)


def test_a_failed_assertion_is_an_error_with_its_text(device: CpuDevice) -> None:
    function = loaded(device, built(debug=True))
    piece = device.memory.alloc(64)
    recorded = device.queue.record([Step(function, (1, 1, 1), (Slot(0), Slot(0), 3, 1.0))], 1)
    for run in (device.queue.run, device.queue.seconds):
        with pytest.raises(KernelCheckError, match=r"test_device.py:\d+: .*whole vectors"):
            run(recorded, [piece])
    device.memory.free(piece)


def test_the_device_says_what_it_is(device: CpuDevice) -> None:
    info = device.info
    assert info.max_units == 1
    assert info.planes == (1,)
    assert info.cores >= 1
    assert info.vector_bytes in (16, 32, 64)
    assert info.caches[0] >= 8 << 10
    assert info.caches == tuple(sorted(info.caches))
    assert info.memory_bytes == memory_bytes() > 0
    assert info.has("forward_progress")


def test_caches_that_cores_share_are_not_counted(tmp_path: Path) -> None:
    rows = [
        (1, "Data", "48K", "0,64"),
        (1, "Instruction", "32K", "0,64"),
        (2, "Unified", "2M", "0,64"),
        (3, "Unified", "30M", "0-63"),
    ]
    for i, values in enumerate(rows):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, value in zip(("level", "type", "size", "shared_cpu_list"), values, strict=True):
            (folder / name).write_text(f"{value}\n")
    assert caches(tmp_path) == ((48 << 10, 2 << 20), 30 << 20)
    assert caches(tmp_path / "nothing") == ((32 << 10, 512 << 10), 0)


def test_foreign_targets_do_not_open() -> None:
    with pytest.raises(DeviceError, match=r"aarch64.* does not run on this machine"):
        CpuDevice("aarch64-unknown-linux-gnu:generic")


def test_the_entry_module_imports_nothing_heavy() -> None:
    program = (
        "import sys; before = set(sys.modules); import calor_cpu.plugin; "
        "assert 'cpu' in calor_cpu.plugin.calor_backends(); "
        "print([m for m in ('llvmlite', 'calor_kernel', 'calor_cpu.device') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_it_is_the_default_where_it_is_installed() -> None:
    """Nothing warns, and ``import calor`` alone opens no device."""
    program = (
        "import sys, calor; print([m for m in sys.modules if m.startswith('calor_')]); "
        "x = calor.ones(3) + 1; print(x.device, x.tolist())"
    )
    environment = {name: text for name, text in os.environ.items() if name != "CALOR_DEVICE"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout == "[]\ncpu:0 [2.0, 2.0, 2.0]\n"


def test_a_call_that_fails_leaves_the_next_one_alone() -> None:
    import calor
    from calor.errors import ElementIndexError

    with calor.device("cpu"):
        x = calor.arange(4)
        first, wrong = calor.asarray([0, 3]), calor.asarray([0, 9])
        taken = calor.jit(lambda x, i: calor.take(x, i, axis=0))
        for _ in range(3):
            assert taken(x, first).tolist() == [0, 3]
            with pytest.raises(ElementIndexError, match="axis 0 of size 4"):
                taken(x, wrong).tolist()
