"""Compilation of a kernel to an image for NVIDIA GPUs: CUDA C++, compiled by NVRTC.

Requirements: neither printing nor compiling needs a GPU or driver, so images are built and tested
anywhere. An image is machine code for one architecture, or PTX for a GPU newer than the compiler,
which the driver compiles. calor caches images on disk itself.
"""

from __future__ import annotations

from typing import Any, Final

from calor.errors import CompileError, DeviceError
from calor_cuda.cuda_cpp import CudaCpp
from calor_kernel.device.printing import PrintingToolchain

from .bindings import INSTALL

# The printer contracts expressions. All else follows the language: correctly rounded division and
# square roots, and denormals. Declarations of textures and of the runtime take time to read, and no
# kernel uses them.
OPTIONS: Final = ("--fmad=false", "--std=c++17", "--minimal")
# The oldest capability with the dialect's instructions.
OLDEST: Final = (8, 0)
# From this capability on, some instructions need the architecture-specific target ("a").
_OWN_FROM: Final = 9


class CudaToolchain(PrintingToolchain):
    """Kernels as CUDA C++ and as images; ``architecture`` is NVRTC's, such as ``"sm_90a"``."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self.dialect = CudaCpp()
        self.target = f"nvrtc {compiler_version()} {architecture} {' '.join(OPTIONS)}"

    def prepare(self) -> None:
        """Load NVRTC and its built-in files, by a kernel that does nothing."""
        self.compile('extern "C" __global__ void nothing() {}', "nothing")

    def compile(self, source: str, name: str) -> bytes:
        """Return machine code or PTX.

        Raises
        ------
        CompileError
            If NVRTC refuses the text; the message has its log and the text.
        """
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
    """Return NVRTC's version.

    Raises
    ------
    DeviceError
        If NVRTC is not installed.
    """
    return ".".join(map(str, _nvrtc("nvrtcVersion")))


def architecture(capability: tuple[int, int]) -> str:
    """Return the target for a compute capability.

    If NVRTC does not know the capability, it is the newest older virtual one, ``compute_…``.

    Raises
    ------
    DeviceError
        If the capability is too old.
    """
    major, minor = capability
    if capability < OLDEST:
        raise DeviceError(
            f"calor-cuda needs a GPU of compute capability {OLDEST[0]}.{OLDEST[1]} or newer, and "
            f"this one has {major}.{minor}; use calor-opencl on it"
        )
    (known,) = _nvrtc("nvrtcGetSupportedArchs")
    number = 10 * major + minor
    if number in known:
        return f"sm_{number}{'a' if major >= _OWN_FROM else ''}"
    return f"compute_{max(n for n in known if n < number)}"


def _nvrtc(name: str, *arguments: Any) -> list[Any]:
    """Call a function of NVRTC.

    Raises
    ------
    DeviceError
        If NVRTC is not installed.
    CompileError
        If the function fails.
    """
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise DeviceError(
            f"calor-cuda compiles with cuda-bindings and NVRTC, which are not installed; {INSTALL}"
        ) from error
    try:
        code, *made = getattr(nvrtc, name)(*arguments)
    except RuntimeError as error:
        # cuda-bindings loads NVRTC at the first call.
        raise DeviceError(f"NVRTC is not installed: {error}; {INSTALL}") from error
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC's function {name} returned the error {code}")
    return list(made)


def _text(name: str, program: Any) -> bytes:
    (size,) = _nvrtc(f"{name}Size", program)
    text = bytearray(size)
    _nvrtc(name, program, text)
    return bytes(text)
