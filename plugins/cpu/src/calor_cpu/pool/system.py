"""The native text's needs of operating system and processor: sleep, wake, clock, thread affinity.

Requirements: all systems have the same functions, so the pool has one text. A wait returns if the
word has changed, if it is woken, and sometimes spuriously, so callers check again. Linux sleeps on
a futex (Drepper, "Futexes Are Tricky", 2011), Windows on an address, other POSIX systems on a
condition variable in the pool. Thread affinity is read and set on Linux only.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

# Numbers of the system calls futex and sched_setaffinity. On processors without an entry, Linux is
# treated as any POSIX system.
_CALLS = {
    "x86_64": (202, 203),
    "aarch64": (98, 122),
    "riscv64": (98, 122),
    "loongarch64": (98, 122),
    "s390x": (238, 239),
}

_LINUX = """
declare i64 @syscall(i64, ...)

define void @prepare(ptr %pool) {
  ret void
}

; 128 = FUTEX_WAIT, 129 = FUTEX_WAKE, both of this process alone.
define internal void @wait(ptr %pool, ptr %word, i32 %expected) {
  %value = zext i32 %expected to i64
  call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 128, i64 %value, ptr null)
  ret void
}

define internal void @wake(ptr %pool, ptr %word, i32 %count) {
  %most = zext i32 %count to i64
  call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 129, i64 %most)
  ret void
}
"""

_LINUX_PLACES = """
declare i32 @sched_getcpu()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; The processor on which the calling thread runs.
define internal i32 @processor() {
  %number = call i32 @sched_getcpu()
  ret i32 %number
}

; Let the workers run on every processor that they may use but one. Where none is left, or the
; system refuses, they stay as they are.
define internal void @keep_off(ptr %pool, i32 %processor) {
entry:
  %mask = alloca [16 x i64], align 8
  %allowed = getelementptr i8, ptr %pool, i64 $pool_allowed
  %ids.from = getelementptr i8, ptr %pool, i64 $pool_ids
  %near.from = getelementptr i8, ptr %pool, i64 $pool_near
  %ids = load atomic ptr, ptr %ids.from acquire, align 8
  %near = load atomic i64, ptr %near.from acquire, align 8
  %known = icmp ult i32 %processor, 1024
  br i1 %known, label %mark, label %out
mark:
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %allowed, i64 128, i1 false)
  %number = zext i32 %processor to i64
  %place = lshr i64 %number, 6
  %shift = and i64 %number, 63
  %bit = shl i64 1, %shift
  %others = xor i64 %bit, -1
  %word.at = getelementptr i64, ptr %mask, i64 %place
  %word = load i64, ptr %word.at
  %left = and i64 %word, %others
  store i64 %left, ptr %word.at
  br label %next
next:
  %i = phi i64 [ 0, %mark ], [ %i.next, %tell ]
  %more = icmp slt i64 %i, %near
  br i1 %more, label %tell, label %out
tell:
  %id.from = getelementptr i32, ptr %ids, i64 %i
  %id = load i32, ptr %id.from
  %id.wide = sext i32 %id to i64
  call i64 (i64, ...) @syscall(i64 $affinity, i64 %id.wide, i64 128, ptr %mask)
  %i.next = add i64 %i, 1
  br label %next
out:
  ret void
}
"""

_NO_PLACES = """
define internal i32 @processor() {
  ret i32 -1
}

define internal void @keep_off(ptr %pool, i32 %processor) {
  ret void
}
"""

_POSIX = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define void @prepare(ptr %pool) {
  %mutex = getelementptr i8, ptr %pool, i64 $pool_mutex
  %condition = getelementptr i8, ptr %pool, i64 $pool_condition
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}

define internal void @wait(ptr %pool, ptr %word, i32 %expected) {
entry:
  %mutex = getelementptr i8, ptr %pool, i64 $pool_mutex
  %condition = getelementptr i8, ptr %pool, i64 $pool_condition
  call i32 @pthread_mutex_lock(ptr %mutex)
  %value = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %value, %expected
  br i1 %same, label %sleep, label %leave
sleep:
  call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %leave
leave:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; Workers and callers share the condition, so all are woken and look at their words.
define internal void @wake(ptr %pool, ptr %word, i32 %count) {
  %mutex = getelementptr i8, ptr %pool, i64 $pool_mutex
  %condition = getelementptr i8, ptr %pool, i64 $pool_condition
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %condition)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}
"""

