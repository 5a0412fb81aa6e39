"""The functions of CuPy's ROCm build that calor-hip uses, and the meaning of HIP's error codes.

Requirements: a machine without ROCm or CuPy has no devices and can say why. CuPy built for CUDA,
which has the same modules, is recognized and refused. CuPy's arrays are not needed; only its
modules of driver functions are.
"""

from __future__ import annotations

from typing import Any, Final

from calor.errors import DeviceError
from calor_cupy.driver.codes import Codes

INSTALL: Final = 'pip install "calor-hip[rocm7]" brings it; ROCm 7 itself comes from AMD'
# Codes of hip_runtime_api.h.
CODES: Final = Codes(
    "HIP",
    {2},
    {
        214: "an error of the memory that cannot be corrected",
        700: "a kernel read or wrote where there is no memory",
        702: "a kernel ran longer than the system lets it",
        710: "an assertion of a kernel failed",
        719: "a kernel failed",
        720: "a cooperative launch is too large",
        999: "the driver does not say what happened",
    },
    {
        3: "the driver could not start",
        35: "there is no driver, or one that is older than CuPy asks for",
        100: "the driver finds no GPU; the user must be in the groups render and video",
    },
    {
        200: "the image of a kernel is damaged, or of a format that the driver does not know",
        209: "there is no image of a kernel for this architecture",
    },
    "rocminfo",
)
typed, failure = CODES.typed, CODES.failure


def modules() -> tuple[Any, Any]:
    """Return CuPy's functions of the runtime and of the driver.

    Raises
    ------
    DeviceError
        If CuPy for ROCm is not installed.
    """
    try:
        from cupy_backends.cuda.api import driver, runtime
    except ImportError as error:
        raise DeviceError(
            f"calor-hip needs CuPy's build for ROCm, which is not installed or does not find "
            f"ROCm's libraries ({error}); {INSTALL}"
        ) from error
    if not runtime.is_hip:
        raise DeviceError(
            f"calor-hip needs CuPy's build for ROCm, and the installed one is for CUDA; the two "
            f"share files, so each needs its own environment; {INSTALL}"
        )
    return runtime, driver


def compiler() -> Any:
    """Return CuPy's functions of hipRTC.

    Raises
    ------
    DeviceError
        If CuPy for ROCm is not installed.
    """
    modules()
    from cupy_backends.cuda.libs import nvrtc

    return nvrtc


def arrays() -> Any:
    """Return CuPy with its arrays; the import is slow.

    Raises
    ------
    DeviceError
        If CuPy for ROCm is not installed.
    """
    modules()
    import cupy

    return cupy


def count() -> int:
    """Return the number of GPUs; 0 without CuPy or a driver."""
    try:
        runtime, _ = modules()
        return int(runtime.getDeviceCount())
    except (DeviceError, RuntimeError):
        return 0


def require(number: int, runtime: Any) -> None:
    """Raise a DeviceError with the reason if there is no GPU with a number."""
    with typed("looking for GPUs"):
        found = int(runtime.getDeviceCount())
    if number >= found:
        raise DeviceError(
            f"there is no HIP device {number}; the driver lists {found}, numbered from 0: see "
            f"`rocminfo`, and HIP_VISIBLE_DEVICES, which selects among them"
        )
