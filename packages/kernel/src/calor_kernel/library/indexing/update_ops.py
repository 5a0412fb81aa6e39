"""How an update changes an element."""

from __future__ import annotations

from calor_kernel.language import Number, helper, max, min


def updated(update: str, old: Number, new: Number) -> Number:
    """Return an element joined with an update."""
    if update == "add":
        return old + new
    if update == "mul":
        return old * new
    return greater(old, new) if update == "max" else smaller(old, new)


@helper
def greater(a: Number, b: Number) -> Number:
    """Return the greater, or NaN where one is."""
    return max(a, b)


@helper
def smaller(a: Number, b: Number) -> Number:
    """Return the smaller, or NaN where one is."""
    return min(a, b)
