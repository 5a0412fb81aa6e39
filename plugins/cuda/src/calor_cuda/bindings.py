"""The libraries that calor-cuda runs on, and what CUDA's error codes mean to calor.

Requirements: every failure becomes a typed error in one place; a machine without a driver, or
without a library that calls it, has no devices and can say why; CuPy's arrays, which take half a
second to import, are not needed, only its modules of the driver's functions; what CuPy is not there
for PyCUDA does, by the same names.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Final

from calor.errors import DeviceError
from calor_kernel.device.cupy_driver.codes import Codes
from calor_kernel.device.cupy_driver.protocol import Driver, OrderedRuntime

INSTALL: Final = (
    'pip install "calor-cuda[cu13]" brings CuPy (cu12 for drivers of CUDA 12), '
    '"calor-cuda[pycuda]" PyCUDA, each with cuda-bindings and NVRTC'
)
_NCCL: Final = "pip install nvidia-nccl-cu13 brings it (nvidia-nccl-cu12 for CUDA 12)"
# Which of the libraries calls the driver: CuPy where it is, unless this says otherwise.
VARIABLE: Final = "CALOR_CUDA_DRIVER"
LIBRARIES: Final = {"cupy": "CuPy", "pycuda": "PyCUDA"}
# Codes of cuda.h, the same in the driver's and the runtime's functions.
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
    """Return the name of the library that calls the driver, and its functions by CuPy's names.

    They are those of the runtime and of the driver. DeviceError where there is no such library.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", *LIBRARIES):
        raise DeviceError(f"{VARIABLE} is {asked!r}; it may be {' or '.join(LIBRARIES)}")
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
    """Return the functions of the runtime and the driver; DeviceError where no library has them."""
    return library()[1]


def arrays() -> Any:
    """Return CuPy, with its arrays, which takes a while."""
    import cupy

    return cupy


def nccl_module() -> Any:
    """Return CuPy's functions of NCCL; DeviceError where it is not installed."""
    try:
        with warnings.catch_warnings():
            # CuPy warns of what the error below says.
            warnings.simplefilter("ignore")
            from cupy.cuda import nccl
    except ImportError as error:
        raise DeviceError(f"collectives of GPUs need CuPy with NCCL: {error}; {_NCCL}") from error
    if not getattr(nccl, "available", False):
        raise DeviceError(f"collectives of GPUs need NCCL, which is not installed; {_NCCL}")
    return nccl


def count() -> int:
    """Return how many GPUs there are: none where a library or the driver are missing."""
    try:
        runtime, _ = modules()
        return int(runtime.getDeviceCount())
    except (DeviceError, RuntimeError):
        return 0


def require(number: int) -> None:
    """Raise the DeviceError that says why there is no GPU of a number; return if there is."""
    with typed("looking for GPUs"):
        found = int(modules()[0].getDeviceCount())
    if number >= found:
        raise DeviceError(
            f"there are {found} CUDA devices, and none of number {number}; `nvidia-smi -L` lists "
            f"what the driver finds, and CUDA_VISIBLE_DEVICES chooses among them"
        )
