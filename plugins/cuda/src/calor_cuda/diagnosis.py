"""The state of NVIDIA GPUs and their libraries, for ``python -m calor doctor``.

Requirements: those of calor_kernel.device.diagnosis.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import distributions
from typing import Final

from calor_cupy.driver.diagnosis import several
from calor_kernel.device.diagnosis import Row, found, package

from .bindings import CODES, INSTALL, count, library, modules, nccl_module, typed
from .toolchain import OLDEST, architecture, compiler_version

_CUPY: Final = "cupy-cuda"


def diagnosis() -> list[Row]:
    """Return rows of components and their state."""
    gpus = count()
    rows = found(
        [
            ("CuPy", _cupy),
            ("PyCUDA", lambda: package("pycuda", "it is not needed beside CuPy")),
            ("cuda-bindings", lambda: package("cuda-bindings", INSTALL)),
            ("NVRTC", compiler_version),
            ("driver", _driver),
            *((f"cuda:{number}", partial(_gpu, number)) for number in range(gpus)),
        ]
    )
    return rows + (found(several(gpus, modules()[0], CODES, nccl_module)) if gpus > 1 else [])


def _cupy() -> str:
    """Return CuPy's version, or advice about two installed ones, which share files."""
    there = {str(d.name or ""): d.version for d in distributions()}
    names = sorted(name for name in there if name == "cupy" or name.startswith(_CUPY))
    if not names:
        return f"not installed; {INSTALL}"
    told = ", ".join(f"{name} {there[name]}" for name in names)
    if len(names) > 1:
        return f"{told}: they share files; uninstall all of them, then install one"
    return told


def _driver() -> str:
    name, (runtime, _) = library()
    with typed("asking for the driver"):
        there, built = runtime.driverGetVersion(), runtime.runtimeGetVersion()
        if not there:
            return "there is none; install the GPU's driver, `nvidia-smi` shows it then"
        runtime.getDeviceCount()
    told = f"of CUDA {_number(there)}; {name} is for CUDA {_number(built)}"
    if there // 1000 < built // 1000:
        packages = f"calor-cuda[cu{there // 1000}]"
        return f"{told}: install a newer driver, or what is for this one: {packages}"
    return f"{told}, and calls it"


def _number(code: int) -> str:
    return f"{code // 1000}.{code % 1000 // 10}"


def _gpu(number: int) -> str:
    with typed("asking what the device is", number):
        there = modules()[0].getDeviceProperties(number)
    name = there["name"].decode() if isinstance(there["name"], bytes) else str(there["name"])
    capability = (there["major"], there["minor"])
    told = f"{name}, compute capability {capability[0]}.{capability[1]}"
    if capability < OLDEST:
        return f"{told}: too old, from {OLDEST[0]}.{OLDEST[1]} on; calor-opencl runs on it"
    target = architecture(capability)
    if target.startswith("compute_"):
        return (
            f"{told}, newer than NVRTC: kernels go to the driver as PTX of {target}, without "
            f"the instructions that are new; pip install -U nvidia-cuda-nvrtc"
        )
    return f"{told}, kernels are compiled for {target}"
