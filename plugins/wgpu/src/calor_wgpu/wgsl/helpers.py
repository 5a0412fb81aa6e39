"""Functions in WGSL for operations without an operator or builtin.

Requirements: only used functions are printed. They avoid behaviour that WGSL leaves undefined.
Operations built from simpler ones are printed from :mod:`calor_wgpu.passes.recipes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from calor.dtypes import DType, float32
from calor_kernel.printers.helpers import Made
from calor_wgpu.wgsl.recipes import Recipes

if TYPE_CHECKING:
    from .dialect import WGSL


class Functions(Recipes):
    """The functions that a kernel uses."""

    dialect: WGSL

    @property
    def functions(self) -> Mapping[str, Callable[..., Made]]:
        """The printers of helpers that are not recipes."""
        return _FUNCTIONS

    def has(self, helper: str, dtypes: Sequence[DType]) -> bool:
        """Return whether the language's extremes of float32 are right but for NaN."""
        return self.dialect.extremes and helper in ("min", "max") and tuple(dtypes) == (float32,)


def _rounded(t: Functions, parameters: str, steps: str, wide: str, other: str) -> Made:
    """Return a quotient or root by fma if it rounds once and no step leaves the range.

    If a step may leave the range, float64 (``wide``) is used, or ``other`` without float64.
    """
    body = f"return f32({wide});" if t.dialect.double else other
    if t.dialect.fused:
        inside = (f"abs({p}) > 1e-18f && abs({p}) < 1e+18f" for p in parameters)
        fast = "".join(f"\n  {line}" for line in steps.strip().splitlines())
        body = f"if ({' && '.join(inside)}) {{{fast}\n}}\n{body.strip()}"
    return dict.fromkeys(parameters, float32), float32, body


def _div(t: Functions, d: DType) -> Made:
    b = "b"
    if t.dialect.changes == "reassociates":
        # Compilers replace x / x by 1, and several quotients by one divisor by products, so each
        # quotient has its own hidden divisor.
        zero = f"{t.of(t.dialect.bits(d))}(args.zero)"
        b = t.number(f"{t.bits('b', d)} | (~{t.bits('a', d)} & {zero})", d)
    if d is not float32 or t.dialect.rounded:
        return {"a": d, "b": d}, d, f"return a / {b};"
    # Two Newton steps give the quotient; the divided remainder is its error (Markstein, IBM J. R&D
    # 34, 1990).
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
    return _rounded(t, "ab", steps, f"f64(a) / f64({b})", other)


def _sqrt(t: Functions, d: DType) -> Made:
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
    return _rounded(t, "x", steps, "sqrt(f64(x))", other)


def _apart(factor: str, other: str, last: str) -> Callable[[Functions, DType], Made]:
    """Return a sum or product as an fma, which costs the same and is not contracted."""

    def made(t: Functions, d: DType) -> Made:
        given = {str(n): t.dialect.of_bits(n, d, hidden=True) for n in (1.0, -1.0, -0.0)}
        terms = ", ".join(given.get(term, term) for term in (factor, other, last))
        return {"a": d, "b": d}, d, f"return fma({terms});"

    return made


def _extreme(name: str) -> Callable[[Functions, DType], Made]:
    """Return an extreme by the language's own function, which may return any number for NaN."""

    def made(t: Functions, d: DType) -> Made:
        # Such a compiler assumes that no number is NaN.
        hidden = t.dialect.changes == "reassociates"
        a, b = (f"{t.name('exact', d)}({x})" if hidden else x for x in "ab")
        return {"a": d, "b": d}, d, f"return select(a + b, {name}(a, b), (a == {a}) & (b == {b}));"

    return made


def _exact(t: Functions, d: DType) -> Made:
    unknown = f"{t.bits('x', d)} | {t.of(t.dialect.bits(d))}(args.zero)"
    return {"x": d}, d, f"return {t.number(unknown, d)};"


def _quotient(t: Functions, d: DType) -> Made:
    """Return a quotient of 64 bits, by a division of 32 bits where both numbers have as many.

    Indices have, and a GPU's division of 64 bits takes several times as long.
    """
    body = """
if ((u64(a | b) >> 32u) == 0lu) { return i64(u64(u32(a) / u32(b))); }
return a / b;"""
    return {"a": d, "b": d}, d, body


def _saturated(t: Functions, source: DType, d: DType) -> Made:
    """Return a float as an integer: truncated, saturated, NaN as 0."""
    least, most = int(np.iinfo(d.numpy).min), int(np.iinfo(d.numpy).max)
    # Such a compiler negates comparisons and assumes that no number is NaN.
    exact = t.name("exact", source) if t.dialect.changes == "reassociates" else ""
    body = f"""
if (x >= {exact}({t.literal(most + 1.0, source)})) {{ return {t.literal(most, d)}; }}
if (x >= {exact}({t.literal(float(least), source)})) {{ return {t.of(d)}(x); }}
return select({t.literal(0, d)}, {t.literal(least, d)}, x == {exact}(x));"""
    return {"x": source}, d, body


_FUNCTIONS: Final[Mapping[str, Callable[..., Made]]] = MappingProxyType(
    {
        "add": _apart("a", "1.0", "b"),
        "sub": _apart("b", "-1.0", "a"),
        "mul": _apart("a", "b", "-0.0"),
        "div": _div,
        "quotient": _quotient,
        "sqrt": _sqrt,
        "min": _extreme("min"),
        "max": _extreme("max"),
        "exact": _exact,
        "held": lambda t, d: ({"x": d}, d, "return x;"),
        "saturated": _saturated,
    }
)
