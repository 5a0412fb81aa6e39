"""Scalar operations in WGSL.

Requirements: results equal those of :mod:`calor_kernel.ir.ops`. Shift counts are u32. Numbers of 8
and 16 bits are wrapped. naga's ``!=`` is false for NaN, so floats do not use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from calor.dtypes import DType, bool_, float32, int64, uint32, uint64
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import words
from calor_kernel.printers.elementwise import INFIX, Scalars
from calor_kernel.printers.expressions import Expression

from .dialect import WGSL, value_of

# Operations that a 32-bit replacement of a 64-bit number lacks.
_OF_BITS: Final = words("mulhi popcount clz ctz")
_COMPARED: Final = words("eq ne lt le gt ge")
# Operations on bools that compute both operands; naga branches for ``&&`` and ``||``.
_LOGICAL: Final = MappingProxyType({"and": ("&", ex.BIT_AND), "or": ("|", ex.BIT_OR)})
# Operations that compilers combine with each other.
_JOINED: Final = words("add sub mul div fma sqrt")


class WGSLScalars(Scalars):
    """Prints expressions of scalars."""

    __slots__ = ()
    dialect: WGSL

    def operation(
        self,
        name: str,
        result: Type,
        types: Sequence[Type],
        operands: Sequence[Expression],
        attributes: Mapping[str, Any],
        safe: bool = False,
    ) -> Expression:
        """Return the expression of a scalar operation."""
        dtype = types[0].dtype
        if all(o.bare for o in operands):
            # naga evaluates constant expressions, and does not support all of the language there.
            held = ex.call(self.helpers.name("held", dtype), operands[0])
            operands = [held, *operands[1:]]
        whole, narrow = dtype.kind != "float", dtype.itemsize < 4
        if name in ("cast", "bitcast", "select") or dtype is bool_:
            return super().operation(name, result, types, operands, attributes, safe)
        if whole and dtype.itemsize == 8 and not self.dialect.wide and name in _OF_BITS:
            self.dialect.refuse(f"64-bit integers on this adapter: {name}")
        if name in ("shl", "shr"):
            operands = [operands[0], self.dialect.cast(uint32, operands[1])]
        fused = self.dialect.fused
        flags = attributes.get("flags", ())
        step = fused and "contract" in flags and any(o.product is not None for o in operands)
        joins = not whole and not (step and name in ("add", "sub")) and self.joins(name, flags)
        reassociates = not whole and self.dialect.changes == "reassociates"
        if reassociates and (name in _COMPARED or (name in INFIX and not fused)):
            # x - x and 0 * x are not zero for an infinite x, x == x is false for NaN, and
            # x < y ? x : y, which is y for NaN, is not a minimum.
            operands = [operands[0], self.hidden(dtype, operands[1])]
        if not whole and name == "ne":
            return ex.prefix("!", ex.infix("==", ex.EQUAL, *operands))
        divides = name == "quotient" and dtype is int64 and self.dialect.wide
        if self.by_function(name, dtype, joins) or (divides and not operands[1].bare):
            made = ex.call(self.helpers.name(name, dtype), *operands)
            if name == "mul" and "contract" in flags:
                made = replace(made, product=(operands[0], operands[1]))
        elif whole and name == "neg":
            # Unsigned numbers have no negation.
            zero = self.dialect.literal(0, dtype)
            made = ex.infix("-", ex.SUM, zero, operands[0])
        else:
            made = super().operation(name, result, types, operands, attributes, safe)
        if whole:
            return self.dialect.cast(dtype, made) if narrow and name in ("abs", "neg") else made
        return self.hidden(dtype, made) if joins and not fused else made

    def boolean(self, name: str, operands: Sequence[Expression]) -> Expression:
        """Return an operation on bools, without a branch."""
        if name in _LOGICAL:
            return ex.infix(*_LOGICAL[name], *operands)
        return super().boolean(name, operands)

    def by_function(self, name: str, dtype: DType, joins: bool) -> bool:
        """Return whether the language's own operation has other results than required."""
        if dtype.kind != "float":
            # SPIR-V does not define the remainder of a negative number.
            return name == "modulo" and dtype.kind == "int"
        if name == "div" and self.dialect.changes == "reassociates":
            return True
        if name in ("div", "sqrt"):
            return dtype is float32 and not self.dialect.rounded
        if name == "neg":
            # Such a compiler moves signs into an fma, which changes the sign of a zero.
            return self.dialect.fused and self.dialect.changes == "reassociates"
        return joins and self.dialect.fused and name in ("add", "sub", "mul")

    def joins(self, name: str, flags: Sequence[str]) -> bool:
        """Return whether the compiler may combine an operation with its users.

        WGSL allows contraction and reassociation, which assume that sums have no rounding error. An
        fma is exempt from both, so sums and products are printed as fma if it is one instruction;
        otherwise they are hidden from the compiler.
        """
        if self.dialect.changes == "contracts":
            return name == "mul" and "contract" not in flags
        return self.dialect.changes == "reassociates" and name in _JOINED and "reassoc" not in flags

    def hidden(self, dtype: DType, value: Expression) -> Expression:
        """Return a number that is hidden from the compiler."""
        return ex.call(self.helpers.name("exact", dtype), value)

    def cast(self, value: Expression, source: DType, target: DType) -> Expression:
        """Return a conversion with the meaning of the operation ``cast``."""
        if target is bool_ and source.kind == "float" and self.dialect.computes(source):
            # By the bits, because a device may flush denormals.
            bits = self.dialect.bits(source)
            held = ex.infix("<<", ex.SHIFT, self.bitcast(value, source, bits), Expression("1u"))
            return ex.infix("!=", ex.EQUAL, held, self.dialect.literal(0, bits))
        if target in (int64, uint64) and source.kind in ("int", "uint") and source.itemsize < 8:
            return self.widened(value, source, target)
        return super().cast(value, source, target)

    def widened(self, value: Expression, source: DType, target: DType) -> Expression:
        """Return a 32-bit integer extended to 64 bits by the sign of its own type.

        naga extends by the new type, and Mesa 22 compares values extended by their sign with
        constants wrongly.
        """
        dialect = self.dialect
        if not dialect.wide:
            return dialect.cast(target, value)
        if source.kind == "uint" or value_of(value) is not None:
            made = dialect.cast(uint64, value) if source.kind == "uint" else value
            return dialect.cast(target, made)
        if self.dialect.changes != "reassociates" or dialect.fused:
            made = dialect.cast(int64, value)
        else:
            made = Expression(f"(i64(u64(u32({value.text}) ^ 0x80000000u)) - 2147483648li)")
        return ex.reading(made if target is int64 else dialect.cast(target, made), value)

    def bitcast(self, value: Expression, source: DType, target: DType) -> Expression:
        """Return the bits of a scalar as another type of the same size."""
        if source is bool_ and target is not bool_:
            return self.dialect.cast(self.dialect.held(target), ex.call("u32", value))
        return super().bitcast(value, source, target)
