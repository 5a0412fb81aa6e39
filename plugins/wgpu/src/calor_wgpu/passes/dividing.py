"""Quotients by constants as products.

Requirements: naga calls a function for each quotient of integers, with tests of the divisor, so
that a driver's compiler may find no constant to divide by. Only numbers below 2³¹ are divided so,
and exactly (Granlund and Montgomery, PLDI 1994).
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import int32, uint32
from calor_kernel.ir.nodes import Kernel, Operation, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter


def divide_by_products(kernel: Kernel) -> Kernel:
    """Return the kernel with products for quotients and remainders by constants."""
    return _Products().run(kernel)


class _Products(Rewriter):
    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Emit a quotient by a product, and a remainder by that quotient."""
        if operation.name not in ("quotient", "modulo"):
            return None
        number, by = operation.operands
        divisor = by.known
        if not (number.type.width == 1 and number.nonnegative and isinstance(divisor, int)):
            return None
        # Compilers divide by powers of two with shifts.
        if number.type.dtype is not int32 or divisor < 3 or not divisor & (divisor - 1):
            return None
        given = self.get(number)
        quotient = self._quotient(given, divisor)
        if operation.name == "quotient":
            return [(quotient,)]
        made = self.make("sub", given, self.make("mul", quotient, self.like(divisor, quotient)))
        made.nonnegative = True
        return [(made,)]

    def _quotient(self, number: Value, divisor: int) -> Value:
        """Return the quotient of a number from 0 to 2³¹ − 1."""
        shift = (divisor - 1).bit_length() - 1
        multiplier = -(-(1 << (32 + shift)) // divisor)
        wide = self.convert(number, uint32)
        high = self.make("mulhi", wide, self.like(multiplier, wide))
        made = self.convert(self.make("shr", high, self.like(shift, high)), int32)
        made.nonnegative = True
        return made
