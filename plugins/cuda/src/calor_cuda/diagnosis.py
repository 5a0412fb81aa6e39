"""What there is, and what is missing, on the way to an NVIDIA GPU: for ``python -m calor doctor``.

Requirements: nothing here raises, whatever is broken, and no device is opened that was not open; a
finding that needs something says what to install or to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, distributions, version
from itertools import combinations
from typing import Any, Final

from calor.errors import CalorError

from .bindings import INSTALL, library, modules, typed
from .links import nccl_module
from .toolchain import OLDEST, architecture, compiler_version

Row = tuple[str, str]
_CUPY: Final = "cupy-cuda"


def diagnosis() -> list[Row]:
    """Return rows of what was looked for and what was found."""
    rows = [("CuPy", _cupy()), ("PyCUDA", _pycuda()), ("cuda-bindings", _package("cuda-bindings"))]
    rows.append(("NVRTC", _said(compiler_version)))
    driver = _said(_driver)
    rows.append(("driver", driver))
    count = _count()
    rows += [(f"cuda:{number}", _said(partial(_gpu, number))) for number in range(count)]
    if count > 1:
        rows += _connections(count)
        rows.append(("NCCL", _said(_nccl)))
    return rows


def _said(look: Callable[[], str]) -> str:
    """Return what a look found, or the error that it met."""
    try:
        return look()
    except CalorError as error:
        return str(error)
    except Exception as error:
        return f"it fails: {type(error).__name__}: {error}"


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return f"not installed; {INSTALL}"


def _cupy() -> str:
    """Return CuPy's version; what to do about two of them, whose files are the same."""
    found = {
        str(d.name): d.version for d in distributions() if str(d.name or "").startswith("cupy")
    }
    names = sorted(name for name in found if name == "cupy" or name.startswith(_CUPY))
    if not names:
        return f"not installed; {INSTALL}"
    told = ", ".join(f"{name} {found[name]}" for name in names)
    if len(names) > 1:
        return f"{told}: they share files; uninstall all of them, then install one"
    return told


def _pycuda() -> str:
    """Return PyCUDA's version; it is asked for only where CuPy is not."""
    try:
        return version("pycuda")
    except PackageNotFoundError:
        return "not installed, and not needed beside CuPy"


def _driver() -> str:
    name, (runtime, _) = library()
    with typed("asking for the driver"):
        found, built = runtime.driverGetVersion(), runtime.runtimeGetVersion()
        if not found:
            return "there is none; install the GPU's driver, `nvidia-smi` shows it then"
        runtime.getDeviceCount()
    if found // 1000 < built // 1000:
        return (
            f"of CUDA {_number(found)}, {name} is for CUDA {_number(built)}: install a newer "
            f"driver, or the packages for CUDA {found // 1000}: calor-cuda[cu{found // 1000}]"
        )
    return f"of CUDA {_number(found)}; {name} is for CUDA {_number(built)}, and calls it"


def _number(code: int) -> str:
    return f"{code // 1000}.{code % 1000 // 10}"


def _count() -> int:
    try:
        return int(modules()[0].getDeviceCount())
    except (CalorError, RuntimeError):
        return 0


def _gpu(number: int) -> str:
    runtime, _ = modules()
    with typed("asking what the device is", number):
        found: Any = runtime.getDeviceProperties(number)
    name = found["name"].decode() if isinstance(found["name"], bytes) else str(found["name"])
    capability = (found["major"], found["minor"])
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


def _connections(count: int) -> Iterator[Row]:
    runtime, _ = modules()

    def told(a: int, b: int) -> str:
        with typed("asking for connections"):
            both = runtime.deviceCanAccessPeer(a, b) and runtime.deviceCanAccessPeer(b, a)
        return "they reach each other's memory" if both else "the driver copies over the host"

    for a, b in combinations(range(count), 2):
        yield f"cuda:{a}, cuda:{b}", _said(partial(told, a, b))


def _nccl() -> str:
    nccl = nccl_module()
    code = int(nccl.get_version())
    return f"{code // 10000}.{code % 10000 // 100}.{code % 100}"
