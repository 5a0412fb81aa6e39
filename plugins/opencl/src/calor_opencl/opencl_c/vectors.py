"""Whole-vector operations in OpenCL C.

Requirements: the results equal the scalar ones bit for bit. Signed lanes are computed as unsigned,
because C leaves overflow undefined. A bool lane is a byte with all bits or none (6.3.d), widened to
the size of the lanes that it selects (6.12.6). Operations without a vector form return None, and
are done lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from calor.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
)
from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Dialect, Helpers
from calor_kernel.printers.elementwise import INFIX, Scalars
from calor_kernel.printers.expressions import Expression

_SIGNED: Final = MappingProxyType({1: int8, 2: int16, 4: int32, 8: int64})
_HALVES: Final = (float16, bfloat16)
_DIVISION: Final = ("quotient", "modulo")


def literal(dialect: Dialect, type: Type, lanes: Sequence[Expression]) -> Expression:
    """Return a vector literal from scalars."""
    if type.dtype is bool_:
        none = Expression("0", bare=True)
        lanes = [_mask_of(lane) if not lane.bare or lane.text == "true" else none for lane in lanes]
    texts = [lane.text for lane in lanes]
    same = len(set(texts)) == 1 and lanes[0].is_atom
    made = Expression(f"({dialect.type(type)})({texts[0] if same else ', '.join(texts)})")
    return ex.reading(made, *lanes)


def _mask_of(lane: Expression) -> Expression:
    if lane.bare:
        return Expression("-1", ex.UNARY) if lane.text == "true" else Expression("0", bare=True)
    return ex.choice(lane, Expression("-1"), Expression("0"))


def operation(
    dialect: Dialect,
    operation: Operation,
    operands: Sequence[Expression],
    helpers: Helpers,
    dot: bool,
) -> Expression | None:
    """Return an operation on whole vectors, or None; ``dot``: whether there are dot products."""
    return _Vectors(dialect, helpers, dot).operation(operation, operands)


class _Vectors:
    def __init__(self, dialect: Dialect, helpers: Helpers, dot: bool) -> None:
        self.dialect = dialect
        self.has_dot = dot
        self.helpers = helpers
        self.scalars = Scalars(dialect, helpers)

    def operation(self, operation: Operation, operands: Sequence[Expression]) -> Expression | None:
        name, result = operation.name, operation.result.type
        type = operation.operands[0].type
        if name == "splat":
            lane = _mask_of(operands[0]) if result.dtype is bool_ else operands[0]
            return ex.call(f"({self.dialect.type(result)})", lane)
        if name == "shuffle":
            return self.swizzle(operation, operands)
        if name == "cast":
            return self.cast(operands[0], type, result)
        if name == "bitcast":
            return self.bitcast(operands[0], type, result)
        if name == "select" and type.width > 1:
            mask = self.mask(operands[0], result)
            return ex.call("select", operands[2], operands[1], mask)
        if name == "dot":
            return self.dot(operation, operands)
        if name in ("pack", "insert", "extract", "vreduce", "select"):
            return None
        return self.arithmetic(operation, operands, type)

    def arithmetic(
        self, operation: Operation, operands: Sequence[Expression], type: Type
    ) -> Expression | None:
        name, dtype = operation.name, type.dtype
        if dtype.kind == "float" and not self.dialect.computes(dtype):
            self.dialect.refuse(f"arithmetic of {dtype}: {name}")
        template = self.scalars.template(name, dtype)
        if template is not None:
            text = template.format(
                *(o.text for o in operands), T=self.dialect.type(type), W=type.width
            )
            return ex.reading(Expression(text), *operands)
        if name in ("min", "max"):
            return ex.call(self.extreme(name, type), *operands)
        if name in INFIX and name not in _DIVISION:
            return self.infix(operation, operands, type)
        if name == "not" or (name == "neg" and dtype.kind in ("float", "uint")):
            return ex.prefix("~" if name == "not" else "-", operands[0])
        if name == "neg":
            return self.signed(type, ex.prefix("-", self.unsigned(type, operands[0])))
        return operands[0] if name == "abs" and dtype.kind == "uint" else None

    def infix(self, operation: Operation, operands: Sequence[Expression], type: Type) -> Expression:
        name, dtype = operation.name, type.dtype
        operator, level = INFIX[name]
        a, b = operands
        if level in (ex.EQUAL, ex.ORDER):
            return self.narrowed(ex.infix(operator, level, a, b), type)
        if dtype.kind == "float":
            return self.scalars.floating(name, dtype, a, b, operation.attributes)
        if dtype.kind == "int" and name in ("add", "sub", "mul", "shl"):
            x, y = self.unsigned(type, a), self.unsigned(type, b)
            return self.signed(type, ex.infix(operator, level, x, y))
        return ex.infix(operator, level, a, b)

    def unsigned(self, type: Type, value: Expression) -> Expression:
        if value.wrapping is not None:
            return value.wrapping
        unsigned = Type(self.dialect.bits(type.dtype), type.width)
        return ex.call(f"as_{self.dialect.type(unsigned)}", value)

    def signed(self, type: Type, made: Expression) -> Expression:
        return replace(ex.call(f"as_{self.dialect.type(type)}", made), wrapping=made)

    def dot(self, operation: Operation, operands: Sequence[Expression]) -> Expression | None:
        """Return sums of four products each (cl_khr_integer_dot_product)."""
        a, b, totals = operands
        types = [v.type for v in operation.operands]
        result = operation.result.type
        groups = types[0].width == 4 * result.width and result.dtype.itemsize == 4
        bytes_ = all(t.dtype in (int8, uint8) for t in types[:2])
        if not (self.has_dot and groups and bytes_ and all(o.is_atom for o in operands)):
            return None
        lanes = []
        for i in range(result.width):
            part = "".join(f"{4 * i + k:x}" for k in range(4))
            products = ex.call("dot", *(Expression(f"{o.text}.s{part}") for o in (a, b)))
            products = self.dialect.cast(result.dtype, products)
            total = totals if result.width == 1 else self.dialect.lane(totals, result, i)
            pair = [total, products]
            made = self.scalars.operation("add", result.scalar, [result.scalar] * 2, pair, {})
            lanes.append(made)
        return lanes[0] if result.width == 1 else literal(self.dialect, result, lanes)

    # Masks: comparisons have the lanes' size, bool values one byte.
    def narrowed(self, mask: Expression, type: Type) -> Expression:
        size = type.dtype.itemsize
        if size == 1:
            return mask
        return replace(ex.call(f"convert_char{type.width}", mask), mask=(mask, size))

    def mask(self, value: Expression, type: Type) -> Expression:
        if type.dtype.itemsize == 1:
            return value
        if value.mask is not None and value.mask[1] == type.dtype.itemsize:
            return value.mask[0]
        wide = self.dialect.type(Type(_SIGNED[type.dtype.itemsize], type.width))
        return ex.call(f"convert_{wide}", value)

    def extreme(self, name: str, type: Type) -> str:
        """Return the function of min or max of floats: NaN if one is, and −0 below +0."""
        dialect = self.dialect
        vector, bits = dialect.type(type), dialect.type(Type(dialect.bits(type.dtype), type.width))
        tie, sign = ("|", "<") if name == "min" else ("&", ">")
        same = f"as_{vector}(as_{bits}(a) {tie} as_{bits}(b))"
        # Unordered operands include a NaN, and so does their sum.
        rest = f"select(a + b, {same}, a == b)"
        body = f"return select(select({rest}, b, b {sign} a), a, a {sign} b);"
        function = f"{name}_{type.dtype.name}x{type.width}"
        head = f"{dialect.function_prefix} {vector} {function}({vector} a, {vector} b)"
        return self.helpers.add(function, f"{head} {{\n  {body}\n}}")

    # Lanes.
    def swizzle(self, operation: Operation, operands: Sequence[Expression]) -> Expression | None:
        lanes, width = operation.attributes["lanes"], operation.operands[0].type.width
        if width == 1 or operation.result.type.width == 1:
            return None
        if operation.operands[0] is not operation.operands[1] and max(lanes) >= width:
            return None
        digits = "".join(f"{lane % width:x}" for lane in lanes)
        return ex.reading(Expression(f"{operands[0].at(ex.ATOM)}.s{digits}"), operands[0])

    # Conversions.
    def convert(self, value: Expression, result: Type, mode: str = "") -> Expression:
        return ex.call(f"convert_{self.dialect.type(result)}{mode}", value)

    def cast(self, value: Expression, type: Type, result: Type) -> Expression | None:
        source, target = type.dtype, result.dtype
        if source is target:
            return value
        if source is bfloat16 or target is bfloat16:
            return None
        if float16 in (source, target) and not self.dialect.computes(float16):
            return self.half(value, type, result)
        if target is bool_:
            zero = Expression(f"({self.dialect.type(type)})(0)")
            return self.narrowed(ex.infix("!=", ex.EQUAL, value, zero), type)
        if source is bool_:
            one = ex.infix("&", ex.BIT_AND, value, Expression(f"({self.dialect.type(type)})(1)"))
            return self.convert(one, result)
        if source.kind == "float" and target.kind in ("int", "uint"):
            return self.saturated(value, type, result)
        if target.kind == "int":
            unsigned = Type(self.dialect.bits(target), result.width)
            held = value if self.dialect.bits(source) is unsigned.dtype else None
            made = held if held is not None else self.convert(value, unsigned)
            return ex.call(f"as_{self.dialect.type(result)}", made)
        if target.kind == "uint" and source.itemsize == target.itemsize:
            return self.unsigned(type, value)
        return self.convert(value, result)

    def saturated(self, value: Expression, type: Type, result: Type) -> Expression | None:
        if not value.is_atom:
            return None
        lanes = _SIGNED[result.dtype.itemsize]
        nan = ex.infix("!=", ex.EQUAL, value, value)
        if type.dtype.itemsize != result.dtype.itemsize:
            nan = self.convert(nan, Type(lanes, type.width))
        zero = Expression(f"({self.dialect.type(result)})(0)")
        return ex.call("select", self.convert(value, result, "_sat_rtz"), zero, nan)

    def half(self, value: Expression, type: Type, result: Type) -> Expression | None:
        wide = Type(float32, type.width)
        if type.dtype is float16:
            own = half_helper("float32_of", float16, wide, self.dialect)
            made = ex.call(self.helpers.add(*own), value) if own else None
            if made is None or result.dtype is float32:
                return made
            return self.cast(made, wide, result)
        if type.dtype is float64:
            return None
        near = self.cast(value, type, wide)
        own = half_helper("of_float32", float16, wide, self.dialect)
        return ex.call(self.helpers.add(*own), near) if own and near else None

    def bitcast(self, value: Expression, type: Type, result: Type) -> Expression | None:
        if bool_ in (type.dtype, result.dtype) or result.width * type.width == 1:
            return None
        return ex.call(f"as_{self.dialect.type(result)}", value)


def half_helper(name: str, dtype: DType, wide: Type, dialect: Dialect) -> tuple[str, str] | None:
    """Return the conversion between float16's bits and float32, for any width.

    None for every other helper, also of float16: those are common to all languages.
    """
    if dtype is not float16 or name not in ("float32_of", "of_float32"):
        return None
    width = "" if wide.width == 1 else str(wide.width)
    floats, bits = dialect.type(wide), dialect.type(Type(uint16, wide.width))
    if name == "float32_of":
        function = f"float32_of_float16{'x' if width else ''}{width}"
        body = f"  return vload_half{width}(0, (const half *)&h);\n"
        text = f"{dialect.function_prefix} {floats} {function}({bits} h) {{\n{body}}}"
    else:
        function = f"float16{'x' if width else ''}{width}_of_float32"
        body = f"  {bits} h;\n  vstore_half{width}_rte(x, 0, (half *)&h);\n  return h;\n"
        text = f"{dialect.function_prefix} {bits} {function}({floats} x) {{\n{body}}}"
    return function, text
