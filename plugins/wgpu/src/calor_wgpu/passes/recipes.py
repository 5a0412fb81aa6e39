"""Operations composed of simpler ones, for languages without them: each as a block.

Only sums, products, comparisons and integers are used, so a language can print the blocks as
functions, or a pass can inline them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from calor.dtypes import (
    DType,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from calor_kernel.ir.nodes import Block, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes.rewriting import Rewriter
from calor_kernel.ir.types import Type
from calor_wgpu.passes import halves

UNSIGNED: Final = MappingProxyType({4: uint32, 8: uint64})
Recipe = Callable[..., Value]


def block_of(name: str, *dtypes: DType, wide: bool = True) -> Block | None:
    """Return the block that computes an operation, or None without a recipe.

    ``wide``: whether 64-bit types are available for 32-bit operations. float16 and bfloat16 are
    passed and returned as their bits.
    """
    recipe = RECIPES.get(name)
    if recipe is None:
        return None
    made = Rewriter()
    if name in ("float32_of", "of_float32"):
        argument = Value(Type(uint16 if name == "float32_of" else float32), "a")
        return made.function([argument], lambda: recipe(made, dtypes[0], argument))
    count = 1 if name == "odd" else OPS[name].operands
    arguments = [Value(Type(dtypes[0]), hint) for hint in "abc"[:count]]
    return made.function(arguments, lambda: recipe(made, *arguments, wide=wide))


def _bits(r: Rewriter, value: Value) -> Value:
    return r.convert(value, UNSIGNED[value.type.dtype.itemsize], "bitcast")


def _extreme(sign: str, tie: str) -> Recipe:
    def made(r: Rewriter, a: Value, b: Value, wide: bool) -> Value:
        # Equal numbers differ at most in the sign of a zero; the sum with a NaN is NaN.
        same = r.convert(r.make(tie, _bits(r, a), _bits(r, b)), a.type.dtype, "bitcast")
        rest = r.select(r.make("eq", a, b), same, r.make("add", a, b))
        return r.select(r.make(sign, a, b), a, r.select(r.make(sign, b, a), b, rest))

    return made


def _signs(r: Rewriter, value: Value) -> tuple[Value, Value]:
    """Return the bits of a number, and its sign bit."""
    bits = _bits(r, value)
    return bits, r.like(1 << (8 * value.type.dtype.itemsize - 1), bits)


def _copysign(r: Rewriter, a: Value, b: Value, wide: bool) -> Value:
    (x, sign), (y, _) = _signs(r, a), _signs(r, b)
    size = r.make("and", x, r.make("not", sign))
    return r.convert(r.make("or", size, r.make("and", y, sign)), a.type.dtype, "bitcast")


def _abs(r: Rewriter, a: Value, wide: bool) -> Value:
    bits, sign = _signs(r, a)
    return r.convert(r.make("and", bits, r.make("not", sign)), a.type.dtype, "bitcast")


def _neg(r: Rewriter, a: Value, wide: bool) -> Value:
    bits, sign = _signs(r, a)
    return r.convert(r.make("xor", bits, sign), a.type.dtype, "bitcast")


def _modulo(r: Rewriter, a: Value, b: Value, wide: bool) -> Value:
    return r.make("sub", a, r.make("mul", r.make("quotient", a, b), b))


def _mulhi(r: Rewriter, a: Value, b: Value, wide: bool) -> Value:
    dtype = a.type.dtype
    bits, signed = 8 * dtype.itemsize, dtype.kind == "int"
    if bits < 32 or (bits == 32 and wide):
        larger = (int32 if signed else uint32) if bits < 32 else (int64 if signed else uint64)
        product = r.make("mul", r.convert(a, larger), r.convert(b, larger))
        return r.convert(r.make("shr", product, r.like(bits, product)), dtype)
    x, y = (r.convert(v, UNSIGNED[dtype.itemsize]) for v in (a, b))
    half, mask = r.like(bits // 2, x), r.like((1 << bits // 2) - 1, x)

    def low(value: Value) -> Value:
        return r.make("and", value, mask)

    def high(value: Value) -> Value:
        return r.make("shr", value, half)

    left, right = r.make("mul", high(x), low(y)), r.make("mul", low(x), high(y))
    middle = r.make("add", high(r.make("mul", low(x), low(y))), low(left))
    middle = r.make("add", middle, right)
    made = r.make("add", r.make("mul", high(x), high(y)), high(left))
    made = r.make("add", made, high(middle))
    for value, other in ((a, y), (b, x)) if signed else ():
        negative = r.make("lt", value, r.like(0, value))
        made = r.make("sub", made, r.select(negative, other, r.like(0, other)))
    return r.convert(made, dtype)


def _counted(name: str) -> Recipe:
    """Count bits of small types in 32-bit words, of large ones in two of them."""

    def made(r: Rewriter, a: Value, wide: bool) -> Value:
        dtype = a.type.dtype
        bits = 8 * dtype.itemsize
        if bits < 32:
            word = r.convert(r.convert(a, uint8 if bits == 8 else uint16), uint32)
            if name == "ctz":
                word = r.make("or", word, r.like(1 << bits, word))
            found = r.make(name, word)
            if name == "clz":
                found = r.make("sub", found, r.like(32 - bits, found))
            return r.convert(found, dtype)
        whole = r.convert(a, uint64)
        high = r.convert(r.make("shr", whole, r.like(32, whole)), uint32)
        near, far = (high, r.convert(whole, uint32))[:: 1 if name == "clz" else -1]
        none = r.make("eq", near, r.like(0, near))
        more = r.make("add", r.make(name, far), r.like(32, far))
        return r.convert(r.select(none, more, r.make(name, near)), dtype)

    return made


def _rounded_to_odd(r: Rewriter, sum: Value, error: Value) -> Value:
    """Return an inexact sum rounded to odd: its last bit is set, on the error's side.

    A second rounding to fewer bits then equals a single rounding (Boldo and Melquiond, "When double
    rounding is odd", 2005).
    """
    zero, bits = r.like(0.0, error), _bits(r, sum)
    one = r.like(1, bits)
    above = r.make("gt", error, zero)
    lost = r.make("or", r.make("lt", error, zero), above)
    even = r.make("eq", r.make("and", bits, one), r.like(0, bits))
    away = r.make("eq", above, r.make("gt", sum, zero))
    next_ = r.select(away, r.make("add", bits, one), r.make("sub", bits, one))
    made = r.select(r.make("and", lost, even), next_, bits)
    return r.convert(made, sum.type.dtype, "bitcast")


def _sum(r: Rewriter, a: Value, b: Value) -> tuple[Value, Value]:
    """Return a sum and its rounding error (Knuth)."""
    made = r.make("add", a, b)
    other = r.make("sub", made, a)
    rest = r.make("sub", a, r.make("sub", made, other))
    return made, r.make("add", rest, r.make("sub", b, other))


def _product(r: Rewriter, a: Value, b: Value) -> tuple[Value, Value]:
    """Return a product and its rounding error (Dekker)."""
    made = r.make("mul", a, b)
    split = 2.0 ** (27 if a.type.dtype is float64 else 12) + 1.0

    def halves(value: Value) -> tuple[Value, Value]:
        large = r.make("mul", value, r.like(split, value))
        high = r.make("sub", large, r.make("sub", large, value))
        return high, r.make("sub", value, high)

    (ah, al), (bh, bl) = halves(a), halves(b)
    error = r.make("sub", r.make("mul", ah, bh), made)
    for x, y in ((ah, bl), (al, bh), (al, bl)):
        error = r.make("add", error, r.make("mul", x, y))
    return made, error


def _fma(r: Rewriter, a: Value, b: Value, c: Value, wide: bool) -> Value:
    dtype = a.type.dtype
    if dtype is float32 and wide:
        x, y, z = (r.convert(v, float64) for v in (a, b, c))
        # The product is exact.
        return r.convert(_rounded_to_odd(r, *_sum(r, r.make("mul", x, y), z)), float32)
    # Algorithm Fma of the paper.
    product, left = _product(r, a, b)
    plain = r.make("add", product, c)
    high, low = _sum(r, c, left)
    sum_, rest = _sum(r, product, high)
    made = r.make("add", sum_, _rounded_to_odd(r, *_sum(r, low, rest)))
    # If a part overflows, the plain sum is the best result. It is also used for a zero sum, because
    # it has the right sign.
    zero = r.like(0.0, made)
    none = r.make("and", r.make("eq", made, zero), r.make("eq", plain, zero))
    largest = r.like(float(np.finfo(dtype.numpy).max), made)
    fits = r.make("le", r.make("abs", made), largest)
    return r.select(r.make("and", fits, r.make("not", none)), made, plain)


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "min": _extreme("lt", "or"),
        "max": _extreme("gt", "and"),
        "copysign": _copysign,
        "abs": _abs,
        "neg": _neg,
        "modulo": _modulo,
        "mulhi": _mulhi,
        "clz": _counted("clz"),
        "ctz": _counted("ctz"),
        "popcount": _counted("popcount"),
        "fma": _fma,
        "float32_of": halves.widen,
        "of_float32": halves.narrow,
        "odd": lambda r, a, wide: halves.odd(r, a),
    }
)
