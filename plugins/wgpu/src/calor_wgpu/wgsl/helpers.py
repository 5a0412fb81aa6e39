"""Functions in WGSL for what the language has no operator or builtin for.

Requirements: only what a kernel uses is printed; nothing is reached that WGSL leaves open; where
fma is a product and a sum, which the language allows, it is computed from exact parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from calor.dtypes import DType, bfloat16, float16, float32, float64, uint32, uint64
from calor_kernel.ir.types import Type

if TYPE_CHECKING:
    from .dialect import WGSL

Made = tuple[str, str]


def _function(
    dialect: WGSL, name: str, parameters: Mapping[str, DType], result: DType, body: str
) -> Made:
    declared = ", ".join(f"{p}: {dialect.type(Type(d))}" for p, d in parameters.items())
    lines = "".join(f"  {line}\n" for line in body.strip().splitlines())
    return name, f"fn {name}({declared}) -> {dialect.type(Type(result))} {{\n{lines}}}"


def _bits(dialect: WGSL, dtype: DType) -> str:
    return dialect.types[dialect.bits(dtype)]


def _extreme(sign: str, tie: str) -> Callable[..., Made]:
    def made(dialect: WGSL, name: str, d: DType) -> Made:
        # Equal numbers differ at most in the sign of a zero; a sum of a NaN is one.
        f, u = dialect.types[d], _bits(dialect, d)
        body = f"""
if (a {sign} b) {{ return a; }}
if (b {sign} a) {{ return b; }}
if (a == b) {{ return bitcast<{f}>(bitcast<{u}>(a) {tie} bitcast<{u}>(b)); }}
return a + b;"""
        return _function(dialect, name, {"a": d, "b": d}, d, body)

    return made


def _copysign(dialect: WGSL, name: str, d: DType) -> Made:
    f, u = dialect.types[d], _bits(dialect, d)
    sign = dialect.literal(1 << (8 * d.itemsize - 1), dialect.bits(d)).text
    body = f"return bitcast<{f}>((bitcast<{u}>(a) & ~{sign}) | (bitcast<{u}>(b) & {sign}));"
    return _function(dialect, name, {"a": d, "b": d}, d, body)


def _step(dialect: WGSL, d: DType) -> Callable[[str], str]:
    """Return what gives the text of a float operation that is done as it is written."""
    f, u = dialect.types[d], _bits(dialect, d)
    if not dialect.changes:
        return lambda text: f"({text})"
    return lambda text: f"bitcast<{f}>(bitcast<{u}>({text}) ^ {u}(args.zero))"


def _sign(operator: str) -> Callable[..., Made]:
    def made(dialect: WGSL, name: str, d: DType) -> Made:
        f, u = dialect.types[d], _bits(dialect, d)
        sign = dialect.literal(1 << (8 * d.itemsize - 1), dialect.bits(d)).text
        body = f"return bitcast<{f}>(bitcast<{u}>(x) {operator}{sign});"
        return _function(dialect, name, {"x": d}, d, body)

    return made


def _fma(dialect: WGSL, name: str, d: DType) -> Made:
    parameters = {"a": d, "b": d, "c": d}
    if d is float32 and dialect.double and dialect.wide:
        # The product is exact; the sum is rounded to odd, so that rounding it once more is as if
        # there were one rounding (Boldo and Melquiond, "When double rounding is odd", 2005).
        step = _step(dialect, float64)
        body = f"""
let x = f64(a) * f64(b);
let y = f64(c);
let s = {step("x + y")};
let t = {step("s - x")};
let u = {step("s - t")};
let e = {step("x - u")} + {step("y - t")};
var w = bitcast<u64>(s);
if ((e < 0.0lf || e > 0.0lf) && (w & 1lu) == 0lu) {{
  if ((e > 0.0lf) == (s > 0.0lf)) {{ w = w + 1lu; }} else {{ w = w - 1lu; }}
}}
return f32(bitcast<f64>(w));"""
        return _function(dialect, name, parameters, d, body)
    # Dekker's product and Knuth's sum, then as above (algorithm Fma of the same paper).
    f, u = dialect.types[d], _bits(dialect, d)
    split = dialect.literal(2.0 ** (27 if d is float64 else 12) + 1.0, d).text
    largest = dialect.literal(float(np.finfo(d.numpy).max), d).text
    zero, one = dialect.literal(0.0, d).text, dialect.literal(1, dialect.bits(d)).text
    step = _step(dialect, d)
    body = f"""
