"""Helper functions in plain C for operations without an operator in the language.

The functions avoid undefined and implementation-defined behaviour of C. A language may override any
of them in its ``templates``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from calor.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint16,
    uint32,
    uint64,
)
from calor_kernel.printers.dialect import Dialect
from calor_kernel.printers.expressions import Expression

_WIDER = MappingProxyType({1: (int32, uint32), 2: (int32, uint32), 4: (int64, uint64)})

# The parameters of a helper, its result and its body.
Made = tuple[dict[str, DType], DType, str]
Functions = Mapping[str, Callable[..., Made]]


class HelperFunctions:
    """The helper functions of one kernel, in the order of their dependences."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.texts: dict[str, str] = {}

    def name(self, helper: str, *dtypes: DType) -> str:
        """Return the name of a helper for some dtypes; a new helper is printed."""
        own = self.dialect.own_helper(helper, *dtypes)
        if own is not None:
            return self.add(*own)
        name = self.called(helper, dtypes)
        if name not in self.texts:
            # The functions that it calls come first.
            parameters, result, body = self.functions[helper](self, *dtypes)
            given = [(dtype, own) for own, dtype in parameters.items()]
            lines = body.strip().splitlines()
            self.texts[name] = self.dialect.function(name, result, given, lines, constant=True)
        return name

    @property
    def functions(self) -> Functions:
        """The builders of helpers for given dtypes: here in plain C."""
        return _FUNCTIONS

    def called(self, helper: str, dtypes: Sequence[DType]) -> str:
        """Return the function name of a helper."""
        return "_".join((helper, *(d.name for d in dtypes)))

    def add(self, name: str, text: str) -> str:
        """Print a language-specific function under a name, once."""
        self.texts.setdefault(name, text)
        return name

    def branches(self, text: str) -> bool:
        """Return whether the lines branch, or call a helper that branches."""
        found = {"{", "}", "&&", "||", "?"}
        for name, function in self.texts.items():
            body = function.partition("{")[2].rstrip("}\n")
            if any(word in body for word in found):
                found.add(f"{name}(")
        return any(word in text for word in found)

    def text(self) -> str:
        """Return all functions."""
        return "".join(f"{text}\n\n" for text in self.texts.values())

    # Building blocks of the function bodies.
    def of(self, dtype: DType) -> str:
        """Return the C type of a value."""
        return self.dialect.types[self.dialect.held(dtype)]

    def bits(self, text: str, dtype: DType) -> str:
        """Return the bits of a number."""
        made = self.dialect.reinterpret(self.dialect.bits(dtype), Expression(text), dtype)
        return made.text

    def number(self, text: str, dtype: DType) -> str:
        """Return the number with the given bits."""
        made = self.dialect.reinterpret(dtype, Expression(text), self.dialect.bits(dtype))
        return made.text

    def literal(self, number: float, dtype: DType) -> str:
        """Return a number as text."""
        return self.dialect.literal(number, dtype).text

    def call(self, helper: str, dtype: DType, text: str) -> str:
        """Return a call of the language's own function, or of its helper."""
        dialect = self.dialect
        for key in (f"{helper} {dtype.name}", f"{helper} {dtype.kind}", helper):
            if key in dialect.templates:
                return dialect.templates[key].format(text, T=self.of(dtype))
        return f"{self.name(helper, dtype)}({text})"


def _mulhi(t: HelperFunctions, d: DType) -> Made:
    parameters, bits = {"a": d, "b": d}, d.itemsize * 8
    if bits < 64:
        wide = t.of(_WIDER[d.itemsize][d.kind == "uint"])
        shifted = f"({wide})a * b >> {bits}"
        return parameters, d, f"return ({t.of(d)})({shifted});"
    u = t.of(uint64)
    if d.kind == "int":
        high = t.call("mulhi", uint64, "{}, {}").format(f"({u})a", f"({u})b")
        fixed = f"{high} - (a < 0 ? ({u})b : 0) - (b < 0 ? ({u})a : 0)"
        return parameters, d, f"return ({t.of(d)})({fixed});"
    body = f"""
{u} low = (a & 0xffffffff) * (b & 0xffffffff), left = (a >> 32) * (b & 0xffffffff);
{u} right = (a & 0xffffffff) * (b >> 32), middle = (low >> 32) + (left & 0xffffffff) + right;
return (a >> 32) * (b >> 32) + (left >> 32) + (middle >> 32);"""
    return parameters, d, body


