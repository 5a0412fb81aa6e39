"""What a core of this processor reads per second from each level, and its cycles per second.

Requirements: the loops are read-only and native, of the processor's widest vectors. A rate is that
of the fastest of several runs, so other processes count little.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_READ = """
define void @read(ptr %arguments, i64 %begin, i64 %end) {{
  %base = load ptr, ptr %arguments
  %size_at = getelementptr i64, ptr %arguments, i64 1
  %size = load i64, ptr %size_at
  br label %turn
turn:
  %number = phi i64 [ %begin, %0 ], [ %further, %turned ]
  br label %line
line:
  %at = phi i64 [ 0, %turn ], [ %next, %line ]
{loads}
  %next = add i64 %at, {step}
  %more = icmp ult i64 %next, %size
  br i1 %more, label %line, label %turned
turned:
  %further = add i64 %number, 1
  %again = icmp ult i64 %further, %end
  br i1 %again, label %turn, label %done
done:
  ret void
}}
"""
_CHAIN = """
define void @chain(ptr %arguments, i64 %begin, i64 %end) {
  br label %turn
turn:
  %number = phi i64 [ %begin, %0 ], [ %next, %turn ]
  call void asm sideeffect "imulq %rax, %rax\\0Aimulq %rax, %rax\\0Aimulq %rax, %rax\\0Aimulq %rax, %rax\\0Aimulq %rax, %rax\\0Aimulq %rax, %rax\\0Aimulq %rax, %rax\\0Aimulq %rax, %rax", "~{rax},~{flags}"()
  %next = add i64 %number, 1
  %more = icmp ult i64 %next, %end
  br i1 %more, label %turn, label %done
done:
  ret void
}
"""  # noqa: E501
# A multiplication waits three cycles for the one before, on every x86-64 of the last ten years.
_WAIT, _IN_TURN = 3, 8
_BYTES, _RUNS, _LOADS = 64 << 20, 5, 8


@dataclass(frozen=True)
class Rates:
    """Bytes per second from the first cache, the second one and behind it; cycles per second."""

    first: float
    second: float
    behind: float
    cycles: float


def measured(caches: Sequence[int], footprint: int, vector_bytes: int) -> Rates:
    """Return the rates of the core that runs this, behind its caches for a footprint in bytes."""
    from calor_cpu.llvm import binding
    from calor_cpu.loader import LoadedImage
    from calor_cpu.toolchain import compile_once

    binding().initialize_native_asmparser()
    lanes = vector_bytes // 4
    loads = "\n".join(
        f"  %at{i} = add i64 %at, {i * vector_bytes}\n"
        f"  %p{i} = getelementptr i8, ptr %base, i64 %at{i}\n"
        f"  %v{i} = load volatile <{lanes} x float>, ptr %p{i}, align {vector_bytes}"
        for i in range(_LOADS)
    )
    step = _LOADS * vector_bytes
    read = LoadedImage(compile_once(_READ.format(loads=loads, step=step)), "read")
    chain = LoadedImage(compile_once(_CHAIN), "chain")
    second = caches[1] if len(caches) > 1 else 16 * caches[0]
    sizes = (caches[0] // 2, second // 2, max(footprint, 4 * second))
    turns = 1 << 16
    cycles = turns * _IN_TURN * _WAIT / _least(lambda: chain.call(0, 0, turns))
    first, far, behind = (_rate(read, size // step * step) for size in sizes)
    return Rates(first, far, behind, cycles)


def _rate(read: Any, nbytes: int) -> float:
    room = np.ones(nbytes + 4096, np.uint8)
    start = room.ctypes.data + -room.ctypes.data % 4096
    arguments = (ctypes.c_int64 * 2)(start, nbytes)
    turns = max(1, _BYTES // nbytes)
    at = ctypes.addressof(arguments)
    return nbytes * turns / _least(lambda: read.call(at, 0, turns))


def _least(run: Any) -> float:
    run()
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
