"""The processor for which code is generated: this one, a smaller one, or a foreign one.

Requirements: it is plain data, which travels to compile workers and is part of cache keys. Code for
a limited feature set runs on any larger processor, which is how narrow targets are tested.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

from calor.errors import DeviceError
from calor_cpu.processor import processor

VARIABLE: Final = "CALOR_CPU_TARGET"
STACK_BYTES: Final = 256 * 1024  # limit of a kernel's memory on a thread's stack

# The system call of x86-64 with its request for a component of the state, and tile registers'.
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18

# Features of the levels of the x86-64 psABI that the printer uses.
_V2: Final = frozenset(("sse4.1", "sse4.2", "ssse3", "popcnt"))
_V3: Final = _V2 | frozenset(("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"))
_V4: Final = _V3 | frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))
_LEVELS: Final = {
    "x86-64": frozenset[str](),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
}


@dataclass(frozen=True, slots=True)
class Target:
    """A processor. ``flags`` are its features in LLVM's names; ``runs``: code for it runs here."""

    triple: str
    cpu: str
    flags: frozenset[str] = frozenset()
    features: str = ""
    runs: bool = True

    @property
    def architecture(self) -> str:
        """The first part of the triple, normalized."""
        name = self.triple.partition("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)

    @property
    def is_x86(self) -> bool:
        """Whether x86 intrinsics may be printed."""
        return self.architecture in ("x86_64", "i686", "i386")

    def has(self, flag: str) -> bool:
        """Return whether the processor has a feature, in LLVM's name."""
        return flag in self.flags

    @property
    def vector_bytes(self) -> int:
        """The width of a vector register in bytes."""
        if self.masked_access:
            return 64
        return 32 if self.has("avx2") else 16

    @property
    def vector_registers(self) -> int:
        """The number of vector registers."""
        return 32 if self.vector_bytes == 64 or self.architecture == "aarch64" else 16

    @property
    def masked_access(self) -> bool:
        """Whether selected lanes of a vector are loaded and stored as fast as all."""
        return self.has("avx512bw") and self.has("avx512vl")

    @property
    def converts_half(self) -> bool:
        """Whether instructions convert float16 to float32 and back, including denormals."""
        return self.has("f16c") or self.has("avx512f") or self.architecture == "aarch64"

    @property
    def has_fma(self) -> bool:
        """Whether a fused multiply-add is one instruction."""
        return self.has("fma") or self.has("avx512f") or self.architecture == "aarch64"

    def __str__(self) -> str:
        return f"{self.triple} {self.cpu} {self.features}".strip()


@cache
def native() -> Target:
    """Return this processor."""
    here = processor()
    found = dict(here.features)
    if found.get("amx-tile") and not _tiles_permitted():
        for name in [name for name in found if name.startswith("amx-")]:
            found[name] = False
    flags = frozenset(name for name, present in found.items() if present)
    text = ",".join(f"{'+' if present else '-'}{name}" for name, present in found.items())
    return Target(here.triple, here.cpu, flags, text)


def _tiles_permitted() -> bool:
    """Ask Linux for the use of tile registers, whose state is large; return whether it is given.

    Source: Linux, Documentation/arch/x86/xstate.rst. The permission is the process's; threads and
    children have it too.
    """
    if not sys.platform.startswith("linux"):
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    return int(syscall(*map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST, _TILE_DATA)))) == 0


def target_of(text: str | None = None) -> Target:
    """Return the target for a text; None is CALOR_CPU_TARGET.

    The text is "native"; a processor of this architecture such as "x86-64-v3" (levels of x86-64 are
    known); or a foreign one to compile for, such as "aarch64-unknown-linux-gnu:generic".
    """
    text = text or os.environ.get(VARIABLE, "") or "native"
    if text == "native":
        return native()
    triple, colon, cpu = text.partition(":")
    if colon:
        flags = _LEVELS.get(cpu, frozenset())
        return Target(triple, cpu, flags, runs=False)
    if text not in _LEVELS:
        raise DeviceError(
            f"{VARIABLE}={text!r} is not a target; write native, {', '.join(_LEVELS)}, or a triple "
            f"and a processor such as aarch64-unknown-linux-gnu:generic"
        )
    here = native()
    missing = sorted(_LEVELS[text] - here.flags)
    if not here.is_x86 or missing:
        raise DeviceError(f"{VARIABLE}={text!r}: this processor lacks {', '.join(missing) or text}")
    return Target(here.triple, text, _LEVELS[text])
