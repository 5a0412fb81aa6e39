"""Compilation of a kernel to a code object for AMD GPUs: HIP C++, compiled by clang.

Requirements: neither printing nor compiling by clang needs a GPU, a driver or ROCm. Without clang,
hipRTC compiles, which is part of ROCm and also clang. An image is a code object for one processor.
calor caches images on disk itself.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from calor.errors import CompileError
from calor_kernel.device.printing import PrintingToolchain

from .bindings import compiler
from .dialect import HipCpp

# The printer contracts expressions. Correctly rounded division and square roots, and denormals, are
# the compiler's default.
OPTIONS: Final = ("-std=c++17", "-O3", "-ffp-contract=off", "-fno-strict-aliasing")
_BARE: Final = ("--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-w")


class HipToolchain(PrintingToolchain):
    """Kernels as HIP C++ and as code objects of a processor, such as ``gfx942``.

    ``wave`` is the wave size. ``clang`` is the compiler's path; None is hipRTC, whose version is
    part of the target.
    """

    dialect: HipCpp

    def __init__(
        self, processor: str, wave: int = 64, *, clang: str | None = None, version: str = ""
    ) -> None:
        self.processor = processor
        self.clang = clang
        self.dialect = HipCpp(wave)
        self.target = f"{clang or f'hiprtc {version}'} {processor} {wave} {' '.join(OPTIONS)}"

    def compile(self, source: str, name: str) -> bytes:
        """Return the code object.

        Raises
        ------
        CompileError
            If the compiler refuses the text; the message has its log and the text.
        """
        return self._by_hiprtc(source, name) if self.clang is None else self._by_clang(source, name)

    @property
    def options(self) -> list[str]:
        """The options of every compiler."""
        wide = "-mwavefrontsize64" if self.dialect.wave == 64 else "-mno-wavefrontsize64"
        return [f"--offload-arch={self.processor}", wide, *OPTIONS]

    def _by_clang(self, source: str, name: str) -> bytes:
        with tempfile.TemporaryDirectory() as scratch:
            text, made = Path(scratch, f"{name}.hip"), Path(scratch, f"{name}.co")
            text.write_text(source, "utf-8")
            command = [str(self.clang), "-x", "hip", *_BARE, *self.options]
            command += ["-o", str(made), str(text)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise CompileError(f"clang refuses kernel {name!r}: {done.stderr}\n{source}")
            return made.read_bytes()

    def _by_hiprtc(self, source: str, name: str) -> bytes:
        hiprtc: Any = compiler()
        program = hiprtc.createProgram(source, f"{name}.hip", (), ())
        try:
            hiprtc.compileProgram(program, self.options)
            # CuPy treats the code as a text and drops its last byte, a zero.
            return bytes(hiprtc.getPTX(program)) + b"\0"
        except RuntimeError as error:
            log = hiprtc.getProgramLog(program)
            message = f"hipRTC refuses kernel {name!r}: {error}: {log}\n{source}"
            raise CompileError(message) from error
        finally:
            hiprtc.destroyProgram(program)
