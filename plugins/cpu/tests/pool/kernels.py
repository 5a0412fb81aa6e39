"""Kernels for the tests, as text: the pool asks only for an address."""

import ctypes
from functools import cache

from calor_cpu.loader import LoadedImage
from calor_cpu.pool.native import compile_plainly

# out[i] += i for each cube i, so that a cube left out or run twice shows.
ADD = """
define void @add(ptr %args, i64 %begin, i64 %end) {
entry:
  %out = load ptr, ptr %args
  br label %next
next:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %leave
body:
  %at = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, %i
  store i64 %new, ptr %at
  %i.next = add i64 %i, 1
  br label %next
leave:
  ret void
}
"""

# out[0] = max(out[0], end - begin) and out[1] += 1: how the cubes were divided.
CHUNKS = """
define void @chunks(ptr %args, i64 %begin, i64 %end) {
  %out = load ptr, ptr %args
  %size = sub i64 %end, %begin
  %largest = atomicrmw max ptr %out, i64 %size seq_cst
  %count.at = getelementptr i64, ptr %out, i64 1
  %count = atomicrmw add ptr %count.at, i64 1 seq_cst
  ret void
}
"""

# Reads a slot whose value is a scalar, and the counts of cubes behind it: out[0..3].
ARGUMENTS = """
define void @arguments(ptr %args, i64 %begin, i64 %end) {
  %out = load ptr, ptr %args
  %scalar.at = getelementptr i64, ptr %args, i64 1
  %scalars = load <4 x i64>, ptr %scalar.at, align 8
  store <4 x i64> %scalars, ptr %out, align 8
  ret void
}
"""

# Counts to 2^16 for each cube, about half a millisecond.
SLOW = """
define void @slow(ptr %args, i64 %begin, i64 %end) {
entry:
  %cubes = sub i64 %end, %begin
  %turns = shl i64 %cubes, 16
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %i.next = add i64 %i, 1
  fence seq_cst
  %more = icmp slt i64 %i.next, %turns
  br i1 %more, label %next, label %leave
leave:
  ret void
}
"""

# Fails with out[0] as its code, as an assertion does.
FAIL = """
define void @fail(ptr %args, i64 %begin, i64 %end) {
  %out = load ptr, ptr %args
  %code = load i32, ptr %out
  %error.at = getelementptr i8, ptr %args, i64 -8
  %error = load ptr, ptr %error.at
  store atomic i32 %code, ptr %error monotonic, align 4
  ret void
}
"""


@cache
def image(text: str) -> LoadedImage:
    """Return a kernel's code, loaded."""
    name = text.partition("define void @")[2].partition("(")[0]
    return LoadedImage(compile_plainly(text), name)


def function(text: str) -> int:
    """Return a kernel's address."""
    return image(text).address


def memory(count: int) -> tuple[ctypes.Array[ctypes.c_int64], int]:
    """Return zeroed 64-bit integers, and their address."""
    block = (ctypes.c_int64 * count)()
    return block, ctypes.addressof(block)
