"""The plugin of calor-cpu: the device "cpu". It imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from calor.plugins import hookimpl

if TYPE_CHECKING:
    from calor.backends.protocol import Backend


def _open() -> Backend:
    from calor_cpu.device import CpuDevice
    from calor_cpu.diagnosis import diagnosis
    from calor_kernel.runtime.backend import KernelBackend

    return KernelBackend("cpu", lambda index: CpuDevice(), diagnose=diagnosis)


@hookimpl
def calor_backends() -> Mapping[str, Callable[[], Backend]]:
    """Return the backend ``cpu``, with all cores of this machine."""
    return {"cpu": _open}
