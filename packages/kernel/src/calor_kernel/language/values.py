"""Device values and their Python operators.

A device value has no truth value and no conversion to a Python number, so a kernel cannot depend on
it at build time. Python numbers adopt the type of the other operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from calor.dtypes import DType
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Block, Value
from calor_kernel.ir.types import Type


class Operators(Protocol):
    """Records the operations of values: the builder of the kernel."""

    def unary(self, name: str, a: Any) -> Number: ...

    def binary(self, name: str, a: Any, b: Any) -> Number: ...

    def floor_divide(self, a: Any, b: Any) -> Number: ...

    def floor_modulo(self, a: Any, b: Any) -> Number: ...

    def cast(self, value: Any, dtype: DType) -> Number: ...

    def extract(self, value: Any, lane: Any) -> Number: ...


def _operator(name: str) -> Callable[[Number, Any], Number]:
    """Return the method of a binary operator."""

    def method(self: Number, other: Any) -> Number:
        return self.builder.binary(name, self, other)

    return method


def _reflected(name: str) -> Callable[[Number, Any], Number]:
    """Return the method of a binary operator whose first operand is a Python number."""

    def method(self: Number, other: Any) -> Number:
        return self.builder.binary(name, other, self)

    return method


class Number(Value):
    """A device value: a scalar, or a vector of lanes.

    Operators follow Python: ``//`` and ``%`` round down, ``/`` is for floats, ``&``, ``|``, ``^``
    and ``~`` work on bits, comparisons give bools.
    """

    __slots__ = ("builder", "home")

    # NumPy scalars must leave the operators to this class.
    __array_ufunc__ = None

    def __init__(self, builder: Operators, type: Type, hint: str = "", known: Any = None) -> None:
        super().__init__(type, hint, known)
        self.builder = builder
        # The block that defines the value; None for a kernel's parameter or a constant.
        self.home: Block | None = None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def width(self) -> int:
        """The number of lanes; 1 for a scalar."""
        return self.type.width

    # A kernel's body is rewritten, so for a type checker these return.
    def __bool__(self) -> bool:
        raise KernelTypeError(
            f"{self!r} exists only when the kernel runs and has no truth value at build time; in a "
            f"helper function write @helper above it, so that its if and while are rewritten"
        )

    def _no_number(self) -> NoReturn:
        raise KernelTypeError(
            f"{self!r} exists only when the kernel runs; an index of a register array, a range of "
            f"build-time steps or a shape must be known at build time (a keyword-only parameter)"
        )

    def __index__(self) -> int:
        self._no_number()

    def __int__(self) -> int:
        self._no_number()

    def __float__(self) -> float:
        self._no_number()

    def __iter__(self) -> NoReturn:
        raise KernelTypeError(f"{self!r} is no sequence; use v[i] with i known at build time")

    __hash__ = Value.__hash__

    # Arithmetic, bits and comparisons.
    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reflected("div")
    __lshift__, __rlshift__ = _operator("shl"), _reflected("shl")
    __rshift__, __rrshift__ = _operator("shr"), _reflected("shr")
    __and__ = __rand__ = _operator("and")
    __or__ = __ror__ = _operator("or")
    __xor__ = __rxor__ = _operator("xor")
    __eq__ = _operator("eq")  # type: ignore[assignment]
    __ne__ = _operator("ne")  # type: ignore[assignment]
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")

    def __floordiv__(self, other: Any) -> Number:
        return self.builder.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Number:
        return self.builder.floor_divide(other, self)

    def __mod__(self, other: Any) -> Number:
        return self.builder.floor_modulo(self, other)

    def __rmod__(self, other: Any) -> Number:
        return self.builder.floor_modulo(other, self)

    def __neg__(self) -> Number:
        return self.builder.unary("neg", self)

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Number:
        return self.builder.unary("abs", self)

    def __invert__(self) -> Number:
        return self.builder.unary("not", self)

    # Lanes.
    def __getitem__(self, lane: int) -> Number:
        return self.builder.extract(self, lane)

    def to(self, dtype: DType) -> Number:
        """Return the value converted to another element type, by the operation ``cast``."""
        return self.builder.cast(self, dtype)


class Undefined:
    """A name without a value here; any use is an error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        self.refuse()

    def refuse(self, *_: Any) -> NoReturn:
        """Raise the error of a use."""
        raise KernelTypeError(f"{self._name!r} has no value on every path to this line")

    __bool__ = __len__ = __iter__ = __index__ = __int__ = __float__ = __call__ = refuse
    __getitem__ = __setitem__ = __contains__ = __neg__ = __invert__ = __abs__ = refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = refuse
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __matmul__ = refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = refuse
    __rlshift__ = __rshift__ = __rrshift__ = __lt__ = __le__ = __gt__ = __ge__ = refuse
    __eq__ = __ne__ = refuse
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<{self._name} without a value>"
