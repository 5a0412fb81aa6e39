"""Elementwise ops; most are one ONNX operator."""

from __future__ import annotations

from typing import Any, Final

from calor.dtypes import bool_, float32, uint16, uint32
from calor_onnx.exporting.errors import Refused
from calor_onnx.exporting.graphs import BROADCASTING, ROWS, row
from calor_onnx.exporting.program import Step
from calor_onnx.exporting.writer import Writer, element

# Ops and operators with the same meaning; those of two operands broadcast.
_UNARY: Final = {
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "sqrt": "Sqrt", "exp": "Exp", "log": "Log",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "erf": "Erf", "sigmoid": "Sigmoid",
}  # fmt: skip
_BINARY: Final = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "power": "Pow", "maximum": "Max",
    "minimum": "Min",
}  # fmt: skip
_TESTS: Final = {
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}  # fmt: skip
_ROUNDING: Final = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}
_LOGIC: Final = {"bit_and": ("And", "BitwiseAnd"), "bit_or": ("Or", "BitwiseOr"),
                 "bit_xor": ("Xor", "BitwiseXor")}  # fmt: skip


def _same(operator: str) -> Any:
    return lambda w, step, *names: w.call(operator, *names)


def _test(operator: str) -> Any:
    return lambda w, step, *names: w.call(operator, *names, result=bool_)


def _rounding(operator: str) -> Any:
    return lambda w, step, x: w.call(operator, x) if w.type_of(x).is_floating else x


def _logic(logical: str, bitwise: str) -> Any:
    def written(w: Writer, step: Step, *names: str) -> str:
        return w.call(logical if w.type_of(names[0]) is bool_ else bitwise, *names)

    return written


ROWS.update({name: _same(operator) for name, operator in {**_UNARY, **_BINARY}.items()})
ROWS.update({name: _test(operator) for name, operator in _TESTS.items()})
ROWS.update({name: _rounding(operator) for name, operator in _ROUNDING.items()})
ROWS.update({name: _logic(*operators) for name, operators in _LOGIC.items()})
ROWS["bit_not"] = _logic("Not", "BitwiseNot")
BROADCASTING.update(_BINARY, _TESTS, _LOGIC)


@row("not_equal", broadcasts=True)
def not_equal(w: Writer, step: Step, a: str, b: str) -> str:
    return w.call("Not", w.call("Equal", a, b, result=bool_))


@row("where", broadcasts=True)
def where(w: Writer, step: Step, condition: str, a: str, b: str) -> str:
    return w.call("Where", condition, a, b, typed=[1, 2])


@row("isnan", "isinf")
def special(w: Writer, step: Step, x: str) -> str:
    if not w.type_of(x).is_floating:
        never = w.call("Equal", x, x, result=bool_)
        return w.call("Not", never)
    return w.call("IsNaN" if step.op.name == "isnan" else "IsInf", x, result=bool_)


@row("isfinite")
def isfinite(w: Writer, step: Step, x: str) -> str:
    if not w.type_of(x).is_floating:
        return w.call("Equal", x, x, result=bool_)
    wrong = [w.call(operator, x, result=bool_) for operator in ("IsNaN", "IsInf")]
    return w.call("Not", w.call("Or", *wrong))


@row("relu")
def relu(w: Writer, step: Step, x: str) -> str:
    if w.type_of(x).is_floating:
        return w.call("Relu", x)
    return w.call("Max", x, w.constant(0, w.type_of(x)))


@row("silu")
def silu(w: Writer, step: Step, x: str) -> str:
    return w.call("Mul", x, w.call("Sigmoid", x))


@row("gelu", "gelu_tanh")
def gelu(w: Writer, step: Step, x: str) -> str | None:
    if not w.has("Gelu"):
        return None
    return w.call("Gelu", x, approximate="none" if step.op.name == "gelu" else "tanh")


@row("remainder", broadcasts=True)
def remainder(w: Writer, step: Step, a: str, b: str) -> str:
    dtype = step.gives[0].dtype
    if not dtype.is_floating:
        return w.call("Mod", a, b)
    # ONNX's Mod of floats has the sign of a; calor's has that of b.
    left = w.call("Mod", a, b, fmod=1)
    zero = w.constant(0, dtype)
    wrong = w.call(
        "Xor",
        w.call("Less", left, zero, result=bool_),
        w.call("Less", b, zero, result=bool_),
    )
    moved = w.call("And", wrong, w.call("Not", w.call("Equal", left, zero, result=bool_)))
    return w.call("Where", moved, w.call("Add", left, b), left, typed=[1, 2])


@row("floor_divide", broadcasts=True)
def floor_divide(w: Writer, step: Step, a: str, b: str) -> str:
    # The remainder is subtracted first, so that the quotient is an integer up to rounding.
    quotient = w.call("Div", w.call("Sub", a, remainder(w, step, a, b)), b)
    return w.call("Round", quotient) if step.gives[0].dtype.is_floating else quotient


@row("trunc")
def trunc(w: Writer, step: Step, x: str) -> str:
    dtype = step.gives[0].dtype
    if not dtype.is_floating:
        return x
    below = w.call("Less", x, w.constant(0, dtype), result=bool_)
    return w.call("Where", below, w.call("Ceil", x), w.call("Floor", x), typed=[1, 2])


@row("cast")
def cast(w: Writer, step: Step, x: str) -> str:
    return w.cast(x, step.attributes["dtype"])


@row("bitcast")
def bitcast(w: Writer, step: Step, x: str) -> str:
    dtype = step.attributes["dtype"]
    if w.type_of(x).itemsize != dtype.itemsize:
        raise Refused("ONNX's BitCast needs element types of one size")
    return w.emit("BitCast", [x], (dtype,), to=element(dtype))[0]


@row("barrier", "stop_gradient")
def identity(w: Writer, step: Step, x: str) -> str:
    return x


@row("signbit")
def signbit(w: Writer, step: Step, x: str) -> str:
    dtype = step.takes[0].dtype
    zero = w.constant(0, dtype)
    below = w.call("Less", x, zero, result=bool_)
    if not dtype.is_floating:
        return below
    # The sign of a zero shows in its reciprocal only.
    wide = w.cast(x, float32) if dtype.itemsize == 2 else x
    back = w.call("Less", w.call("Reciprocal", wide), w.cast(zero, w.type_of(wide)), result=bool_)
    none = w.call("Equal", x, zero, result=bool_)
    return w.call("Or", below, w.call("And", none, back))


@row("shift_left", "shift_right")
def shift(w: Writer, step: Step, x: str, by: str) -> str | None:
    if w.type_of(x).kind != "uint":
        return None
    dtype = w.type_of(x)
    narrow = dtype is uint16
    if narrow:
        x, by = w.cast(x, uint32), w.cast(by, uint32)
    made = w.call("BitShift", x, by, direction=step.op.name[6:].upper())
    if narrow:
        made = w.call("BitwiseAnd", made, w.constant(0xFFFF, uint32))
    return w.cast(made, dtype)
