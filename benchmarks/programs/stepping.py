"""The instructions of a function, one at a time: a copy of this process traps after each of them.

Requirements: the function runs on the data of this process and changes none of them, since the copy
is a fork, which sees its own writes alone. The processor's trap flag stops after an instruction;
the handler is native code, so that an instruction takes microseconds. Only Linux on x86-64 is known
here; the state of an instruction is the registers before it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import signal
import sys
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

# The registers that a signal's context begins with, and where in it they are.
REGISTERS: Final = (
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax",
    "rcx", "rsp", "rip", "flags",
)  # fmt: skip
_CONTEXT_AT, _FLAGS_AT = 40, 40 + 8 * REGISTERS.index("flags")
_TRAP = 0x100
_SIGINFO = 4

# The state: rows that are written, rows that fit, and where they are.
_HANDLER = """
define void @handler(i32 %signal, ptr %information, ptr %context) {{
  %state = inttoptr i64 {state} to ptr
  %most_at = getelementptr i64, ptr %state, i64 1
  %rows_at = getelementptr i64, ptr %state, i64 2
  %number = load i64, ptr %state
  %most = load i64, ptr %most_at
  %rows = load ptr, ptr %rows_at
  %from = getelementptr i8, ptr %context, i64 {context}
  %first = mul i64 %number, {count}
  %to = getelementptr i64, ptr %rows, i64 %first
  br label %copy
copy:
  %i = phi i64 [ 0, %0 ], [ %next, %copy ]
  %source = getelementptr i64, ptr %from, i64 %i
  %target = getelementptr i64, ptr %to, i64 %i
  %word = load i64, ptr %source
  store i64 %word, ptr %target
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {count}
  br i1 %more, label %copy, label %done
done:
  %after = add i64 %number, 1
  store i64 %after, ptr %state
  %full = icmp uge i64 %after, %most
  br i1 %full, label %stop, label %go_on
stop:
  %flags_at = getelementptr i8, ptr %context, i64 {flags}
  %flags = load i64, ptr %flags_at
  %off = and i64 %flags, {untrapped}
  store i64 %off, ptr %flags_at
  br label %go_on
go_on:
  ret void
}}
"""
_STEPPED = """
define void @stepped(ptr %function, ptr %arguments, i64 %begin, i64 %end) {
  call void asm sideeffect "pushfq\\0Aorq $$256, (%rsp)\\0Apopfq", "~{memory},~{flags}"()
  call void %function(ptr %arguments, i64 %begin, i64 %end)
  call void asm sideeffect "pushfq\\0Aandq $$-257, (%rsp)\\0Apopfq", "~{memory},~{flags}"()
  ret void
}
"""


class SteppingError(RuntimeError):
    """A function cannot be stepped."""


class _Action(ctypes.Structure):
    """What glibc's sigaction takes."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_byte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Steps:
    """The registers before each instruction, a row each; ``whole``: whether the function ended."""

    registers: np.ndarray[Any, np.dtype[np.uint64]]
    whole: bool

    def of(self, name: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Return a register before each instruction."""
        return self.registers[:, REGISTERS.index(name)]


def stepped(function: int, size: int, arguments: int, begin: int, end: int, most: int) -> Steps:
    """Return the steps of a kernel's function on its cubes from ``begin`` to ``end``.

    The function is at an address, of ``size`` bytes; of what it calls no instruction is kept. At
    most ``most`` instructions are stepped.

    Raises
    ------
    SteppingError
        If the system or the processor is another one, or the function fails.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        raise SteppingError("only Linux on x86-64 steps through instructions here")
    from calor_cpu.llvm import binding
    from calor_cpu.loader import LoadedImage
    from calor_cpu.toolchain import compile_once

    binding().initialize_native_asmparser()
    count = len(REGISTERS)
    with mmap.mmap(-1, 8 * (3 + count * most)) as memory:
        words = np.frombuffer(memory, np.uint64)
        address = words.ctypes.data
        words[:3] = 0, most, address + 24
        numbers = {"state": address, "context": _CONTEXT_AT, "count": count, "flags": _FLAGS_AT}
        text = _HANDLER.format(**numbers, untrapped=~_TRAP)
        handler = LoadedImage(compile_once(text), "handler")
        trampoline = LoadedImage(compile_once(_STEPPED), "stepped")
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(trampoline.address)
        action = _Action(handler.address, flags=_SIGINFO)
        libc = ctypes.CDLL(None)
        child = os.fork()
        if child == 0:
            try:
                if libc.sigaction(signal.SIGTRAP, ctypes.byref(action), None) == 0:
                    call(function, arguments, begin, end)
                    os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        made = int(words[0])
        rows = words[3 : 3 + made * count].reshape(made, count).copy()
        del words
    if status or not made:
        raise SteppingError(f"the copy of the process ended with status {status:#x}")
    at = rows[:, REGISTERS.index("rip")]
    inside = (at >= function) & (at < function + size)
    return Steps(rows[inside], made < most)
