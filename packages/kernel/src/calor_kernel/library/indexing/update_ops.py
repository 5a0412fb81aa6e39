"""How an update changes an element."""

from __future__ import annotations

from typing import Any

from calor_kernel.language import helper


def updated(update: str, old: Any, new: Any) -> Any:
    """Return an element joined with an update."""
    if update == "add":
        return old + new
    if update == "mul":
        return old * new
    return greater(old, new) if update == "max" else smaller(old, new)


@helper
def greater(a: Any, b: Any) -> Any:
    """Return the greater, or NaN where one is."""
    return max(a, b)


@helper
def smaller(a: Any, b: Any) -> Any:
    """Return the smaller, or NaN where one is."""
    return min(a, b)
