"""What calor-hip uses of CuPy's ROCm build, and what HIP's error codes mean to calor.

Requirements: a machine without ROCm or CuPy has no devices and can say why; CuPy built for CUDA,
which has the same modules, is not taken for the other; CuPy's arrays are not needed, only its
modules of the driver's functions.
"""

from __future__ import annotations

from typing import Any, Final

from calor.errors import DeviceError
from calor_kernel.device.cupy_driver.codes import Codes

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
    """Return CuPy's functions of the runtime and the driver; DeviceError without CuPy for ROCm."""
    try:
        from cupy_backends.cuda.api import driver, runtime
    except ImportError as error:
        raise DeviceError(
            f"calor-hip runs on CuPy's build for ROCm, which is not installed or does not find "
            f"ROCm's libraries ({error}); {INSTALL}"
        ) from error
    if not runtime.is_hip:
        raise DeviceError(
            f"calor-hip runs on CuPy's build for ROCm, and the one here is for CUDA; the two share "
            f"files, so that each needs an environment of its own; {INSTALL}"
        )
    return runtime, driver


def compiler() -> Any:
    """Return CuPy's functions of hipRTC; DeviceError without CuPy for ROCm."""
    modules()
    from cupy_backends.cuda.libs import nvrtc

    return nvrtc


def arrays() -> Any:
    """Return CuPy, with its arrays, which takes a while; DeviceError without CuPy for ROCm."""
    modules()
    import cupy

    return cupy


def count() -> int:
    """Return how many GPUs there are: none where CuPy or the driver are missing."""
    try:
        runtime, _ = modules()
        return int(runtime.getDeviceCount())
    except (DeviceError, RuntimeError):
        return 0


def require(number: int, runtime: Any) -> None:
    """Raise the DeviceError that says why there is no GPU of a number; return if there is."""
    with typed("looking for GPUs"):
        found = int(runtime.getDeviceCount())
    if number >= found:
        raise DeviceError(
            f"there are {found} HIP devices, and none of number {number}; `rocminfo` lists what "
            f"the driver finds, and HIP_VISIBLE_DEVICES chooses among them"
        )