def _extreme(sign: str, tie: str) -> Callable[[HelperFunctions, DType], Made]:
    def made(t: HelperFunctions, d: DType) -> Made:
        if d.kind != "float":
            return {"a": d, "b": d}, d, f"return a {sign} b ? a : b;"
        # Equal numbers differ at most in the sign of a zero; the sum with a NaN is NaN.
        bits = f"{t.bits('a', d)} {tie} {t.bits('b', d)}"
        same = t.number(f"({t.of(t.dialect.bits(d))})({bits})" if d.itemsize < 4 else bits, d)
        body = f"return a {sign} b ? a : b {sign} a ? b : a == b ? {same} : a + b;"
        return {"a": d, "b": d}, d, body

    return made


def _abs(t: HelperFunctions, d: DType) -> Made:
    u = t.of(t.dialect.bits(d))
    return {"a": d}, d, f"return a < 0 ? ({t.of(d)})(0 - ({u})a) : a;"


def _popcount(t: HelperFunctions, d: DType) -> Made:
    u = uint64 if d.itemsize == 8 else uint32
    ones = "0101010101010101" if d.itemsize == 8 else "01010101"
    last = 56 if d.itemsize == 8 else 24

    def mask(pair: str) -> str:
        return "0x" + pair * int(u.itemsize)

    body = f"""
{t.of(u)} x = ({t.of(t.dialect.bits(d))})a;
x -= (x >> 1) & {mask("55")};
x = (x & {mask("33")}) + ((x >> 2) & {mask("33")});
x = (x + (x >> 4)) & {mask("0f")};
return ({t.of(d)})((x * 0x{ones}) >> {last});"""
    return {"a": d}, d, body


def _clz(t: HelperFunctions, d: DType) -> Made:
    # Set all bits below the highest one, then count the unset bits.
    u = t.dialect.bits(d)
    spread = "\n".join(f"x |= x >> {1 << i};" for i in range((d.itemsize * 8).bit_length() - 1))
    body = f"{t.of(u)} x = ({t.of(u)})a;\n{spread}\n"
    return {"a": d}, d, f"{body}return ({t.of(d)}){t.call('popcount', u, f'({t.of(u)})~x')};"


def _ctz(t: HelperFunctions, d: DType) -> Made:
    u = t.dialect.bits(d)
    trailing = f"({t.of(u)})(~({t.of(u)})a & (({t.of(u)})a - 1))"
    return {"a": d}, d, f"return ({t.of(d)}){t.call('popcount', u, trailing)};"


def _saturated(t: HelperFunctions, source: DType, d: DType) -> Made:
    """A float to an integer: truncated, saturated, NaN to 0."""
    bits = d.itemsize * 8 - (d.kind == "int")
    most, least = (1 << bits) - 1, -(1 << bits) if d.kind == "int" else 0
    top = t.literal(2.0**bits, source)
    high, low = t.literal(most, d), t.literal(least, d)
    if d.kind == "uint":
        body = f"return x >= {top} ? {high} : x > 0 ? ({t.of(d)})x : 0;"
    else:
        inside = f"x >= -{top} ? ({t.of(d)})x : x != x ? 0 : {low}"
        body = f"return x >= {top} ? {high} : {inside};"
    return {"x": source}, d, body


