"""Quotients by constants as products.

Requirements: naga calls a function for each quotient of integers, with tests of the divisor, so
that a driver's compiler may find no constant to divide by. Only numbers below 2³¹ are divided so,
and exactly (Granlund and Montgomery, PLDI 1994). Numbers that are seen to be small take a product
of 32 bits, others one of 64, which hardware computes in several steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor.dtypes import int32, uint32
from calor_kernel.ir.nodes import Kernel, Operation, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter

# What numbers do not exceed if no more is known, and how many operations are looked through.
_MOST: Final = (1 << 31) - 1
_STEPS: Final = 4


def divide_by_products(kernel: Kernel) -> Kernel:
    """Return the kernel with products for quotients and remainders by constants."""
    return _Products().run(kernel)


class _Products(Rewriter):
    def run(self, kernel: Kernel) -> Kernel:
        """Return the rewritten kernel."""
        self.made = {
            value: operation for operation in kernel.body.walk() for value in operation.results
        }
        return super().run(kernel)

    def most(self, number: Value, steps: int = _STEPS) -> int:
        """Return what a number that is not negative does not exceed."""
        if isinstance(number.known, int):
            return int(number.known)
        made = self.made.get(number)
        if made is None or not steps:
            return _MOST
        found = [_MOST]
        if made.name == "select":
            condition, *values = made.operands
            found.append(max(self._chosen(v, condition, steps, k) for k, v in enumerate(values)))
        elif made.name in ("modulo", "quotient"):
            first, by = made.operands
            if first.nonnegative and isinstance(by.known, int) and by.known > 0:
                most = self.most(first, steps - 1)
                found.append(min(by.known - 1, most) if made.name == "modulo" else most // by.known)
        elif made.name == "min":
            found += [self.most(v, steps - 1) for v in made.operands if v.nonnegative]
        return min(found)

    def _chosen(self, value: Value, condition: Value, steps: int, outcome: int) -> int:
        """Return what a value of a choice does not exceed; the first is taken if it is true."""
        if not value.nonnegative:
            return _MOST
        test, most = self.made.get(condition), self.most(value, steps - 1)
        if outcome == 0 and test is not None and test.name == "lt" and test.operands[0] is value:
            most = min(most, max(self.most(test.operands[1], 1) - 1, 0))
        return most

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
        quotient = self._quotient(given, divisor, self.most(number))
        if operation.name == "quotient":
            return [(quotient,)]
        made = self.make("sub", given, self.make("mul", quotient, self.like(divisor, quotient)))
        made.nonnegative = True
        return [(made,)]

    def _quotient(self, number: Value, divisor: int, most: int) -> Value:
        """Return the quotient of a number from 0 to ``most``, at most 2³¹ − 1."""
        wide = self.convert(number, uint32)
        short = short_factor(divisor, most)
        if short is not None:
            multiplier, shift = short
            high = self.make("mul", wide, self.like(multiplier, wide))
        else:
            shift = (divisor - 1).bit_length() - 1
            multiplier = -(-(1 << (32 + shift)) // divisor)
            high = self.make("mulhi", wide, self.like(multiplier, wide))
        made = self.convert(self.make("shr", high, self.like(shift, high)), int32)
        made.nonnegative = True
        return made


def short_factor(divisor: int, most: int) -> tuple[int, int] | None:
    """Return a factor and a shift that divide numbers up to ``most`` exactly in 32 bits, or None.

    >>> short_factor(58, 3363)
    (565, 15)
    >>> 3363 * 565 >> 15 == 3363 // 58
    True
    """
    for shift in range(32):
        factor = -(-(1 << shift) // divisor)
        if factor * most >= 1 << 32:
            return None
        # The product is too large by the factor's rounding times the number.
        if (factor * divisor - (1 << shift)) * most < 1 << shift:
            return factor, shift
    return None