let p = {step("a * b")};
let plain = p + c;
let aa = {step(f"a * {split}")};
let bb = {step(f"b * {split}")};
let ar = {step("aa - a")};
let br = {step("bb - b")};
let ah = {step("aa - ar")};
let bh = {step("bb - br")};
let al = {step("a - ah")};
let bl = {step("b - bh")};
let q0 = {step(f"{step('ah * bh')} - p")};
let q1 = {step(f"q0 + {step('ah * bl')}")};
let q2 = {step(f"q1 + {step('al * bh')}")};
let q = {step(f"q2 + {step('al * bl')}")};
let th = {step("c + q")};
let tt = {step("th - c")};
let tr = {step("th - tt")};
let tl = {step("c - tr")} + {step("q - tt")};
let vh = {step("p + th")};
let vt = {step("vh - p")};
let vr = {step("vh - vt")};
let vl = {step("p - vr")} + {step("th - vt")};
let z = {step("tl + vl")};
let zt = {step("z - tl")};
let zr = {step("z - zt")};
let e = {step("tl - zr")} + {step("vl - zt")};
var w = bitcast<{u}>(z);
if ((e < {zero} || e > {zero}) && (w & {one}) == {one} - {one}) {{
  if ((e > {zero}) == (z > {zero})) {{ w = w + {one}; }} else {{ w = w - {one}; }}
}}
let made = vh + bitcast<{f}>(w);
// Where a part overflows, the plain sum is as right as one can be.
// So it is where the sum is zero, which has its sign.
let zero = made == {zero} && plain == {zero};
return select(plain, made, abs(made) <= {largest} && !zero);"""
    return _function(dialect, name, parameters, d, body)


def _modulo(dialect: WGSL, name: str, d: DType) -> Made:
    return _function(dialect, name, {"a": d, "b": d}, d, "return a - (a / b) * b;")


def _rounded(dialect: WGSL, name: str, parameters: str, steps: str, other: str) -> Made:
    """Return a quotient or root by fma, where it rounds once and no step leaves the range.

    Where a step may leave it, ``other`` is taken, or what float64 has.
    """
    wide = {"ab": "f32(f64(a) / f64(b))", "x": "f32(sqrt(f64(x)))"}[parameters]
    body = f"return {wide};" if dialect.double else other
    if dialect.fused:
        inside = (f"abs({p}) > 1e-18f && abs({p}) < 1e+18f" for p in parameters)
        fast = "".join(f"\n  {line}" for line in steps.strip().splitlines())
        body = f"if ({' && '.join(inside)}) {{{fast}\n}}\n{body.strip()}"
    return _function(dialect, name, dict.fromkeys(parameters, float32), float32, body)


def _div(dialect: WGSL, name: str, d: DType) -> Made:
    # Two steps of Newton give the quotient, and what is left of it, divided, is its error
    # (Markstein, IBM J. R&D 34, 1990).
    steps = """
let near = 1.0f / b;
let inverse = fma(fma(-b, near, 1.0f), near, near);
let q = a * inverse;
let better = fma(fma(-b, q, a), inverse, q);
return fma(fma(-b, better, a), inverse, better);"""
    other = """
let q = a / b;
let made = q + fma(-q, b, a) / b;
return select(q, made, abs(made) <= 3.4028235e+38f && abs(q) > 1e-30f);"""
    return _rounded(dialect, name, "ab", steps, other)


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
    return _rounded(dialect, name, "x", steps, other)


def _exact(dialect: WGSL, name: str, d: DType) -> Made:
    # The number is a zero of the arguments, of which no compiler knows that it is one.
    f, u = dialect.types[d], _bits(dialect, d)
    body = f"return bitcast<{f}>(bitcast<{u}>(x) ^ {u}(args.zero));"
    return _function(dialect, name, {"x": d}, d, body)


def _held(dialect: WGSL, name: str, d: DType) -> Made:
    return _function(dialect, name, {"x": d}, d, "return x;")


def _mulhi(dialect: WGSL, name: str, d: DType) -> Made:
    parameters, bits = {"a": d, "b": d}, d.itemsize * 8
    if bits < 32:
        return _function(dialect, name, parameters, d, f"return (a * b) >> {bits}u;")
    if bits == 32 and dialect.wide:
        wide = "i64" if d.kind == "int" else "u64"
        t = dialect.types[d]
        return _function(
            dialect, name, parameters, d, f"return {t}(({wide}(a) * {wide}(b)) >> 32u);"
        )
    u, half = _bits(dialect, d), bits // 2
    mask = dialect.literal((1 << half) - 1, dialect.bits(d)).text
    t, zero = dialect.types[d], dialect.literal(0, d).text
    fixed = "high"
    if d.kind == "int":
        none = dialect.literal(0, dialect.bits(d)).text
        fixed = f"high - select({none}, y, a < {zero}) - select({none}, x, b < {zero})"
    body = f"""
