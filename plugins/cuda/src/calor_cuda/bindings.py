"""The libraries of calor-cuda, and the meaning of CUDA's error codes.

Requirements: every failure becomes a typed error in one place. A machine without a driver, or
without a library that calls it, has no devices and can say why. CuPy's arrays, whose import takes
half a second, are not needed; only its modules of driver functions are. PyCUDA replaces CuPy under
the same names.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Final

from calor.errors import DeviceError
from calor_cupy.driver.codes import Codes
from calor_cupy.driver.protocol import Driver, OrderedRuntime

INSTALL: Final = (
    'pip install "calor-cuda[cu13]" brings CuPy (cu12 for drivers of CUDA 12), '
    '"calor-cuda[pycuda]" PyCUDA, each with cuda-bindings and NVRTC'
)
_NCCL: Final = "pip install nvidia-nccl-cu13 brings it (nvidia-nccl-cu12 for CUDA 12)"
# Selects the library that calls the driver; by default CuPy if it is installed.
VARIABLE: Final = "CALOR_CUDA_DRIVER"
LIBRARIES: Final = {"cupy": "CuPy", "pycuda": "PyCUDA"}
# Codes of cuda.h, equal for functions of the driver and of the runtime.
_MEMORY: Final = {2}
_LOST: Final = {
    214: "an error of the memory that cannot be corrected",
    700: "a kernel read or wrote where there is no memory",
    702: "a kernel ran longer than the system lets it",
    710: "an assertion of a kernel failed",
    714: "a kernel's stack broke",
    715: "a kernel met an instruction that the device does not have",
    716: "a kernel read or wrote at an address that is not aligned",
    717: "a kernel used an address of another space",
    718: "a kernel's program counter left its program",
    719: "a kernel failed",
    999: "the driver does not say what happened",
}
# Images that were made for another GPU or by a newer compiler than the driver knows.
_UNFIT: Final = {
    200: "the image of a kernel is damaged, or of a format that the driver does not know",
    209: "there is no image of a kernel for this architecture",
    218: "the driver refuses the PTX of a kernel",
    222: "the driver is older than the compiler that made a kernel's PTX",
}
_NO_DRIVER: Final = {
    3: "the driver could not start",
    35: "there is no driver, or one that is older than its library asks for",
    100: "the driver finds no GPU",
    803: "the driver's library and its module in the system are of different versions",
    804: "the driver is older than its library asks for",
}
CODES: Final = Codes("CUDA", _MEMORY, _LOST, _NO_DRIVER, _UNFIT, "nvidia-smi")
typed, failure = CODES.typed, CODES.failure


def library() -> tuple[str, tuple[OrderedRuntime, Driver]]:
    """Return the name of the library that calls the driver, and its functions under CuPy's names.

    They are the functions of the runtime and of the driver.

    Raises
    ------
    DeviceError
        If no such library is installed.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", *LIBRARIES):
        raise DeviceError(f"{VARIABLE} is {asked!r}; set it to {' or '.join(LIBRARIES)}")
    missing = []
    for name in [asked] if asked else LIBRARIES:
        try:
            return LIBRARIES[name], _functions(name)
        except ImportError as error:
            missing.append(f"{LIBRARIES[name]} ({error})")
    wanted = f"as {VARIABLE} says, on {LIBRARIES[asked]}" if asked else "on CuPy or PyCUDA"
    raise DeviceError(
        f"calor-cuda runs {wanted}, which is not installed; {INSTALL}. "
        f"Not imported: {'; '.join(missing)}"
    )


def _functions(name: str) -> tuple[OrderedRuntime, Driver]:
    if name == "cupy":
        from cupy_backends.cuda.api import driver, runtime

        return runtime, driver
    from .pycuda_driver import pycuda_driver

    made = pycuda_driver()
    return made, made


def modules() -> tuple[OrderedRuntime, Driver]:
    """Return the functions of the runtime and of the driver.

    Raises
    ------
    DeviceError
        If no library has them.
    """
    return library()[1]


def arrays() -> Any:
    """Return CuPy with its arrays; the import is slow."""
    import cupy

    return cupy


def nccl_module() -> Any:
    """Return CuPy's functions of NCCL.

    Raises
    ------
    DeviceError
        If NCCL is not installed.
    """
    try:
        with warnings.catch_warnings():
            # CuPy's warning repeats the error below.
            warnings.simplefilter("ignore")
            from cupy.cuda import nccl
    except ImportError as error:
        raise DeviceError(f"collectives of GPUs need CuPy with NCCL: {error}; {_NCCL}") from error
    if not getattr(nccl, "available", False):
        raise DeviceError(f"collectives of GPUs need NCCL, which is not installed; {_NCCL}")
    return nccl


def count() -> int:
    """Return the number of GPUs; 0 without a library or driver."""
    try:
        runtime, _ = modules()
        return int(runtime.getDeviceCount())
    except (DeviceError, RuntimeError):
        return 0


def require(number: int) -> None:
    """Raise a DeviceError with the reason if there is no GPU with a number."""
    with typed("looking for GPUs"):
        found = int(modules()[0].getDeviceCount())
    if number >= found:
        raise DeviceError(
            f"there is no CUDA device {number}; the driver lists {found}, numbered from 0: see "
            f"`nvidia-smi -L`, and CUDA_VISIBLE_DEVICES, which selects among them"
        )
