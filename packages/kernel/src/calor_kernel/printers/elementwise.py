"""Arithmetic operations as expressions of the C family.

Signed integers never overflow: they are computed in unsigned types unless known to be sizes or
indices. Operations with functions in the language are in its templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from calor.dtypes import DType, bfloat16, bool_, float16, float32, float64, uint32
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Dialect, Helpers
from calor_kernel.printers.expressions import Expression

INFIX: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        "add": ("+", ex.SUM),
        "sub": ("-", ex.SUM),
        "mul": ("*", ex.PRODUCT),
        "div": ("/", ex.PRODUCT),
        "quotient": ("/", ex.PRODUCT),
        "modulo": ("%", ex.PRODUCT),
        "and": ("&", ex.BIT_AND),
        "or": ("|", ex.BIT_OR),
        "xor": ("^", ex.BIT_XOR),
        "shl": ("<<", ex.SHIFT),
        "shr": (">>", ex.SHIFT),
        "eq": ("==", ex.EQUAL),
        "ne": ("!=", ex.EQUAL),
        "lt": ("<", ex.ORDER),
        "le": ("<=", ex.ORDER),
        "gt": (">", ex.ORDER),
        "ge": (">=", ex.ORDER),
    }
)
_LOGICAL: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {"and": ("&&", ex.AND), "or": ("||", ex.OR), "xor": ("!=", ex.EQUAL)}
)
_WRAPPING = frozenset(("add", "sub", "mul"))
_HALVES = (float16, bfloat16)
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Scalars:
    """Makes scalar expressions for one language, and collects their helper functions."""

    dialect: Dialect
    helpers: Helpers

    def operation(
        self,
        name: str,
        result: Type,
        types: Sequence[Type],
        operands: Sequence[Expression],
        attributes: Mapping[str, Any],
        safe: bool = False,
    ) -> Expression:
        """Return a scalar operation; ``safe``: an integer result does not overflow."""
        dtype = types[0].dtype
        if name == "cast":
            return self.cast(operands[0], dtype, result.dtype)
        if name == "bitcast":
            return self.bitcast(operands[0], dtype, result.dtype)
        if name == "select":
            condition, a, b = operands
            return self.dialect.choose_as(result.dtype, condition, a, b)
        if dtype.kind == "float" and not self.dialect.computes(dtype):
            self.dialect.refuse(f"arithmetic of {dtype}: {name}")
        if dtype is bool_:
            return self.boolean(name, operands)
        template = self.template(name, dtype)
        if template is not None:
            exact = [self.typed(dtype, o) for o in operands]
            return self.filled(template, exact, self.dialect.type(result))
        if name in INFIX:
            return self.infix(name, dtype, operands, attributes, safe)
        unary = self.unary(name, dtype, operands[0])
        if unary is not None:
            return unary
        return ex.call(self.helpers.name(name, dtype), *operands)

    def of(
        self, name: str, dtype: DType, *operands: Expression, attributes: Mapping[str, Any] = _NONE
    ) -> Expression:
        """Return a scalar operation whose operands and result share a dtype."""
        type = Type(dtype)
        return self.operation(name, type, [type] * len(operands), operands, attributes)

    # Building blocks.
    def template(self, name: str, dtype: DType) -> str | None:
        """Return the language's own template of an operation."""
        templates = self.dialect.templates
        for key in (f"{name} {dtype.name}", f"{name} {dtype.kind}", name):
            if key in templates:
                return templates[key]
        return None

    def filled(self, template: str, operands: Sequence[Expression], result: str) -> Expression:
        """Return a template filled with its operands, as arguments of calls."""
        text = template.format(*(o.text for o in operands), T=result, W="")
        return ex.reading(Expression(text), *operands)

    def typed(self, dtype: DType, value: Expression) -> Expression:
        """Return a value, with an explicit type if it is an integer literal."""
        if not value.bare or dtype is bool_ or dtype.kind == "float":
            return value
        return self.dialect.cast(dtype, value)

    def boolean(self, name: str, operands: Sequence[Expression]) -> Expression:
        """Return an operation on bools."""
        if name == "not":
            return ex.prefix("!", operands[0])
        operator, level = _LOGICAL.get(name) or INFIX[name]
        return ex.infix(operator, level, *operands)

    def infix(
        self,
        name: str,
        dtype: DType,
        operands: Sequence[Expression],
        attributes: Mapping[str, Any],
        safe: bool,
    ) -> Expression:
        """Return an operation with an operator."""
        operator, level = INFIX[name]
        a, b = operands
        if dtype.kind == "float":
            return self.floating(name, dtype, a, b, attributes)
        compares = level in (ex.EQUAL, ex.ORDER)
        small = dtype.itemsize < 4
        if (a.bare and (b.bare or level == ex.SHIFT)) and dtype.itemsize != 4:
            a = self.typed(dtype, a)
        if compares or (dtype.kind == "uint" and not small and name not in _WRAPPING):
            return ex.infix(operator, level, a, b)
        if name in _WRAPPING or name == "shl":
            return self.wrapping(name, dtype, a, b, safe)
        made = ex.infix(operator, level, a, b)
        # C promotes small types to int, which overloaded functions would take for an int.
        return self.dialect.cast(dtype, made) if small else made

    def wrapping(
        self, name: str, dtype: DType, a: Expression, b: Expression, safe: bool
    ) -> Expression:
        """Return a sum, difference, product or shift of integers, modulo the size of the type."""
        operator, level = INFIX[name]
        if (safe and name != "shl") or (self.dialect.wraps and dtype.itemsize >= 4):
            return ex.infix(operator, level, a, b)
        cast = self.dialect.cast
        unsigned = self.dialect.bits(dtype)
        if dtype.itemsize < 4:
            # C computes these as ints; only the product of the largest overflows.
            if dtype.itemsize == 2 and dtype.kind == "uint" and name == "mul":
                a = cast(uint32, a)
            elif name == "shl" and dtype.kind == "int":
                a = cast(unsigned, a)
            return cast(dtype, ex.infix(operator, level, a, b))
        if dtype.kind == "uint":
            return ex.infix(operator, level, a, b)
        x = a.wrapping or a
        y = b.wrapping or b if name != "shl" else b
        if a.wrapping is None and (b.wrapping is None or name == "shl"):
            x = cast(unsigned, a)
        made = ex.infix(operator, level, x, y)
        return replace(cast(dtype, made), wrapping=made)

    def floating(
        self,
        name: str,
        dtype: DType,
        a: Expression,
        b: Expression,
        attributes: Mapping[str, Any],
    ) -> Expression:
        """Return a float operation; a product may be contracted with its sum."""
        operator, level = INFIX[name]
        contract = self.dialect.fast_fma and "contract" in attributes.get("flags", ())
        fused = self.template("fma", dtype)
        if contract and fused is not None and name in ("add", "sub"):
            minus = ex.prefix if name == "sub" else (lambda _, value: value)
            if a.product is not None:
                return self.filled(fused, (*a.product, minus("-", b)), "")
            if b.product is not None:
                x, y = b.product
                return self.filled(fused, (minus("-", x), y, a), "")
        made = ex.infix(operator, level, a, b)
        return replace(made, product=(a, b)) if contract and name == "mul" else made

    def unary(self, name: str, dtype: DType, a: Expression) -> Expression | None:
        """Return a unary operation with an operator."""
        if name == "neg" and dtype.kind == "float":
            return ex.prefix("-", a)
        if name == "neg":
            made = ex.prefix("-", a.wrapping or self.dialect.cast(self.dialect.bits(dtype), a))
            return made if dtype.kind == "uint" and dtype.itemsize >= 4 else self.to(dtype, made)
        if name == "not":
            made = ex.prefix("~", a)
            return made if dtype.itemsize >= 4 else self.dialect.cast(dtype, made)
        if name == "abs" and dtype.kind == "uint":
            return a
        return None

    def to(self, dtype: DType, made: Expression) -> Expression:
        """Return unsigned arithmetic converted to a signed type."""
        return replace(
            self.dialect.cast(dtype, made), wrapping=made if dtype.itemsize > 3 else None
        )

    # Conversions.
    def cast(self, value: Expression, source: DType, target: DType) -> Expression:
        """Return a conversion with the semantics of the operation ``cast``."""
        dialect = self.dialect
        if source is target:
            return value
        if target in _HALVES and not dialect.computes(target):
            near = self.cast(value, source, float32)
            if source is float64 or (target is bfloat16 and source.kind in ("int", "uint")):
                exact = source is not float64 and source.itemsize < 4
                near = near if exact else ex.call(self.helpers.name("odd", source), value)
            return ex.call(self.helpers.name("of_float32", target), near)
        if source in _HALVES and not dialect.computes(source):
            near = ex.call(self.helpers.name("float32_of", source), value)
            return self.cast(near, float32, target)
        if target is bool_:
            zero = dialect.literal(0 if source.kind != "float" else 0.0, source)
            return ex.infix("!=", ex.EQUAL, value, zero)
        if source.kind == "float" and target.kind in ("int", "uint"):
            return self.saturated(value, source, target)
        if value.wrapping is not None and target is dialect.bits(source):
            return value.wrapping
        return dialect.cast(target, value)

    def saturated(self, value: Expression, source: DType, target: DType) -> Expression:
        """Return a float converted to an integer, saturated."""
        if source in _HALVES:
            value, source = self.dialect.cast(float32, value), float32
        return ex.call(self.helpers.name("saturated", source, target), value)

    def bitcast(self, value: Expression, source: DType, target: DType) -> Expression:
        """Return the bits of a scalar reinterpreted as another type of the same size."""
        dialect = self.dialect
        held, wanted = dialect.held(source), dialect.held(target)
        if held is wanted:
            return value
        if target is bool_:
            return ex.infix("!=", ex.EQUAL, value, dialect.literal(0, held))
        if source is bool_ or (held.kind in ("int", "uint") and wanted.kind in ("int", "uint")):
            return dialect.cast(wanted, value)
        return dialect.reinterpret(wanted, self.typed(held, value), held)