def _float32_of_float16(t: HelperFunctions, _: DType) -> Made:
    u, f = t.of(uint32), t.of(float32)
    small = f"({f})(h & 0x7fff) * {t.literal(2.0**-24, float32)}"
    body = f"""
{u} rest = h & 0x7fff, bits = rest << 13;
if (rest < 0x400) bits = {t.bits(small, float32)};
else bits += rest < 0x7c00 ? 0x38000000 : 0x70000000;
return {t.number(f"bits | ({u})(h & 0x8000) << 16", float32)};"""
    return {"h": float16}, float32, body


def _float16_of_float32(t: HelperFunctions, _: DType) -> Made:
    # Adding 0.5 to a number below 2**-14 rounds it to a multiple of the smallest subnormal.
    u, h = t.of(uint32), t.of(uint16)
    half = t.literal(0.5, float32)
    small = t.bits(f"{t.number('rest', float32)} + {half}", float32)
    body = f"""
{u} bits = {t.bits("x", float32)}, rest = bits & 0x7fffffff;
if (rest > 0x7f800000) rest = 0x7e00;
else if (rest >= 0x47800000) rest = 0x7c00;
else if (rest < 0x38800000) rest = {small} - 0x3f000000;
else rest = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
return ({h})(rest | (bits >> 16 & 0x8000));"""
    return {"x": float32}, float16, body


def _float32_of_bfloat16(t: HelperFunctions, _: DType) -> Made:
    return {"h": bfloat16}, float32, f"return {t.number(f'({t.of(uint32)})h << 16', float32)};"


def _bfloat16_of_float32(t: HelperFunctions, _: DType) -> Made:
    body = f"""
{t.of(uint32)} bits = {t.bits("x", float32)};
if (x != x) return ({t.of(uint16)})(bits >> 16 | 0x40);
return ({t.of(uint16)})((bits + 0x7fff + (bits >> 16 & 1)) >> 16);"""
    return {"x": float32}, bfloat16, body


def _odd_of_float64(t: HelperFunctions, _: DType) -> Made:
    # Round to odd, so that a second rounding to fewer bits equals a single rounding (Boldo and
    # Melquiond, "When double rounding is odd", 2005).
    wide = t.of(float64)
    larger = f"(x < 0 ? ({wide})y < x : ({wide})y > x)"
    body = f"""
{t.of(float32)} y = ({t.of(float32)})x;
if (({wide})y == x || x != x) return y;
return {t.number(f"({t.bits('y', float32)} - {larger}) | 1", float32)};"""
    return {"x": float64}, float32, body


def _odd_of_integer(t: HelperFunctions, d: DType) -> Made:
    u, f = t.dialect.bits(d), t.of(float32)
    bits = d.itemsize * 8
    negative = "a < 0" if d.kind == "int" else "false"
    zeros = t.call("clz", u, "x")
    magnitude = f"{negative} ? 0 - ({t.of(u)})a : ({t.of(u)})a" if d.kind == "int" else "a"
    result = f"{negative} ? -({f})x : ({f})x" if d.kind == "int" else f"({f})x"
    body = f"""
{t.of(u)} x = {magnitude};
if (x >> 24) {{
  {t.of(u)} cut = {bits - 24} - {zeros}, kept = x >> cut << cut;
  x = kept == x ? x : kept | ({t.of(u)})1 << cut;
}}
return {result};"""
    return {"a": d}, float32, body


_FUNCTIONS: Final[Functions] = MappingProxyType(
    {
        "mulhi": _mulhi,
        "min": _extreme("<", "|"),
        "max": _extreme(">", "&"),
        "abs": _abs,
        "popcount": _popcount,
        "clz": _clz,
        "ctz": _ctz,
        "saturated": _saturated,
        "float32_of": lambda t, d: (
            _float32_of_float16(t, d) if d is float16 else _float32_of_bfloat16(t, d)
        ),
        "of_float32": lambda t, d: (
            _float16_of_float32(t, d) if d is float16 else _bfloat16_of_float32(t, d)
        ),
        "odd": lambda t, d: _odd_of_float64(t, d) if d is float64 else _odd_of_integer(t, d),
    }
)
