"""Python's operators on tensors.

Requirements: the case of two tensors goes straight to the recorder; numbers stay numbers (weak, and
inputs of the plan); NumPy scalars are weak like Python's; host arrays become tensors on this
device. Anything else is left to the other operand.
"""

# The recorder's tensors are Any to the checker: it makes them without knowing their class.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

from calor.functions import linear_algebra
from calor.functions.operands import from_host, mixed, prepared_pair
from calor.ops import elementwise as e
from calor.recording.record import binary, unary
from calor.tensor.tensor import Tensor, with_methods


@with_methods
class Operators(Tensor):
    """Arithmetic, comparison and bit operators, forward, reflected and in place."""

    __slots__ = ()

    def __neg__(self) -> Tensor:
        return unary(e.neg, self)

    def __pos__(self) -> Tensor:
        return self.copy()

    def __abs__(self) -> Tensor:
        return unary(e.abs, self)

    def __invert__(self) -> Tensor:
        return unary(e.bit_not, self)

    def __add__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.add, self, other)
        return mixed(e.add, self, other, False)

    def __radd__(self, other: Any) -> Tensor:
        return mixed(e.add, self, other, True)

    def __iadd__(self, other: Any) -> Tensor:
        return self._rebind(self.__add__(other))

    def __sub__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.sub, self, other)
        return mixed(e.sub, self, other, False)

    def __rsub__(self, other: Any) -> Tensor:
        return mixed(e.sub, self, other, True)

    def __isub__(self, other: Any) -> Tensor:
        return self._rebind(self.__sub__(other))

    def __mul__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.mul, self, other)
        return mixed(e.mul, self, other, False)

    def __rmul__(self, other: Any) -> Tensor:
        return mixed(e.mul, self, other, True)

    def __imul__(self, other: Any) -> Tensor:
        return self._rebind(self.__mul__(other))

    def __truediv__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.div, self, other)
        return mixed(e.div, self, other, False)

    def __rtruediv__(self, other: Any) -> Tensor:
        return mixed(e.div, self, other, True)

    def __itruediv__(self, other: Any) -> Tensor:
        return self._rebind(self.__truediv__(other))

    def __floordiv__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.floor_divide, self, other)
        return mixed(e.floor_divide, self, other, False)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return mixed(e.floor_divide, self, other, True)

    def __ifloordiv__(self, other: Any) -> Tensor:
        return self._rebind(self.__floordiv__(other))

    def __mod__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.remainder, self, other)
        return mixed(e.remainder, self, other, False)

    def __rmod__(self, other: Any) -> Tensor:
        return mixed(e.remainder, self, other, True)

    def __imod__(self, other: Any) -> Tensor:
        return self._rebind(self.__mod__(other))

    def __pow__(self, other: Any) -> Tensor:
        self, other = prepared_pair(e.power, self, other)
        if type(other) is type(self):
            return binary(e.power, self, other)
        if type(other) in (int, float) and other == 2 and self._value.spec.dtype.is_inexact:
            # The square is exact as a product, and its gradient has one op instead of ten.
            return binary(e.mul, self, self)
        return mixed(e.power, self, other, False)

    def __rpow__(self, other: Any) -> Tensor:
        return mixed(e.power, *prepared_pair(e.power, self, other), True)

    def __ipow__(self, other: Any) -> Tensor:
        return self._rebind(self.__pow__(other))

    def __and__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.bit_and, self, other)
        return mixed(e.bit_and, self, other, False)

    def __rand__(self, other: Any) -> Tensor:
        return mixed(e.bit_and, self, other, True)

    def __iand__(self, other: Any) -> Tensor:
        return self._rebind(self.__and__(other))

    def __or__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.bit_or, self, other)
        return mixed(e.bit_or, self, other, False)

    def __ror__(self, other: Any) -> Tensor:
        return mixed(e.bit_or, self, other, True)

    def __ior__(self, other: Any) -> Tensor:
        return self._rebind(self.__or__(other))

    def __xor__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.bit_xor, self, other)
        return mixed(e.bit_xor, self, other, False)

    def __rxor__(self, other: Any) -> Tensor:
        return mixed(e.bit_xor, self, other, True)

    def __ixor__(self, other: Any) -> Tensor:
        return self._rebind(self.__xor__(other))

    def __lshift__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.shift_left, self, other)
        return mixed(e.shift_left, self, other, False)

    def __rlshift__(self, other: Any) -> Tensor:
        return mixed(e.shift_left, self, other, True)

    def __ilshift__(self, other: Any) -> Tensor:
        return self._rebind(self.__lshift__(other))

    def __rshift__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.shift_right, self, other)
        return mixed(e.shift_right, self, other, False)

    def __rrshift__(self, other: Any) -> Tensor:
        return mixed(e.shift_right, self, other, True)

    def __irshift__(self, other: Any) -> Tensor:
        return self._rebind(self.__rshift__(other))

    def __lt__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.less, self, other)
        return mixed(e.less, self, other, False)

    def __le__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.less_equal, self, other)
        return mixed(e.less_equal, self, other, False)

    def __gt__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.greater, self, other)
        return mixed(e.greater, self, other, False)

    def __ge__(self, other: Any) -> Tensor:
        if type(other) is type(self):
            return binary(e.greater_equal, self, other)
        return mixed(e.greater_equal, self, other, False)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        if type(other) is type(self):
            return binary(e.equal, self, other)
        return mixed(e.equal, self, other, False)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        if type(other) is type(self):
            return binary(e.not_equal, self, other)
        return mixed(e.not_equal, self, other, False)

    # Tensors are compared elementwise, so they are hashed by identity.
    __hash__ = object.__hash__

    def __matmul__(self, other: Any) -> Tensor:
        made = other if type(other) is type(self) else from_host(other, self)
        return NotImplemented if made is None else linear_algebra.matmul(self, made)

    def __rmatmul__(self, other: Any) -> Tensor:
        made = from_host(other, self)
        return NotImplemented if made is None else linear_algebra.matmul(made, self)

    def __imatmul__(self, other: Any) -> Tensor:
        return self._rebind(self.__matmul__(other))
