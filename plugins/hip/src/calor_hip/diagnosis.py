"""The state of AMD GPUs and their libraries, for ``python -m calor doctor``.

Requirements: those of calor_kernel.device.diagnosis.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from calor_kernel.device.diagnosis import Look, Row, found

from .bindings import compiler, count, modules, typed
from .description import architecture
from .matrices import MATRICES

_FOUND: Final = "built for ROCm"


def diagnosis() -> list[Row]:
    """Return rows of components and their state."""
    rows = found([("CuPy", _cupy)])
    if rows[0][1] != _FOUND:
        return rows
    looks: list[tuple[str, Look]] = [("hipRTC", _hiprtc), ("driver", _driver)]
    return rows + found(
        looks + [(f"hip:{number}", partial(_gpu, number)) for number in range(count())]
    )


def _cupy() -> str:
    modules()
    return _FOUND


def _hiprtc() -> str:
    return ".".join(map(str, compiler().getVersion()))


def _driver() -> str:
    runtime, _ = modules()
    with typed("asking for the driver"):
        there = int(runtime.driverGetVersion())
        runtime.getDeviceCount()
    return f"of HIP {there // 10_000_000}.{there // 100_000 % 100}"


def _gpu(number: int) -> str:
    runtime, _ = modules()
    with typed("asking what the device is", number):
        there = runtime.getDeviceProperties(number)
    processor = architecture(there)
    units = f"{processor}, waves of {there['warpSize']} units"
    return f"{units}, {'matrix units' if MATRICES.get(processor) else 'no matrix units are used'}"
