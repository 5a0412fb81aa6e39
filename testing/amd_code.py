"""HIP C++ as code objects of AMD's processors, by the system's clang, and what stands in them.

Requirements: a text is compiled once for a processor, and what was found is kept on disk by the
hash of compiler, options and text; code that would not load, or that computes products of matrices
otherwise than its text asks for, is an error.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from calor.cache import cache_directory
from calor.errors import CompileError
from calor_hip.toolchain import HipToolchain
from calor_kernel.device.storage import Storage

TOOLS = ("clang-22", "ld.lld-22", "llvm-objdump-22", "llvm-nm-22")
PACKAGES = "apt-get install --no-install-recommends clang-22 lld-22 llvm-22"
# The processors of the checks, with the units in lock step.
WAVES = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}


@cache
def missing() -> str | None:
    """Return how to get what this needs, None where it is there."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"there is no {', '.join(lacking)}; {PACKAGES}" if lacking else None


@cache
def _storage() -> Storage:
    return Storage(cache_directory() / "amd_code", limit=64 << 20)


@cache
def _version() -> str:
    said = subprocess.run([TOOLS[0], "--version"], capture_output=True, text=True, check=True)
    return said.stdout


def checked(source: str, name: str, processor: str) -> str:
    """Return the instructions of a text's code object; CompileError where something is amiss."""
    toolchain = HipToolchain(processor, WAVES[processor], clang=TOOLS[0])
    key = hashlib.sha256("\n".join((_version(), toolchain.target, source)).encode()).hexdigest()
    found = _storage().read(key)
    if found is None:
        found = _disassembled(toolchain.compile(source, name)).encode()
        _storage().write(key, found)
    code = found.decode()
    wanted = set(re.findall(r"__builtin_amdgcn_([mw]m[fm]a)_", source))
    made = set(re.findall(r"\bv_([mw]m[fm]a)_", code))
    if wanted != made:
        raise CompileError(f"{name} asks for {wanted or 'no'} matrix instructions and has {made}")
    if "s_swappc" in code or "undefined:" in code:
        raise CompileError(f"{name} calls functions that no library brings:\n{source}")
    return code


def _disassembled(image: bytes) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "made.co")
        path.write_bytes(image)
        lines = []
        for command in ([TOOLS[2], "-d", "--no-show-raw-insn"], [TOOLS[3], "-u", "-D"]):
            done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True)
            kept = [line.partition("//")[0].strip() for line in done.stdout.splitlines()]
            lines += [line if command[0] == TOOLS[2] else f"undefined: {line}" for line in kept]
        return "\n".join(lines)
