"""The dialect WGSL, as naga reads it: types, numbers, positions and barriers.

Requirements: the arguments describe the optional features of an adapter, so the text for any
adapter can be printed anywhere. Integers of 8 and 16 bits are computed in 32 bits and wrapped after
each step. float16 and bfloat16 are held as their bits. Comparisons in argument lists are in
parentheses, because ``f(a < b, c > d)`` begins a template list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final

import numpy as np

from calor.dtypes import (
    DType,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from calor_kernel.ir.nodes import Memory
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers import numbers
from calor_kernel.printers.dialect import FUNCTIONS, Dialect, words
from calor_kernel.printers.expressions import Expression

from .words import RESERVED

_TYPES: Final = MappingProxyType(
    {
        bool_: "bool",
        int8: "i32",
        int16: "i32",
        int32: "i32",
        uint8: "u32",
        uint16: "u32",
        uint32: "u32",
        float32: "f32",
    }
)
_HOST: Final = MappingProxyType(
    {"i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8", "f32": "<f4", "f64": "<f8"}
)
_TEMPLATES: Final = {
    **{f"{name} float": f"{name}({{0}})" for name in ("abs", "floor", "ceil", "trunc", "sqrt")},
    **{f"{f} {k}": f"{f}({{0}}, {{1}})" for f in ("min", "max") for k in ("int", "uint")},
    **{f"popcount {k}": "countOneBits({0})" for k in ("int32", "uint32", "int64", "uint64")},
    **{f"clz {kind}": "countLeadingZeros({0})" for kind in ("int32", "uint32")},
    **{f"ctz {kind}": "countTrailingZeros({0})" for kind in ("int32", "uint32")},
    "rint float": "round({0})",
    "abs int": "abs({0})",
}
# On some processors Mesa's software device loses the sign of zero in ``trunc`` of float64, and
# ``round`` is off by one. ``floor`` is right everywhere, so both are made of it there.
_NEAREST: Final = (
    "select(floor({0}), floor({0}) + 1.0lf, ({0}) - floor({0}) > 0.5lf || "
    "(({0}) - floor({0}) == 0.5lf && floor(floor({0}) * 0.5lf) * 2.0lf < floor({0})))"
)
_FLOORED: Final = {
    "trunc float64": "select(floor({0}), -floor(-({0})), ({0}) < 0.0lf)",
    "rint float64": (f"select({_NEAREST}, -{_NEAREST.replace('{0}', '-({0})')}, ({{0}}) < 0.0lf)"),
}
_SUFFIXES: Final = MappingProxyType({"i32": "i", "u32": "u", "i64": "li", "u64": "lu"})
_LITERAL: Final = re.compile(r"(\(?)(-?\d+)(?:u|i|li|lu)(?: - 1l?i\))?")
_NO_LIMIT: Final = 1 << 62
_POSITIONS: Final = MappingProxyType(
    {"cube_position": "cube", "cube_count": "cubes", "unit_position": "unit"}
)


def value_of(literal: Expression) -> int | None:
    """Return the value of an integer literal, None for any other text."""
    found = _LITERAL.fullmatch(literal.text) if literal.bare else None
    return None if found is None else int(found[2]) - bool(found[1])


@dataclass(eq=False, kw_only=True)
class WGSL(Dialect):
    """WGSL for an adapter with the described features and behaviour.

    ``wide``, ``double``: 64-bit integers and floats; without them sizes and indices are 32 bits,
    which suffice for such an adapter's buffers. ``fused``: fma rounds once. ``changes``:
    unrequested changes by the compiler: "contracts" (products into sums), or "reassociates" too,
    with the assumption that there are no infinities and one zero. ``rounded``: float32 quotients
    and roots are correctly rounded. ``flushes``: float32 arithmetic flushes denormals. ``limited``:
    long loops are cut off, so kernels check for it. ``diverges``: units of a plane reconverge only
    at barriers. ``zeros``: what is read beyond a buffer is zero. ``extremes``: −0 is below +0 for
    ``min`` and ``max``. ``atomics_64``, ``float_atomics``: available atomics. ``coherent``: memory
    may be declared coherent, and a barrier orders what all cubes see of it. ``runs_on``: a cube
    that began runs until it ends, whatever others do. ``lanes``: the plane size, 1 for none.
    ``buffers``: the limit of buffers in a kernel. ``shared_bytes``: the shared memory of a cube.
    """

    wide: bool = True
    double: bool = True
    fused: bool = True
    changes: str = ""
    rounded: bool = True
    flushes: bool = False
    limited: bool = False
    diverges: bool = False
    zeros: bool = False
    extremes: bool = False
    atomics_64: bool = True
    float_atomics: bool = True
    coherent: bool = False
    runs_on: bool = False
    lanes: int = 32
    buffers: int = 8
    shared_bytes: int = 16384

    name = "WGSL"
    inline_names = ("wgsl",)
    wraps = True
    reserved = FUNCTIONS | words(RESERVED)

    def __post_init__(self) -> None:
        """Set the names of the available types and functions."""
        self.fast_fma = self.fused
        types = {**_TYPES, int64: "i64" if self.wide else "i32"}
        if self.wide:
            types[uint64] = "u64"
        if self.double:
            types[float64] = "f64"
        self.types = types
        fused = {"fma float": "fma({0}, {1}, {2})"} if self.fused else {}
        doubles = _FLOORED if self.limited and self.double else {}
        self.templates = {**_TEMPLATES, **fused, **doubles}

    @property
    def key(self) -> str:
        """The identity of this dialect, for the keys of images."""
        return " ".join(f"{f.name}={getattr(self, f.name)}" for f in fields(self))

    @property
    def features(self) -> frozenset[str]:
        """The features of a device that has this dialect."""
        optional = {
            "atomics_64": self.atomics_64,
            "fma": self.fused,
            "planes": self.lanes > 1,
            # NVIDIA's barriers count the units that have not ended; compilers of HLSL refuse this.
            "early_exit": self.coherent and self.runs_on,
            # A driver that cuts off loops cuts off waiting.
            "forward_progress": self.coherent and self.runs_on and not self.limited,
        }
        always = words("barrier atomics float_atomics pointers")
        return always | {feature for feature, has in optional.items() if has}

    def widths(self, dtype: DType) -> tuple[int, ...]:
        """Return the vector widths: lanes that share a word of memory, and four words."""
        return (
            (1,) if dtype.itemsize == 8 else (1, 4 if dtype.itemsize == 4 else 4 // dtype.itemsize)
        )

    def argument(self, dtype: DType) -> str:
        """Return the type of a number argument, which cannot be bool."""
        type = self.types[self.held(dtype)]
        return "u32" if type == "bool" else type

    def host(self, dtype: DType) -> str:
        """Return NumPy's name for the type of a number argument."""
        return _HOST[self.argument(dtype)]

    def held(self, dtype: DType) -> DType:
        """Return the dtype that represents a dtype."""
        found = super().held(dtype)
        return found if found in self.types else self.refuse(f"values of {dtype}")

    # Numbers.
    def literal(self, number: bool | int | float, dtype: DType) -> Expression:
        """Return a literal with the suffix of its type."""
        if dtype is bool_:
            return Expression("true" if number else "false", bare=True)
        if dtype.kind != "float":
            return self._integer(self._fitting(int(number), dtype), self.types[dtype])
        if not self.computes(dtype):
            return Expression(f"{hex(numbers.bits_of(number, dtype))}u", bare=True)
        special, hidden = numbers.is_special(float(number)), self.changes == "reassociates"
        if special or (hidden and number == 0):
            # Such a compiler assumes that there is no infinity, and turns a choice between -1 and 0
            # into one between -1 and -0.
            return Expression(self.of_bits(number, dtype, hidden), bare=True)
        wide = dtype is float64
        text = repr(float(number)) if wide else str(np.float32(number))
        made = f"{text}{'lf' if wide else 'f'}"
        return Expression(made, ex.UNARY if made.startswith("-") else ex.ATOM, bare=True)

    def _fitting(self, number: int, dtype: DType) -> int:
        """Return a number in the representing type; kernels write 2**62 for no limit."""
        if dtype is not int64 or self.wide or -(1 << 31) <= number < 1 << 31:
            return number
        if number != _NO_LIMIT:
            self.refuse(f"64-bit integers on this adapter, such as {number}")
        return (1 << 31) - 1

    def _integer(self, number: int, type: str) -> Expression:
        suffix = _SUFFIXES[type]
        if number in (-(1 << 31), -(1 << 63)) and suffix[-1] == "i":
            # The smallest integers have no literal, because the sign is an operator.
            return Expression(f"({number + 1}{suffix} - 1{suffix})", bare=True)
        text = f"{number}{suffix}"
        return Expression(text, ex.UNARY if number < 0 else ex.ATOM, bare=True)

    def of_bits(self, number: float, dtype: DType, hidden: bool) -> str:
        """Return a number by its bits, hidden from the compiler if necessary.

        A zero is passed as an argument and combined with the bits by an or: hiding twice keeps them
        hidden, while two xors would cancel.
        """
        u = self.types[self.bits(dtype)]
        unknown = f" | {u}(args.zero)" if hidden else ""
        held = f"{hex(numbers.bits_of(number, dtype))}{_SUFFIXES[u]}{unknown}"
        return f"bitcast<{self.types[dtype]}>({held})"

    def cast(self, dtype: DType, value: Expression) -> Expression:
        """Return a converted number; fewer than 32 bits keep the low bits."""
        bits = 8 * dtype.itemsize
        number = value_of(value)
        if number is not None:
            # naga does not convert all literals.
            if dtype.kind == "float":
                return self.literal(float(number), dtype)
            number &= (1 << bits) - 1
            signed = dtype.kind == "int" and number >> (bits - 1)
            return self.literal(number - (1 << bits) if signed else number, dtype)
        made = ex.call(self.types[dtype], value)
        if dtype.kind not in ("int", "uint") or bits >= 32:
            return made
        if dtype.kind == "int":
            return ex.call("extractBits", made, Expression("0u"), Expression(f"{bits}u"))
        return ex.infix("&", ex.BIT_AND, made, Expression(f"{hex((1 << bits) - 1)}u"))

    def reinterpret(self, dtype: DType, value: Expression, source: DType) -> Expression:
        """Return a scalar's bits as another type of the same size."""
        return ex.call(f"bitcast<{self.types[dtype]}>", value)

    def choose(self, condition: Expression, a: Expression, b: Expression) -> Expression:
        """Return ``select``, whose condition is the last argument."""
        texts = ", ".join(e.at(ex.UNARY) for e in (b, a, condition))
        return ex.reading(Expression(f"select({texts})"), condition, a, b)

    # Vectors: the lanes of a word.
    def vector_type(self, type: Type) -> str:
        """Return a vector type."""
        return f"vec{type.width}<{self.types[self.held(type.dtype)]}>"

    def vector(self, type: Type, lanes: Sequence[Expression]) -> Expression:
        """Return a vector of scalars."""
        texts = ", ".join(lane.at(ex.UNARY) for lane in lanes)
        return ex.reading(Expression(f"{self.vector_type(type)}({texts})"), *lanes)

    def lane(self, value: Expression, type: Type, lane: int) -> Expression:
        """Return a component."""
        return ex.reading(Expression(f"{value.at(ex.ATOM)}.{'xyzw'[lane]}"), value)

    def vector_load(
        self, name: str, memory: Memory, index: Expression, type: Type, aligned: bool
    ) -> Expression:
        """Return an element of an array of four-word vectors."""
        return Expression(f"{name}[{index.text}]")

    def vector_store(
        self,
        name: str,
        memory: Memory,
        index: Expression,
        value: Expression,
        type: Type,
        aligned: bool,
    ) -> str:
        """Return a statement that writes an element of an array of four-word vectors."""
        return f"{name}[{index.text}] = {value.text};"

    # Statements.
    def declare(self, type: Type, name: str, value: Expression | None = None) -> str:
        """Return the declaration of a variable; a sum begins with a plain zero."""
        dtype = self.held(type.dtype)
        if value is not None and dtype.kind == "float" and self.literal(0.0, dtype) == value:
            value = Expression(f"{self.types[dtype]}()")
        given = f" = {value.text}" if value is not None else ""
        return f"var {name}: {self.type(type)}{given};"

    def keep(self, type: Type, name: str, value: Expression) -> str:
        """Return a ``let``: naga turns variables into memory, which drivers must optimize away."""
        return f"let {name}: {self.type(type)} = {value.text};"

    def function(
        self,
        name: str,
        result: DType,
        parameters: Sequence[tuple[DType, str]],
        lines: Sequence[str],
        *,
        constant: bool = False,
    ) -> str:
        """Return a function; its first parameter is copied to a variable if it changes."""
        given = ", ".join(f"{own}: {self.type(Type(dtype))}" for dtype, own in parameters)
        if not constant:
            first = parameters[0][1]
            given, lines = f"given_{given}", (f"var {first} = given_{first};", *lines)
        head = f"fn {name}({given}) -> {self.type(Type(result))} {{"
        return "\n".join((head, *(f"  {line}" for line in lines), "}"))

    def barrier(self, scope: str, name: int, count: int) -> str:
        """Return a barrier of a cube."""
        if name or count or scope != "cube":
            self.refuse("named barriers" if scope == "cube" else f"barriers of a {scope}")
        return "workgroupBarrier();"

    def fence(self, scope: str, order: str) -> str:
        """Return nothing: a pass has found the barriers beside a fence."""
        if scope == "device" and not self.coherent:
            self.refuse("fences for other cubes")
        return ""

    def ordered(self, memory: Memory, place: Expression) -> Expression:
        """Return an element of an array of atomics."""
        return place

    def shuffle(self, kind: str, dtype: DType, value: Expression, lane: Expression) -> Expression:
        """Return the value of another unit; ``lane`` is the own index; 64 bits move in halves."""
        number = int(lane.text) if lane.text.isdigit() else value_of(lane)
        other = self.cast(uint32, lane).text if number is None else f"{number}u"
        own = "u32(lane)"
        function, at = (
            "subgroupShuffle",
            {
                "index": other,
                "xor": f"{own} ^ ({other})",
                "up": f"select({own} - {other}, {own}, {own} < {other})",
                "down": f"select({own} + {other}, {own}, {own} + {other} >= {self.lanes}u)",
            }[kind],
        )
        if kind == "xor" and number is not None:
            function, at = "subgroupShuffleXor", other
        if dtype is bool_:
            made = f"({function}(u32({value.text}), {at}) != 0u)"
        elif dtype.itemsize < 8 or self.types[int64] == "i32":
            made = f"{function}({value.text}, {at})"
        else:
            words = f"bitcast<u64>({value.text})" if dtype is not uint64 else value.text
            low, high = f"u32({words})", f"u32(({words}) >> 32u)"
            made = f"(u64({function}({low}, {at})) | (u64({function}({high}, {at})) << 32u))"
            made = made if dtype is uint64 else f"bitcast<{self.types[dtype]}>{made}"
        return ex.reading(Expression(made), value, lane)

    def unroll(self, times: int) -> str:
        """Return nothing: WGSL has no unroll hint."""
        return ""

    def position(self, name: str, axis: int, dtype: DType) -> Expression:
        """Return the position of a unit."""
        if name in _POSITIONS:
            made = Expression(f"{_POSITIONS[name]}.{'xyz'[axis]}")
        else:
            made = Expression("lane" if name == "lane_position" else "plane")
        # naga extends by the sign of the new type.
        return self.cast(dtype, ex.call("u64", made) if dtype is int64 and self.wide else made)
