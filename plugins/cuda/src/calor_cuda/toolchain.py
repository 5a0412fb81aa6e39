"""From a kernel to an image of an NVIDIA GPU: CUDA C++, and what NVRTC makes of it.

Requirements: neither printing nor compiling needs a GPU or its driver, so that images are made and
tested anywhere; an image is machine code of one architecture, or PTX where the compiler is older
than the GPU, which the driver then compiles; calor keeps images on disk itself.
"""

from __future__ import annotations

from typing import Any, Final

from calor.errors import CompileError, DeviceError
from calor_kernel.device.printing import PrintingToolchain
from calor_kernel.printers.cuda_cpp import CudaCpp

from .bindings import INSTALL

# Contraction is the printer's; all else is what the language says: correctly rounded division and
# square roots, and small numbers as they are.
OPTIONS: Final = ("--fmad=false", "--std=c++17")
# The oldest that has the instructions of the dialect.
OLDEST: Final = (8, 0)
# From this on there are instructions that only a target of the very architecture has.
_OWN_FROM: Final = 9


class CudaToolchain(PrintingToolchain):
    """Kernels as CUDA C++ and as images; ``architecture`` is NVRTC's, such as ``"sm_90a"``."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self.dialect = CudaCpp()
        self.target = f"nvrtc {compiler_version()} {architecture} {' '.join(OPTIONS)}"

    def compile(self, source: str, name: str) -> bytes:
        """Return machine code, or PTX; CompileError with the compiler's log and the text."""
        from cuda.bindings import nvrtc

        options = [o.encode() for o in (f"--gpu-architecture={self.architecture}", *OPTIONS)]
        (program,) = _nvrtc("nvrtcCreateProgram", source.encode(), f"{name}.cu".encode(), 0, [], [])
        try:
            (code, *_) = nvrtc.nvrtcCompileProgram(program, len(options), options)
            if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
                log = _text("nvrtcGetProgramLog", program).decode(errors="replace").rstrip("\0\n ")
                raise CompileError(f"NVRTC refuses kernel {name!r}: {log}\n{source}")
            kind = "CUBIN" if self.architecture.startswith("sm_") else "PTX"
            return _text(f"nvrtcGet{kind}", program)
        finally:
            nvrtc.nvrtcDestroyProgram(program)


def compiler_version() -> str:
    """Return NVRTC's version; DeviceError where it is not installed."""
    return ".".join(map(str, _nvrtc("nvrtcVersion")))


def architecture(capability: tuple[int, int]) -> str:
    """Return the target of a compute capability; DeviceError for one that is too old.

    Where NVRTC does not know the capability it is the newest virtual one before, ``compute_…``.
    """
    major, minor = capability
    if capability < OLDEST:
        raise DeviceError(
            f"calor-cuda is for GPUs of compute capability {OLDEST[0]}.{OLDEST[1]} and newer, and "
            f"this one has {major}.{minor}; calor-opencl runs on it"
        )
    (known,) = _nvrtc("nvrtcGetSupportedArchs")
    number = 10 * major + minor
    if number in known:
        return f"sm_{number}{'a' if major >= _OWN_FROM else ''}"
    return f"compute_{max(n for n in known if n < number)}"


def _nvrtc(name: str, *arguments: Any) -> list[Any]:
    """Call a function of NVRTC; DeviceError where it is not installed, CompileError if it fails."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise DeviceError(f"calor-cuda compiles by cuda-bindings and NVRTC; {INSTALL}") from error
    try:
        code, *made = getattr(nvrtc, name)(*arguments)
    except RuntimeError as error:
        # cuda-bindings loads the library at the first call.
        raise DeviceError(f"NVRTC is not there: {error}; {INSTALL}") from error
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC: {name} answers {code}")
    return list(made)


def _text(name: str, program: Any) -> bytes:
    (size,) = _nvrtc(f"{name}Size", program)
    text = bytearray(size)
    _nvrtc(name, program, text)
    return bytes(text)
