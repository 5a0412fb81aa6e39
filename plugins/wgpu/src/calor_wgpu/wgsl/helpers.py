"""Functions in WGSL for what the language has no operator or builtin for.

Requirements: only what a kernel uses is printed; nothing is reached that WGSL leaves open; what is
made of simpler operations is printed from :mod:`calor_kernel.ir.recipes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from calor.dtypes import DType, float32
from calor_kernel.ir.types import Type
from calor_kernel.printers.numbers import bits_of

if TYPE_CHECKING:
    from .dialect import WGSL

Made = tuple[str, str]
SUFFIXES: Final = MappingProxyType({"i32": "i", "u32": "u", "i64": "li", "u64": "lu"})


def _function(
    dialect: WGSL, name: str, parameters: Mapping[str, DType], result: DType, body: str
) -> Made:
    declared = ", ".join(f"{p}: {dialect.type(Type(d))}" for p, d in parameters.items())
    lines = "".join(f"  {line}\n" for line in body.strip().splitlines())
    return name, f"fn {name}({declared}) -> {dialect.type(Type(result))} {{\n{lines}}}"


def _bits(dialect: WGSL, dtype: DType) -> str:
    return dialect.types[dialect.bits(dtype)]


def _rounded(dialect: WGSL, name: str, parameters: str, steps: str, wide: str, other: str) -> Made:
    """Return a quotient or root by fma, where it rounds once and no step leaves the range.

    Where a step may leave it, ``wide`` is taken, of float64, or ``other`` where that is missing.
    """
    body = f"return f32({wide});" if dialect.double else other
    if dialect.fused:
        inside = (f"abs({p}) > 1e-18f && abs({p}) < 1e+18f" for p in parameters)
        fast = "".join(f"\n  {line}" for line in steps.strip().splitlines())
        body = f"if ({' && '.join(inside)}) {{{fast}\n}}\n{body.strip()}"
    return _function(dialect, name, dict.fromkeys(parameters, float32), float32, body)


def _div(dialect: WGSL, name: str, d: DType) -> Made:
    b = "b"
    if dialect.changes == "reassociates":
        # Of x / x compilers make 1, and of several quotients by one number products, so that each
        # has a divisor of its own, of which they do not know which number it is.
        f, u = dialect.types[d], _bits(dialect, d)
        b = f"bitcast<{f}>(bitcast<{u}>(b) | (~bitcast<{u}>(a) & {u}(args.zero)))"
    if d is not float32 or dialect.rounded:
        return _function(dialect, name, {"a": d, "b": d}, d, f"return a / {b};")
    # Two steps of Newton give the quotient, and what is left of it, divided, is its error
    # (Markstein, IBM J. R&D 34, 1990).
    steps = """
let near = 1.0f / b;
let inverse = fma(fma(-b, near, 1.0f), near, near);
let q = a * inverse;
let better = fma(fma(-b, q, a), inverse, q);
return fma(fma(-b, better, a), inverse, better);"""
    other = f"""
let q = a / {b};
let made = q + fma(-q, b, a) / b;
return select(q, made, abs(made) <= 3.4028235e+38f && abs(q) > 1e-30f);"""
    return _rounded(dialect, name, "ab", steps, f"f64(a) / f64({b})", other)


def _sqrt(dialect: WGSL, name: str, d: DType) -> Made:
    # Goldschmidt's steps, then Markstein's; for every float32 and an inverse within 3 ulp.
    steps = """
let near = inverseSqrt(x);
let s = x * near;
let half = 0.5f * near;
let e = fma(-s, half, 0.5f);
let better = fma(s, e, s);
return fma(fma(-better, better, x), fma(half, e, half), better);"""
    other = """
let s = sqrt(x);
let made = s + fma(-s, s, x) / (2.0f * s);
return select(s, made, abs(made) <= 3.4028235e+38f && x > 1e-30f);"""
    return _rounded(dialect, name, "x", steps, "sqrt(f64(x))", other)


def of_bits(dialect: WGSL, number: float, d: DType, hidden: bool = True) -> str:
    """Return a number by its bits, and where it is hidden as one of which no compiler knows it.

    A zero is given with arguments, and the bits are set by an or: what is hidden twice is so still,
    while two xors would be none.
    """
    u = _bits(dialect, d)
    unknown = f" | {u}(args.zero)" if hidden else ""
    return f"bitcast<{dialect.types[d]}>({hex(bits_of(number, d))}{SUFFIXES[u]}{unknown})"


def _exact(dialect: WGSL, name: str, d: DType) -> Made:
    f, u = dialect.types[d], _bits(dialect, d)
    body = f"return bitcast<{f}>(bitcast<{u}>(x) | {u}(args.zero));"
    return _function(dialect, name, {"x": d}, d, body)


def _apart(factor: str, other: str, last: str) -> Callable[..., Made]:
    """Return a sum or product as an fma, which costs no more and is joined with nothing."""

    def made(dialect: WGSL, name: str, d: DType) -> Made:
        given = {"a": "a", "b": "b"}
        given |= {str(n): of_bits(dialect, n, d) for n in (1.0, -1.0, -0.0)}
        body = f"return fma({given[factor]}, {given[other]}, {given[last]});"
        return _function(dialect, name, {"a": d, "b": d}, d, body)

    return made


def _held(dialect: WGSL, name: str, d: DType) -> Made:
    return _function(dialect, name, {"x": d}, d, "return x;")


def _saturated(dialect: WGSL, name: str, source: DType, d: DType) -> Made:
    """A float to an integer: truncated, saturated, NaN to 0."""
    bits = d.itemsize * 8 - (d.kind == "int")
    most, least = (1 << bits) - 1, -(1 << bits) if d.kind == "int" else 0
    top, high = dialect.literal(2.0**bits, source).text, dialect.literal(most, d).text
    bottom = dialect.literal(-(2.0**bits) if d.kind == "int" else 0.0, source).text
    zero, low = dialect.literal(0, d).text, dialect.literal(least, d).text
    body = f"""
if (x >= {top}) {{ return {high}; }}
if (x >= {bottom}) {{ return {dialect.types[d]}(x); }}
return select({zero}, {low}, x == x);"""
    return _function(dialect, name, {"x": source}, d, body)


HELPERS: Final[Mapping[str, Callable[..., Made]]] = MappingProxyType(
    {
        "add": _apart("a", "1.0", "b"),
        "sub": _apart("b", "-1.0", "a"),
        "mul": _apart("a", "b", "-0.0"),
        "div": _div,
        "sqrt": _sqrt,
        "exact": _exact,
        "held": _held,
        "saturated": _saturated,
    }
)
