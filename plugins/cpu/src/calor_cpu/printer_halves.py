"""Conversion of float16 and bfloat16, which are held as their bits, to float32 and back.

Requirements: one rounding, to nearest even, with denormals. float16 uses the processor's
instructions if present, else integers (the additions that round denormals are Fabian Giesen's,
2012). bfloat16 uses integers, because vcvtneps2bf16 flushes denormals and other processors would
call a library function that the process lacks. Vectors without denormals, which are most, take the
instruction where there is one.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, bfloat16, float16
from calor_cpu.writer import Writer, suffix, vector
from calor_kernel.ir.types import Type

# The bit of vfpclassps for denormals.
_DENORMAL: Final = 1 << 5


class Words:
    """Lanes of 32 bits as unsigned numbers, and as float32."""

    def __init__(self, w: Writer, width: int) -> None:
        self.w = w
        self.width = width
        self.type = vector("i32", width)
        self.floats = vector("float", width)
        self.mask = vector("i1", width)
        self.small = vector("i16", width)

    def number(self, n: int) -> str:
        """Return a constant in every lane."""
        return self.w.splat("i32", self.width, str(n))

    def do(self, name: str, a: str, b: str | int) -> str:
        """Return the result of an operation on two operands."""
        other = self.number(b) if isinstance(b, int) else b
        return self.w.let(f"{name} {self.type} {a}, {other}")

    def choose(self, condition: str, a: str | int, b: str) -> str:
        """Return a where a condition holds, else b."""
        one = self.number(a) if isinstance(a, int) else a
        return self.w.let(f"select {self.mask} {condition}, {self.type} {one}, {self.type} {b}")

    def as_float(self, bits: str) -> str:
        """Return bits as float32."""
        return self.w.let(f"bitcast {self.type} {bits} to {self.floats}")

    def as_bits(self, number: str) -> str:
        """Return float32 as its bits."""
        return self.w.let(f"bitcast {self.floats} {number} to {self.type}")

    def wide(self, halves: str) -> str:
        """Return 16 bits as 32."""
        return self.w.let(f"zext {self.small} {halves} to {self.type}")

    def low(self, words: str) -> str:
        """Return the low 16 bits."""
        return self.w.let(f"trunc {self.type} {words} to {self.small}")


def widen(w: Writer, dtype: DType, width: int, name: str) -> str:
    """Return bits of a half type as float32, exactly."""
    words = Words(w, width)
    if dtype is float16 and w.target.converts_half:
        half = vector("half", width)
        bits = w.let(f"bitcast {words.small} {name} to {half}")
        return w.let(f"fpext {half} {bits} to {words.floats}")
    wide = words.wide(name)
    if dtype is not float16:
        return words.as_float(words.do("shl", wide, 16))
    magnitude = words.do("shl", words.do("and", wide, 0x7FFF), 13)
    # The exponents of the two types differ by 112; the product is right for denormals too.
    power = w.splat("float", width, "0x46F0000000000000")
    scaled = w.let(f"fmul {words.floats} {words.as_float(magnitude)}, {power}")
    bits = words.as_bits(scaled)
    special = words.do("icmp uge", magnitude, 0x0F800000)
    bits = words.choose(special, words.do("or", bits, 0x7F800000), bits)
    sign = words.do("shl", words.do("and", wide, 0x8000), 16)
    return words.as_float(words.do("or", bits, sign))


def narrow(w: Writer, dtype: DType, width: int, name: str) -> str:
    """Return float32 as the bits of a half type."""
    words = Words(w, width)
    if dtype is not float16:
        return _narrow_bfloat16(words, name)
    if w.target.converts_half:
        half = vector("half", width)
        made = w.let(f"fptrunc {words.floats} {name} to {half}")
        return w.let(f"bitcast {half} {made} to {words.small}")
    bits = words.as_bits(name)
    magnitude = words.do("and", bits, 0x7FFFFFFF)
    half = w.splat("float", width, "0x3FE0000000000000")
    sum_ = w.let(f"fadd {words.floats} {words.as_float(magnitude)}, {half}")
    small = words.do("sub", words.as_bits(sum_), 0x3F000000)
    made = words.do("lshr", words.do("sub", _nearest(words, magnitude, 13), 112 << 23), 13)
    made = words.choose(words.do("icmp ult", magnitude, 0x38800000), small, made)
    made = words.choose(words.do("icmp uge", magnitude, 0x47800000), 0x7C00, made)
    made = words.choose(words.do("icmp ugt", magnitude, 0x7F800000), 0x7E00, made)
    sign = words.do("and", words.do("lshr", bits, 16), 0x8000)
    return words.low(words.do("or", made, sign))


def _narrow_bfloat16(words: Words, name: str) -> str:
    w, width = words.w, words.width
    if width % 8 or not (w.target.has("avx512bf16") and w.target.has("avx512dq")):
        return _by_integers(words, name)
    lanes = 8 if width % 16 else 16
    parts = [_lanes_of(words, name, k, lanes) for k in range(0, width, lanes)]
    flags, mask = vector("i1", lanes), f"i{lanes}"
    some = ""
    for part in parts:
        found = w.call(
            flags,
            f"llvm.x86.avx512.fpclass.ps.{lanes * 32}",
            (vector("float", lanes), part),
            ("i32", str(_DENORMAL)),
        )
        bits = w.let(f"bitcast {flags} {found} to {mask}")
        some = w.let(f"or {mask} {some}, {bits}") if some else bits
    any_ = w.let(f"icmp ne {mask} {some}, 0")
    exact, quick, after = w.fresh("denormals"), w.fresh("normals"), w.fresh("rounded")
    w.choose(any_, exact, quick)
    w.block(exact)
    slow = _by_integers(words, name)
    w.jump(after)
    w.block(quick)
    rounded = [_instruction(words, part, lanes) for part in parts]
    fast = w.join(Type(bfloat16, lanes), rounded)
    w.jump(after)
    w.block(after)
    return w.let(f"phi {words.small} [ {slow}, %{exact} ], [ {fast}, %{quick} ]")


def _lanes_of(words: Words, name: str, first: int, count: int) -> str:
    """Return some of the lanes of floats."""
    if words.width == count:
        return name
    lanes = ", ".join(f"i32 {first + i}" for i in range(count))
    of = words.floats
    return words.w.let(f"shufflevector {of} {name}, {of} poison, <{count} x i32> <{lanes}>")


def _instruction(words: Words, name: str, lanes: int) -> str:
    """Return floats rounded by vcvtneps2bf16, as bits."""
    made = words.w.call(
        vector("bfloat", lanes),
        f"llvm.x86.avx512bf16.cvtneps2bf16.{lanes * 32}",
        (vector("float", lanes), name),
    )
    small = vector("i16", lanes)
    return words.w.let(f"bitcast {vector('bfloat', lanes)} {made} to {small}")


def _by_integers(words: Words, name: str) -> str:
    bits = words.as_bits(name)
    rounded = words.do("lshr", _nearest(words, bits, 16), 16)
    quiet = words.do("or", words.do("lshr", bits, 16), 0x40)
    nan = words.w.let(f"fcmp uno {words.floats} {name}, {name}")
    return words.low(words.choose(nan, quiet, rounded))


def _nearest(words: Words, bits: str, count: int) -> str:
    """Return bits whose upper part is rounded to nearest even, by an addition below."""
    odd = words.do("and", words.do("lshr", bits, count), 1)
    return words.do("add", bits, words.do("add", odd, (1 << count - 1) - 1))


def odd(w: Writer, width: int, name: str) -> str:
    """Return float64 as float32 such that a second rounding equals a single one (round to odd).

    It truncates, and sets the last bit if the result is inexact (Boldo and Melquiond, 2008).
    """
    words, doubles = Words(w, width), vector("double", width)
    near = w.let(f"fptrunc {doubles} {name} to {words.floats}")
    back = w.let(f"fpext {words.floats} {near} to {doubles}")
    call = f"llvm.fabs.{suffix('double', width)}"
    sizes = [w.call(doubles, call, (doubles, x)) for x in (back, name)]
    tests = (f"fcmp ogt {doubles} {sizes[0]}, {sizes[1]}", f"fcmp one {doubles} {back}, {name}")
    above, lost = (w.let(f"zext {words.mask} {w.let(t)} to {words.type}") for t in tests)
    return words.as_float(words.do("or", words.do("sub", words.as_bits(near), above), lost))
