"""What there is, and what is missing, on the way to an AMD GPU: for ``python -m calor doctor``.

Requirements: nothing here raises, whatever is broken; a finding that needs something says what to
install or to do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from calor.errors import CalorError

from .bindings import compiler, count, modules, typed
from .description import architecture
from .matrices import MATRICES

Row = tuple[str, str]


def diagnosis() -> list[Row]:
    """Return rows of what was looked for and what was found."""
    looks: list[tuple[str, Callable[[], str]]] = [("CuPy", _cupy), ("hipRTC", _hiprtc)]
    looks.append(("driver", _driver))
    looks += [(f"hip:{number}", partial(_gpu, number)) for number in range(count())]
    return [(name, _said(look)) for name, look in looks]


def _said(look: Callable[[], str]) -> str:
    """Return what a look found, or the error that it met."""
    try:
        return look()
    except CalorError as error:
        return str(error)
    except Exception as error:
        return f"it fails: {type(error).__name__}: {error}"


def _cupy() -> str:
    modules()
    return "built for ROCm"


def _hiprtc() -> str:
    return ".".join(map(str, compiler().getVersion()))


def _driver() -> str:
    runtime, _ = modules()
    with typed("asking for the driver"):
        found = int(runtime.driverGetVersion())
        runtime.getDeviceCount()
    return f"of HIP {found // 10_000_000}.{found // 100_000 % 100}"


def _gpu(number: int) -> str:
    runtime, _ = modules()
    with typed("asking what the device is", number):
        found: Any = runtime.getDeviceProperties(number)
    processor = architecture(found)
    units = f"{processor}, waves of {found['warpSize']} units"
    return f"{units}, {'matrix units' if MATRICES.get(processor) else 'no matrix units are used'}"
