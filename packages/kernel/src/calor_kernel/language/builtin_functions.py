"""``min``, ``max`` and ``range`` of device values, for type checkers.

In a kernel the built-in functions work too. Their type stubs require numbers with a truth value and
an index, which device values lack, so type-checked modules import these.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING, overload

from calor_kernel.language import statements
from calor_kernel.language.values import Number

if TYPE_CHECKING:

    @overload
    def min(first: int, *others: int) -> int: ...

    @overload
    def min(first: Number | float, *others: Number | float) -> Number: ...

    def min(first: Number | float, *others: Number | float) -> Number | int:
        """Return the smallest, lane by lane; NaN if any is NaN."""

    @overload
    def max(first: int, *others: int) -> int: ...

    @overload
    def max(first: Number | float, *others: Number | float) -> Number: ...

    def max(first: Number | float, *others: Number | float) -> Number | int:
        """Return the greatest, lane by lane; NaN if any is NaN."""

    @overload
    def range(*bounds: int) -> builtins.range: ...  # type: ignore[overload-overlap]

    @overload
    def range(*bounds: Number | int) -> Iterable[Number]: ...

    def range(*bounds: Number | int) -> Iterable[Number] | builtins.range:
        """Return a range, which is a device loop if a bound is a device value."""

else:
    min, max, range = statements.min_, statements.max_, statements.range_
