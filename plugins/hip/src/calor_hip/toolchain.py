"""From a kernel to a code object of an AMD GPU: HIP C++, and what clang makes of it.

Requirements: neither printing nor compiling by clang needs a GPU, its driver or ROCm; hipRTC, which
ROCm brings and which is clang too, compiles where there is no clang; an image is a code object of
one processor; calor keeps images on disk itself.
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

# Contraction is the printer's; division and square roots are correctly rounded and small numbers
# stay as they are without being asked for.
OPTIONS: Final = ("-std=c++17", "-O3", "-ffp-contract=off", "-fno-strict-aliasing")
_BARE: Final = ("--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-w")


class HipToolchain(PrintingToolchain):
    """Kernels as HIP C++ and as code objects of a processor, such as ``gfx942``.

    ``wave``: the units in lock step. ``clang``: the compiler's path; None is hipRTC, of the version
    that is part of the target.
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
        """Return the code object; CompileError with the compiler's log and the text."""
        return self._by_hiprtc(source, name) if self.clang is None else self._by_clang(source, name)

    @property
    def options(self) -> list[str]:
        """What every compiler is asked."""
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
            # CuPy takes the code for a text, and leaves out its last byte, a zero.
            return bytes(hiprtc.getPTX(program)) + b"\0"
        except RuntimeError as error:
            log = hiprtc.getProgramLog(program)
            message = f"hipRTC refuses kernel {name!r}: {error}: {log}\n{source}"
            raise CompileError(message) from error
        finally:
            hiprtc.destroyProgram(program)
