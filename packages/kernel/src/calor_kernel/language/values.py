"""Device values and their Python operators.

Requirements: a device value has no truth value and no conversion to a Python number, so a kernel
cannot accidentally depend on it at build time. Python numbers adopt the type of the other operand.
Two device values of different types are never mixed silently.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from calor.dtypes import DType
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Block, Value
from calor_kernel.ir.types import Type


class Operators(Protocol):
    """Records the operations of values: the builder of the kernel."""

    def unary(self, name: str, a: Any) -> Number:
        """Return an operation of one value."""

    def binary(self, name: str, a: Any, b: Any) -> Number:
        """Return an operation of two values; one may be a Python number."""

    def floor_divide(self, a: Any, b: Any) -> Number:
        """Return the quotient, rounded down for integers."""

    def floor_modulo(self, a: Any, b: Any) -> Number:
        """Return the remainder, with the sign of the divisor."""

    def cast(self, value: Any, dtype: DType) -> Number:
        """Return a value in another type."""

    def extract(self, value: Any, lane: Any) -> Number:
        """Return a lane of a vector."""


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

    # Arithmetic.
    def __add__(self, other: Any) -> Number:
        return self.builder.binary("add", self, other)

    def __radd__(self, other: Any) -> Number:
        return self.builder.binary("add", other, self)

    def __sub__(self, other: Any) -> Number:
        return self.builder.binary("sub", self, other)

    def __rsub__(self, other: Any) -> Number:
        return self.builder.binary("sub", other, self)

    def __mul__(self, other: Any) -> Number:
        return self.builder.binary("mul", self, other)

    def __rmul__(self, other: Any) -> Number:
        return self.builder.binary("mul", other, self)

    def __truediv__(self, other: Any) -> Number:
        return self.builder.binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Number:
        return self.builder.binary("div", other, self)

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

    # Bits.
    def __and__(self, other: Any) -> Number:
        return self.builder.binary("and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Number:
        return self.builder.binary("or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Number:
        return self.builder.binary("xor", self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Number:
        return self.builder.unary("not", self)

    def __lshift__(self, other: Any) -> Number:
        return self.builder.binary("shl", self, other)

    def __rlshift__(self, other: Any) -> Number:
        return self.builder.binary("shl", other, self)

    def __rshift__(self, other: Any) -> Number:
        return self.builder.binary("shr", self, other)

    def __rrshift__(self, other: Any) -> Number:
        return self.builder.binary("shr", other, self)

    # Comparisons.
    def __eq__(self, other: object) -> Number:  # type: ignore[override]
        return self.builder.binary("eq", self, other)

    def __ne__(self, other: object) -> Number:  # type: ignore[override]
        return self.builder.binary("ne", self, other)

    def __lt__(self, other: Any) -> Number:
        return self.builder.binary("lt", self, other)

    def __le__(self, other: Any) -> Number:
        return self.builder.binary("le", self, other)

    def __gt__(self, other: Any) -> Number:
        return self.builder.binary("gt", self, other)

    def __ge__(self, other: Any) -> Number:
        return self.builder.binary("ge", self, other)

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
