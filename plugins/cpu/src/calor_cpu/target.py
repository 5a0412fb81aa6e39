"""Which processor code is made for: the one that is here, a smaller one, or a foreign one.

Requirements: plain data, so that it travels to compile workers and is part of the cache's key; a
limited feature set runs on any larger processor, which is how narrow targets are tested.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Final

from calor.errors import DeviceError

VARIABLE: Final = "CALOR_CPU_TARGET"
STACK_BYTES: Final = 256 * 1024  # what memories of a kernel may take of a thread's stack

# What the levels of the x86-64 psABI have, as far as the printer asks for it.
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
    """A processor. ``flags`` are LLVM's names of features that it has; ``runs``: it is this one."""

    triple: str
    cpu: str
    flags: frozenset[str] = frozenset()
    features: str = ""
    runs: bool = True

    @property
    def architecture(self) -> str:
        """The first part of the triple, with one name for each architecture."""
        name = self.triple.partition("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)

    @property
    def is_x86(self) -> bool:
        """Whether intrinsics of x86 may be printed."""
        return self.architecture in ("x86_64", "i686", "i386")

    def has(self, flag: str) -> bool:
        """Return whether the processor has a feature of LLVM's name."""
        return flag in self.flags

    @property
    def vector_bytes(self) -> int:
        """The width of a vector register in bytes."""
        if self.has("avx512bw") and self.has("avx512vl"):
            return 64
        return 32 if self.has("avx2") else 16

    @property
    def vector_registers(self) -> int:
        """The number of vector registers."""
        return 32 if self.vector_bytes == 64 or self.architecture == "aarch64" else 16

    @property
    def converts_half(self) -> bool:
        """Whether float16 becomes float32 and back by instructions, subnormals included."""
        return self.has("f16c") or self.has("avx512f") or self.architecture == "aarch64"

    @property
    def has_fma(self) -> bool:
        """Whether a fused multiply-add is one instruction."""
        return self.has("fma") or self.has("avx512f") or self.architecture == "aarch64"

    def __str__(self) -> str:
        return f"{self.triple} {self.cpu} {self.features}".strip()


@cache
def native() -> Target:
    """Return the processor that is here."""
    from calor_cpu.llvm import binding

    llvm = binding()
    triple = llvm.get_process_triple()
    found = llvm.get_host_cpu_features()
    flags = frozenset(name for name, present in found.items() if present)
    return Target(triple, llvm.get_host_cpu_name(), flags, found.flatten())


def target_of(text: str | None = None) -> Target:
    """Return the target that a text names; without one, what CALOR_CPU_TARGET says.

    "native"; a processor of this architecture such as "x86-64-v3", of which the levels of x86-64
    are known here; or "aarch64-unknown-linux-gnu:generic", a foreign one to compile for.
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
            f"{VARIABLE}={text!r} is no target; write native, {', '.join(_LEVELS)}, or a triple "
            f"and a processor, aarch64-unknown-linux-gnu:generic"
        )
    here = native()
    missing = sorted(_LEVELS[text] - here.flags)
    if not here.is_x86 or missing:
        raise DeviceError(f"{VARIABLE}={text!r}: this processor lacks {', '.join(missing) or text}")
    return Target(here.triple, text, _LEVELS[text])
