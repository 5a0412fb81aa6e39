"""Measures the number of cores of a device without a query, by times on its own clock.

Requirements: one cube of the largest size with pure arithmetic fills its core, so the time of many
cubes is that of one, times the cubes per core. Kernel choices and stored results depend on the
number, so it should be reproducible: it is one of a short list, seldom above the true one, and kept
on disk unless ``CALOR_CACHE`` forbids that. A measurement beside another program finds too few
cores; deleting the tuning file in the cache repeats it. An inconclusive measurement keeps the
assumed number, and so does a deterministic program, because another number gives other bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from calor.dtypes import float32, int64
from calor.errors import CalorError
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.protocol import Device, Slot, Step
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.runtime.autotune import deterministic, tuning_lines

# The possible numbers of cores.
STEPS: Final = (
    *(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128),
    *(160, 192, 224, 256, 320, 384, 448, 512),
)
# The maximum units of a cube, and the independent chains per unit: 256 units fill a core too.
_UNITS: Final = 1024
_CHAINS: Final = 16
# Iterations of many cubes, some 40 microseconds at 128 products a cycle, and the factor for a
# single cube.
_TURNS: Final = 512
_LONGER: Final = 8
_FACTOR: Final = 1.0001
# The first and the maximum number of cubes, for about 32 cubes per core.
_FEW, _MOST = 256, 4096
_ROUNDS: Final = 32
_SAMPLES: Final = 3
# The last of 32 rounds is partly full to an unknown degree, an error of 2 %.
_NEAR: Final = 1.025


@kl.kernel
def multiply(y: Any, turns: Any, factor: Any, *, chains: int) -> None:
    """Multiply opaque numbers in independent chains, and write the greatest.

    A product is one instruction on every device; an fma may be several.
    """
    place = kl.absolute_position()
    products = kl.registers(chains, float32)
    for i in range(chains):
        products[i] = (place + i).to(float32)
    for _ in kl.loop_range(turns):
        for i in range(chains):
            products[i] = products[i] * factor
    total = products[0]
    for i in range(1, chains):
        total = max(total, products[i])
    y[place] = total


def built(units: int) -> Kernel:
    """Return the kernel for cubes of a given number of units."""
    signature = (Buffer(float32), Scalar(int64, nonnegative=True), Scalar(float32))
    return multiply.build(signature, cube=(units, 1, 1), chains=_CHAINS)


def with_cores(device: Device) -> DeviceInfo:
    """Return the device's info with the measured number of cores, cached.

    The device's queue measures times by a clock of the device.
    """
    info = device.info
    if deterministic():
        return info
    lines = tuning_lines(device.toolchain.target)
    found = lines.get("cores")
    if found is None:
        try:
            found = _measured(device)
        except CalorError:
            return info  # A device that cannot run this keeps the assumed number.
        if found is None:
            return info
        lines.put("cores", found)
    return replace(info, cores=found)


def cores_of(nothing: float, one: float, many: float, cubes: int) -> int | None:
    """Return a number of STEPS from seconds; None if they are inconclusive.

    ``nothing``: the time of a cube without work; ``many``: of all ``cubes``; ``one``: of a cube
    with 8 times their work. The last round is half full on average.

    >>> cores_of(5e-6, 325e-6, 5e-6 + 31.5 * 40e-6, 4096)
    128
    """
    if one < 1.5 * nothing or one <= nothing:
        return None
    rounds = _LONGER * (many - nothing) / (one - nothing) - 0.5
    if not _ROUNDS / 8 <= rounds <= 1.1 * cubes:
        return None
    most = max(cubes / rounds * _NEAR, 1)
    return max(step for step in STEPS if step <= most)


def counted(seconds: Callable[[int, int], float]) -> int | None:
    """Return the number of cores, from a function of cubes and iterations that gives seconds."""
    seconds(_FEW, _TURNS)  # An idle GPU starts at a low clock.
    one, few = seconds(1, _LONGER * _TURNS) / _LONGER, seconds(_FEW, _TURNS)
    cubes = min(max(int(_ROUNDS * _FEW * one / max(few, one, 1e-9)), _ROUNDS), _MOST)
    shapes = ((cubes, _TURNS), (1, _LONGER * _TURNS), (1, 0))
    samples = [[seconds(*shape) for shape in shapes] for _ in range(_SAMPLES)]
    many, one, nothing = map(min, zip(*samples, strict=True))
    return cores_of(nothing, one, many, cubes)


def _measured(device: Device) -> int | None:
    units = min(device.info.max_units, _UNITS)
    made = built(units)
    queue, toolchain = device.queue, device.toolchain
    function = queue.load(toolchain.compile(toolchain.source(made), made.name), made)
    handle = device.memory.alloc(4 * units * _MOST)

    def seconds(cubes: int, turns: int) -> float:
        step = Step(function, (cubes, 1, 1), (Slot(0), turns, _FACTOR))
        return queue.seconds(queue.record([step], 1), [handle])[0]

    try:
        return counted(seconds)
    finally:
        device.memory.free(handle)
