"""Printing of arithmetic and comparisons.

Requirements: results have the bits that the op table defines, on every processor. A division by
zero, or of the smallest integer by −1, does not trap. Fast-math flags are printed only if the
operation has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from calor.dtypes import DType
from calor_cpu.printer_extremes import extreme
from calor_cpu.writer import Writer, element, llvm, number, suffix, vector
from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import Type

Print = Callable[[Writer, Operation], None]
PRINTS: Final[dict[str, Print]] = {}


def prints(*names: str) -> Callable[[Print], Print]:
    """Register the printer of the named operations."""

    def register(function: Print) -> Print:
        for name in names:
            PRINTS[name] = function
        return function

    return register


def flags(operation: Operation) -> str:
    """Return the fast-math flags of an operation, each followed by a space."""
    return "".join(f"{flag} " for flag in operation.attributes.get("flags") or ())


def letter(dtype: DType) -> str:
    """Return "f", "s" or "u", the prefix of arithmetic on the type."""
    return {"float": "f", "int": "s"}.get(dtype.kind, "u")


def intrinsic(w: Writer, name: str, type: Type, *operands: str) -> str:
    """Call an intrinsic that takes operands of one type and returns it."""
    of = llvm(type)
    full = f"llvm.{name}.{suffix(element(type.dtype), type.width)}"
    return w.call(of, full, *((of, o) for o in operands))


def zero(type: Type) -> str:
    """Return a constant of zeros."""
    return number(0, type.dtype) if type.width == 1 else "zeroinitializer"


def computes(w: Writer, operation: Operation, dtype: DType) -> None:
    """Raise CompileError if the operation computes in a half type."""
    if dtype.kind == "float" and dtype.itemsize == 2:
        raise w.refuse(operation, f"{dtype} is stored here; compute in float32: x.to(float32)")


@prints("constant")
def _constant(w: Writer, operation: Operation) -> None:
    type, known = operation.result.type, operation.attributes["value"]
    if isinstance(known, tuple):
        of = element(type.dtype)
        lanes = ", ".join(f"{of} {number(n, type.dtype)}" for n in known)
        w.names[operation.result] = f"<{lanes}>" if type.width > 1 else number(known[0], type.dtype)
    else:
        text = number(known, type.dtype)
        w.names[operation.result] = w.splat(element(type.dtype), type.width, text)


_ARITHMETIC: Final = {"add": "add", "sub": "sub", "mul": "mul", "div": "div"}
_BITS: Final = {"and": "and", "or": "or", "xor": "xor", "shl": "shl"}


def combine(w: Writer, kind: str, type: Type, a: str, b: str, said: str = "") -> str:
    """Return a and b combined by add, sub, mul, div, min, max, and, or, xor."""
    of = llvm(type)
    if kind in ("min", "max"):
        if type.dtype.kind == "float":
            return extreme(w, kind, type, a, b)
        return intrinsic(w, f"{letter(type.dtype)}{kind}", type, a, b)
    if kind in _ARITHMETIC and type.dtype.kind == "float":
        return w.let(f"f{kind} {said}{of} {a}, {b}")
    return w.let(f"{kind} {of} {a}, {b}")


@prints("add", "sub", "mul", "div", "min", "max", "and", "or", "xor", "shl")
def _binary(w: Writer, operation: Operation) -> None:
    a, b = operation.operands
    computes(w, operation, a.type.dtype)
    said = flags(operation)
    w.names[operation.result] = combine(w, operation.name, a.type, w.use(a), w.use(b), said)


@prints("shr")
def _shift_right(w: Writer, operation: Operation) -> None:
    a, b = operation.operands
    name = "ashr" if a.type.dtype.kind == "int" else "lshr"
    w.result(operation, f"{name} {w.typed(a)}, {w.use(b)}")


@prints("neg")
def _negative(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    computes(w, operation, a.type.dtype)
    if a.type.dtype.kind == "float":
        w.result(operation, f"fneg {flags(operation)}{w.typed(a)}")
    else:
        w.result(operation, f"sub {llvm(a.type)} {zero(a.type)}, {w.use(a)}")


@prints("not")
def _not(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    ones = "true" if a.type.dtype.kind == "bool" else "-1"
    every = w.splat(element(a.type.dtype), a.type.width, ones)
    w.result(operation, f"xor {w.typed(a)}, {every}")


_FLOAT_INTRINSICS: Final = {
    "fma": "fma",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "rint",
    "sqrt": "sqrt",
    "copysign": "copysign",
}


@prints(*_FLOAT_INTRINSICS)
def _float_intrinsic(w: Writer, operation: Operation) -> None:
    type = operation.operands[0].type
    computes(w, operation, type.dtype)
    name = _FLOAT_INTRINSICS[operation.name]
    w.names[operation.result] = intrinsic(w, name, type, *map(w.use, operation.operands))


@prints("abs")
def _absolute(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    computes(w, operation, a.type.dtype)
    if a.type.dtype.kind == "uint":
        w.names[operation.result] = w.use(a)
    elif a.type.dtype.kind == "float":
        w.names[operation.result] = intrinsic(w, "fabs", a.type, w.use(a))
    else:
        of = llvm(a.type)
        name = f"llvm.abs.{suffix(element(a.type.dtype), a.type.width)}"
        w.names[operation.result] = w.call(of, name, (of, w.use(a)), ("i1", "false"))


@prints("popcount")
def _popcount(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    w.names[operation.result] = intrinsic(w, "ctpop", a.type, w.use(a))


@prints("clz", "ctz")
def _count_zeros(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    of = llvm(a.type)
    kind = "ctlz" if operation.name == "clz" else "cttz"
    name = f"llvm.{kind}.{suffix(element(a.type.dtype), a.type.width)}"
    w.names[operation.result] = w.call(of, name, (of, w.use(a)), ("i1", "false"))


@prints("mulhi")
def _upper_half(w: Writer, operation: Operation) -> None:
    a, b = operation.operands
    bits = a.type.dtype.itemsize * 8
    wide, of = vector(f"i{bits * 2}", a.type.width), llvm(a.type)
    extend = "sext" if a.type.dtype.kind == "int" else "zext"
    x, y = (w.let(f"{extend} {of} {w.use(v)} to {wide}") for v in (a, b))
    product = w.let(f"mul {wide} {x}, {y}")
    shift = w.splat(f"i{bits * 2}", a.type.width, str(bits))
    w.result(operation, f"trunc {wide} {w.let(f'lshr {wide} {product}, {shift}')} to {of}")


_INTEGER: Final = {
    ("int", "quotient"): "sdiv",
    ("int", "modulo"): "srem",
    ("uint", "quotient"): "udiv",
    ("uint", "modulo"): "urem",
}


@prints("quotient", "modulo")
def _division(w: Writer, operation: Operation) -> None:
    """Divide without a trap: a zero divisor becomes one, and n / −1 is −n."""
    a, b = operation.operands
    type, of = a.type, llvm(a.type)
    name = operation.name
    numbers = b.known if isinstance(b.known, tuple) else (b.known,)
    if not any(n in (None, 0, -1) for n in numbers):
        w.result(operation, f"{_INTEGER[type.dtype.kind, name]} {w.typed(a)}, {w.use(b)}")
        return
    one, mask = element(type.dtype), vector("i1", type.width)
    ones = w.splat(one, type.width, "1")
    bad = w.let(f"icmp eq {of} {w.use(b)}, {zero(type)}")
    minus = ""
    if type.dtype.kind == "int" and not b.nonnegative:
        minus = w.let(f"icmp eq {of} {w.use(b)}, {w.splat(one, type.width, '-1')}")
        bad = w.let(f"or {mask} {bad}, {minus}")
    divisor = w.let(f"select {mask} {bad}, {of} {ones}, {of} {w.use(b)}")
    made = _divided(w, name, type, w.use(a), divisor)
    if minus and name == "quotient":
        negative = w.let(f"sub {of} {zero(type)}, {w.use(a)}")
        made = w.let(f"select {mask} {minus}, {of} {negative}, {of} {made}")
    w.names[operation.result] = made


def _divided(w: Writer, name: str, type: Type, a: str, b: str) -> str:
    """Return a quotient or remainder; vectors are divided as floats, which is exact up to 32 bits.

    A quotient that is not an integer differs from one by more than float64's rounding (float32's up
    to 16 bits).
    """
    of, sign = llvm(type), letter(type.dtype)
    if type.width == 1 or type.dtype.itemsize > 4:
        return w.let(f"{_INTEGER[type.dtype.kind, name]} {of} {a}, {b}")
    floats = vector("double" if type.dtype.itemsize == 4 else "float", type.width)
    x, y = (w.let(f"{sign}itofp {of} {v} to {floats}") for v in (a, b))
    quotient = w.let(f"fpto{sign}i {floats} {w.let(f'fdiv {floats} {x}, {y}')} to {of}")
    if name == "quotient":
        return quotient
    return w.let(f"sub {of} {a}, {w.let(f'mul {of} {quotient}, {b}')}")


_FLOAT_TESTS: Final = {
    "eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
}  # fmt: skip


@prints(*_FLOAT_TESTS)
def _comparison(w: Writer, operation: Operation) -> None:
    a, b = operation.operands
    computes(w, operation, a.type.dtype)
    if a.type.dtype.kind == "float":
        test = f"fcmp {_FLOAT_TESTS[operation.name]}"
    elif operation.name in ("eq", "ne"):
        test = f"icmp {operation.name}"
    else:
        test = f"icmp {letter(a.type.dtype)}{operation.name}"
    w.result(operation, f"{test} {w.typed(a)}, {w.use(b)}")


@prints("select")
def _select(w: Writer, operation: Operation) -> None:
    condition, a, b = operation.operands
    w.result(operation, f"select {w.typed(condition)}, {w.typed(a)}, {w.typed(b)}")