let x = {u}(a);
let y = {u}(b);
let low = (x & {mask}) * (y & {mask});
let left = (x >> {half}u) * (y & {mask});
let right = (x & {mask}) * (y >> {half}u);
let middle = (low >> {half}u) + (left & {mask}) + right;
let high = (x >> {half}u) * (y >> {half}u) + (left >> {half}u) + (middle >> {half}u);
return {t}({fixed});"""
    return _function(dialect, name, parameters, d, body)


def _zeros(leading: bool) -> Callable[..., Made]:
    def made(dialect: WGSL, name: str, d: DType) -> Made:
        count = "countLeadingZeros" if leading else "countTrailingZeros"
        near, far = ("high", "low") if leading else ("low", "high")
        body = f"""
let high = u32(u64(a) >> 32u);
let low = u32(a);
return {dialect.types[d]}(select({count}({near}), 32u + {count}({far}), {near} == 0u));"""
        return _function(dialect, name, {"a": d}, d, body)

    return made


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


def _float32_of(dialect: WGSL, name: str, d: DType) -> Made:
    body = "return bitcast<f32>(h << 16u);"
    if d is float16:
        body = """
let rest = h & 0x7fffu;
var bits = rest << 13u;
if (rest < 0x400u) { bits = bitcast<u32>(f32(rest) * 5.9604644775390625e-08f); }
else { bits += select(0x70000000u, 0x38000000u, rest < 0x7c00u); }
return bitcast<f32>(bits | ((h & 0x8000u) << 16u));"""
    return _function(dialect, name, {"h": d}, float32, body)


def _of_float32(dialect: WGSL, name: str, d: DType) -> Made:
    if d is bfloat16:
        body = """
let bits = bitcast<u32>(x);
if ((bits & 0x7fffffffu) > 0x7f800000u) { return (bits >> 16u) | 0x40u; }
return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;"""
    else:
        # Adding a half to a number below 2**-14 rounds it to the step of the smallest numbers.
        body = """
let bits = bitcast<u32>(x);
var rest = bits & 0x7fffffffu;
if (rest > 0x7f800000u) { rest = 0x7e00u; }
else if (rest >= 0x47800000u) { rest = 0x7c00u; }
else if (rest < 0x38800000u) { rest = bitcast<u32>(bitcast<f32>(rest) + 0.5f) - 0x3f000000u; }
else { rest = (rest - 0x38000000u + 0xfffu + ((rest >> 13u) & 1u)) >> 13u; }
return rest | ((bits >> 16u) & 0x8000u);"""
    return _function(dialect, name, {"x": float32}, d, body)


def _odd(dialect: WGSL, name: str, d: DType) -> Made:
    """A number as float32, rounded to odd."""
    if d is float64:
        body = """
let y = f32(x);
let z = f64(y);
if (z == x || !(x == x)) { return y; }
let larger = select(z > x, z < x, x < 0.0lf);
return bitcast<f32>((bitcast<u32>(y) - u32(larger)) | 1u);"""
        return _function(dialect, name, {"x": d}, float32, body)
    u = dialect.bits(d) if d.itemsize == 8 and dialect.wide else uint32
    zeros = "countLeadingZeros(x)" if u is uint32 else "zeros"
    one, none = dialect.literal(1, u).text, dialect.literal(0, u).text
    t = dialect.types[u]
    before = ""
    if u is uint64:
        high = "countLeadingZeros(u32(x >> 32u))"
        before = f"let zeros = select({high}, 32u + countLeadingZeros(u32(x)), x >> 32u == 0lu);"
        before = before.replace("x >> 32u == 0lu", "(x >> 32u) == 0lu")
    negative = f"a < {dialect.literal(0, d).text}" if d.kind == "int" else "false"
    body = f"""
let negative = {negative};
var x = {t}(a);
if (negative) {{ x = {none} - x; }}
{before}
if ((x >> 24u) != {none}) {{
  let cut = {u.itemsize * 8 - 24}u - {zeros};
  let kept = (x >> cut) << cut;
  x = select(kept | ({one} << cut), kept, kept == x);
}}
return select(f32(x), -f32(x), negative);"""
    return _function(dialect, name, {"a": d}, float32, body)


HELPERS: Final[Mapping[str, Callable[..., Made]]] = MappingProxyType(
    {
        "min": _extreme("<", "|"),
        "max": _extreme(">", "&"),
        "copysign": _copysign,
        "abs": _sign("& ~"),
        "neg": _sign("^ "),
        "fma": _fma,
        "div": _div,
        "sqrt": _sqrt,
        "modulo": _modulo,
        "exact": _exact,
        "held": _held,
        "mulhi": _mulhi,
        "clz": _zeros(True),
        "ctz": _zeros(False),
        "saturated": _saturated,
        "float32_of": _float32_of,
        "of_float32": _of_float32,
        "odd": _odd,
    }
)
