"""The builder: converts the operations of a kernel's body to IR.

It owns all state of a build (blocks, scopes, register arrays), so that a body may be traced again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakSet

import numpy as np

from calor.dtypes import DType, bool_, float32, int32, int64
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir import fold
from calor_kernel.ir.emitting import Emitter
from calor_kernel.ir.nodes import Block, Memory, Position
from calor_kernel.ir.ops import OPS, Row
from calor_kernel.ir.types import Space, Type
from calor_kernel.language.values import Number, Undefined

# The folders whose frames are no positions of a kernel: this one, and that of the IR.
HERE = tuple(f"{Path(__file__).parents[1] / name}{os.sep}" for name in ("language", "ir"))
_LANGUAGE = HERE[0]
_CODES = {"bool": "b", "int": "i", "uint": "u", "float": "f"}
_STATE = threading.local()


def current() -> Builder:
    """Return the builder of the current kernel; KernelTypeError outside a build."""
    builder: Builder | None = getattr(_STATE, "builder", None)
    if builder is None:
        raise KernelTypeError("this function makes a kernel's code; call it inside a @kernel")
    return builder


class Builder(Emitter[Number]):
    """Makes the operations of one kernel.

    ``index`` is the dtype of positions and of Python integers that become device values: int64, or
    int32 if every size is known to fit. ``cube`` and ``plane`` are the shape of a cube and the
    number of units in lock step.
    """

    def __init__(
        self,
        index: DType = int64,
        cube: tuple[int, int, int] = (1, 1, 1),
        plane: int = 1,
        features: frozenset[str] = frozenset(),
    ) -> None:
        if index not in (int32, int64):
            raise KernelTypeError(f"the index type is int32 or int64, not {index}")
        super().__init__()
        self.index = index
        self.cube = cube
        self.plane = plane
        self.features = features
        self.top = self.block
        self.memories: list[Memory] = []
        self.attributes: dict[str, Any] = {}
        # The kernel's scalar parameters, by which a host finds their arguments.
        self.scalars: dict[Number, str] = {}
        # The live register arrays; language.memory adds them.
        self.arrays: WeakSet[Any] = WeakSet()
        self.flags: tuple[str, ...] = ("contract",)
        # Types of Python numbers that changed in a loop, for the next trace of it.
        self.guesses: dict[Any, dict[int, Type]] = {}

    @contextmanager
    def active(self) -> Iterator[Builder]:
        """Make this the current builder of the language's functions."""
        before = getattr(_STATE, "builder", None)
        _STATE.builder = self
        try:
            yield self
        finally:
            _STATE.builder = before

    def attempt(self, make: Callable[[], Any]) -> tuple[Any, bool]:
        """Return a function's result, and whether all its operations are harmless unconditionally.

        If some are not (they read memory or divide), all are removed.
        """
        operations = self.block.operations
        count = len(operations)
        made = make()
        added = operations[count:]
        if all(OPS[o.name].pure and not fold.may_fail(o.name, o.operands) for o in added):
            return made, True
        del operations[count:]
        gone = {value for o in added for value in o.results}
        ending = self.ending[-1]
        self.ending[-1] = [key for key in ending if self.shared[key] not in gone]
        for key in ending:
            if self.shared[key] in gone:
                del self.shared[key]
        return made, False

    def finish(self) -> Block:
        """Return the kernel's body; constants come first, in scope of every region."""
        self.top.operations[:0] = self.constants
        self.constants = []
        return self.top

    # Making operations.
    def new(self, type: Type, known: Any = None, home: Block | None = None) -> Number:
        made = Number(self, type, "", known)
        made.home = home
        return made

    def value(self, type: Type, hint: str = "") -> Number:
        """Return a fresh value, usually a block's argument."""
        return Number(self, type, hint)

    def check(self, row: Row, operands: Sequence[Number]) -> None:
        """Raise KernelTypeError if the operands do not fit an operation's row."""
        name, scope = row.name, self.open
        for value in operands:
            if value.home not in scope:
                raise KernelTypeError(
                    "a value made in a loop or a branch is used outside of it; "
                    "assign it to a name or an element of registers(...) there, which are carried"
                )
        if row.operands != len(operands) and row.operands >= 0:
            raise KernelTypeError(f"{name} takes {row.operands} operands, not {len(operands)}")
        if not operands:
            return
        first = operands[0].type
        if _CODES.get(first.dtype.kind, "?") not in row.kinds:
            raise KernelTypeError(f"{name} does not take {first}; convert it with .to(dtype) first")
        if row.alike and any(v.type != first for v in operands[1:]):
            types = ", ".join(str(v.type) for v in operands)
            raise KernelTypeError(
                f"{name} takes operands of one type, not {types}; convert one with "
                f".to(dtype), or widen it with splat"
            )

    def position(self) -> Position | None:
        """Return the file and line of the kernel code being traced."""
        # The caller is of the language or of the IR.
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith(_LANGUAGE):
            frame = frame.f_back
        return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else None

    # Conversions between Python and the device.
    def coerce(self, given: Any, like: Type | None = None) -> Number:
        """Return a device value for a Python number, with the other operand's type."""
        if isinstance(given, Number):
            return given
        if isinstance(given, np.generic):
            given = given.item()
        if isinstance(given, bool):
            return self.constant(given, bool_ if like is None else like.dtype)
        if isinstance(given, int):
            dtype = self.index if like is None else like.dtype
            if dtype.kind != "float" and fold.convert(given, dtype) != given:
                raise KernelTypeError(
                    f"{given} does not fit {dtype}; convert the other operand with "
                    f".to(dtype), or write constant({given}, {dtype}), which keeps the low bits"
                )
            return self.constant(given, dtype)
        if isinstance(given, float):
            if like is not None and like.dtype.kind != "float":
                raise KernelTypeError(
                    f"the float {given} meets {like}; convert that with .to(float32)"
                )
            return self.constant(given, float32 if like is None else like.dtype)
        if isinstance(given, Undefined):
            given.refuse()
        raise KernelTypeError(f"{given!r} cannot be a device value")

    def fitted(self, given: Any, type: Type) -> Number:
        """Return a number as a device value of a type, in every lane."""
        return self.splat(self.coerce(given, type), type.width)

    def pair(self, a: Any, b: Any) -> tuple[Number, Number]:
        """Return two operands of one type; a Python number adopts the other operand's type."""
        if not isinstance(a, Number):
            a = self.coerce(a, b.type if isinstance(b, Number) else None)
        if not isinstance(b, Number):
            b = self.coerce(b, a.type)
        if a.width != b.width:
            if a.width == 1:
                a = self.splat(a, b.width)
            elif b.width == 1:
                b = self.splat(b, a.width)
        return a, b

    # Operators.
    def binary(self, name: str, a: Any, b: Any) -> Number:
        """Return an operation of two operands."""
        a, b = self.pair(a, b)
        row = OPS[name]
        type = Type(bool_, a.width) if row.result == "bool" else a.type
        floating = a.dtype.kind == "float" and "flags" in row.attributes
        attributes = {"flags": self.flags} if floating and self.flags else None
        return self.emit(name, (a, b), (type,), attributes)[0]

    def unary(self, name: str, a: Any) -> Number:
        """Return an operation of one operand, of the operand's type."""
        a = self.coerce(a)
        return self.emit(name, (a,), (a.type,))[0]

    def floor_divide(self, a: Any, b: Any) -> Number:
        """Return the quotient of integers, rounded down."""
        a, b, power = self._divided("//", "floor(a / b)", a, b)
        if power is not None:
            return self.binary("shr", a, power)
        quotient = self.binary("quotient", a, b)
        if a.dtype.kind == "uint" or fold.not_negative(a, b):
            return quotient
        rest = self.binary("modulo", a, b)
        return self.select(self._rounds_up(rest, b), quotient - 1, quotient)

    def floor_modulo(self, a: Any, b: Any) -> Number:
        """Return the remainder of the quotient rounded down, with the divisor's sign."""
        a, b, power = self._divided("%", "a - floor(a / b) * b", a, b)
        if power is not None:
            return self.binary("and", a, (1 << power) - 1)
        rest = self.binary("modulo", a, b)
        if a.dtype.kind == "uint" or fold.not_negative(a, b):
            return rest
        result = self.select(self._rounds_up(rest, b), rest + b, rest)
        result.nonnegative = b.nonnegative
        return result

    def _divided(self, sign: str, instead: str, a: Any, b: Any) -> tuple[Any, Any, int | None]:
        """Return the operands of a division of integers, and n if the divisor is known as 2**n."""
        power = fold.power_of_two(self.coerce(b).known)
        a, b = self.pair(a, b)
        if a.dtype.kind == "float":
            raise KernelTypeError(f"{sign} is for integers; write {instead}")
        return a, b, power

    def _rounds_up(self, rest: Number, divisor: Number) -> Number:
        """Return whether a quotient that was rounded toward zero is above the exact one."""
        return self.binary("and", rest != 0, self.binary("xor", rest, divisor) < 0)

    def select(self, condition: Any, a: Any, b: Any) -> Number:
        """Return ``a`` where the condition holds, else ``b``; both are computed."""
        a, b = self.pair(a, b)
        condition = self.coerce(condition)
        if condition.width != a.width:
            if condition.width == 1:
                condition = self.splat(condition, a.width)
            else:
                a, b = self.splat(a, condition.width), self.splat(b, condition.width)
        if a.type != b.type:
            raise KernelTypeError(f"select chooses between {a.type} and {b.type}")
        return self.emit("select", (condition, a, b), (a.type,))[0]

    def cast(self, a: Any, dtype: DType) -> Number:
        """Return a value converted to another element type."""
        a = self.coerce(a)
        return a if a.dtype is dtype else self.emit("cast", (a,), (Type(dtype, a.width),))[0]

    def bitcast(self, a: Any, dtype: DType) -> Number:
        """Return the bits reinterpreted as another element type, adapting the width."""
        a = self.coerce(a)
        width, rest = divmod(a.type.nbytes, dtype.itemsize)
        if rest:
            raise KernelTypeError(f"{a.type} has no whole number of {dtype}")
        return a if a.dtype is dtype else self.emit("bitcast", (a,), (Type(dtype, width),))[0]

    def splat(self, a: Any, width: int) -> Number:
        value = self.coerce(a)
        if width in (1, value.width):
            return value
        if value.width != 1:
            raise KernelTypeError(f"{value.type} does not have {width} lanes")
        return self.emit("splat", (value,), (value.type.wide(width),))[0]

    def extract(self, a: Number, lane: int) -> Number:
        """Return one lane of a vector."""
        if not -a.width <= lane < a.width:
            raise IndexError(f"{a.type} has no lane {lane}")
        if a.width == 1:
            return a
        return self.emit("extract", (a,), (a.type.scalar,), {"lane": lane % a.width})[0]

    # Memory.
    def memory(self, name: str, space: Space, type: Type, size: int, align: int = 0) -> Memory:
        """Return fresh memory of a cube ("shared") or of a unit ("private")."""
        made = Memory(f"{name}{len(self.memories)}", space, type, size, align)
        self.memories.append(made)
        return made