_WINDOWS = """
declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressSingle(ptr)
declare void @WakeByAddressAll(ptr)

define void @prepare(ptr %pool) {
  ret void
}

; -1 = INFINITE.
define internal void @wait(ptr %pool, ptr %word, i32 %expected) {
  %compare = alloca i32
  store i32 %expected, ptr %compare
  call i32 @WaitOnAddress(ptr %word, ptr %compare, i64 4, i32 -1)
  ret void
}

define internal void @wake(ptr %pool, ptr %word, i32 %count) {
entry:
  %one = icmp eq i32 %count, 1
  br i1 %one, label %single, label %all
single:
  call void @WakeByAddressSingle(ptr %word)
  ret void
all:
  call void @WakeByAddressAll(ptr %word)
  ret void
}
"""

_POSIX_CLOCK = """
declare i32 @clock_gettime(i32, ptr)

define i64 @now() {
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 $clock, ptr %time)
  %seconds = load i64, ptr %time
  %fraction.at = getelementptr i8, ptr %time, i64 8
  %fraction = load i64, ptr %fraction.at
  %whole = mul i64 %seconds, 1000000000
  %total = add i64 %whole, %fraction
  ret i64 %total
}
"""

# The product of ticks and 1e9 exceeds 64 bits after some minutes; a double represents it to the
# nanosecond for a hundred days.
_WINDOWS_CLOCK = """
declare i32 @QueryPerformanceCounter(ptr)

define i64 @now() {
  %count = alloca i64
  call i32 @QueryPerformanceCounter(ptr %count)
  %ticks = load i64, ptr %count
  %real = sitofp i64 %ticks to double
  %scaled = fmul double %real, $tick
  %total = fptosi double %scaled to i64
  ret i64 %total
}
"""

_PAUSE = {
    "x86_64": """
declare void @llvm.x86.sse2.pause()

define internal void @pause() {
  call void @llvm.x86.sse2.pause()
  ret void
}
""",
    # `yield` does nothing on most Arm processors; an instruction barrier takes some ten cycles.
    "aarch64": """
declare void @llvm.aarch64.isb(i32)

define internal void @pause() {
  call void @llvm.aarch64.isb(i32 15)
  ret void
}
""",
}

_NO_PAUSE = """
define internal void @pause() {
  ret void
}
"""

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True, slots=True)
class System:
    """The text of the functions with its constants, and the imported symbols."""

    text: str
    constants: Mapping[str, str]
    symbols: tuple[str, ...]


def system(name: str = sys.platform, machine: str | None = None) -> System:
    """Return the functions of a system; ``name`` is as sys.platform, ``machine`` as uname.

    >>> "futex" in system("linux", "x86_64").constants
    True
    """
    kind = (machine or platform.machine()).lower()
    kind = _MACHINES.get(kind, kind)
    pause = _PAUSE.get(kind, _NO_PAUSE)
    if name == "win32":
        tick = f"0x{_double_bits(_windows_tick()):016X}"
        wakes = ("WakeByAddressSingle", "WakeByAddressAll")
        symbols = ("WaitOnAddress", *wakes, "QueryPerformanceCounter")
        parts = _WINDOWS + _WINDOWS_CLOCK + _NO_PLACES + pause
        return System(parts, {"tick": tick}, symbols)
    constants = {"clock": str(_monotonic())}
    if name == "linux" and kind in _CALLS:
        futex, affinity = _CALLS[kind]
        constants |= {"futex": str(futex), "affinity": str(affinity)}
        used = ("syscall", "clock_gettime", "sched_getcpu")
        return System(_LINUX + _LINUX_PLACES + _POSIX_CLOCK + pause, constants, used)
    calls = ("mutex_init", "mutex_lock", "mutex_unlock", "cond_init", "cond_wait", "cond_broadcast")
    threads = (f"pthread_{call}" for call in calls)
    parts = _POSIX + _POSIX_CLOCK + _NO_PLACES + pause
    return System(parts, constants, (*threads, "clock_gettime"))


def _monotonic() -> int:
    return int(getattr(time, "CLOCK_MONOTONIC", 1))


def _windows_tick() -> float:
    """Return nanoseconds for one tick of the performance counter; 100 on other systems."""
    if platform.system() != "Windows":
        return 100.0
    frequency = ctypes.c_int64()
    ctypes.CDLL("kernel32").QueryPerformanceFrequency(ctypes.byref(frequency))
    return 1e9 / frequency.value


def _double_bits(value: float) -> int:
    return ctypes.c_uint64.from_buffer(ctypes.c_double(value)).value
