"""State that follows a program to its device, such as that of the global random numbers.

A program whose turn it is after one of another device goes on with the numbers that come next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from calor.functions.conversion import to_device


class Follower(Protocol):
    """State of two tensors; None before it is used."""

    key: Any
    counter: Any


# The module that has such state adds it here.
followers: Final[list[Follower]] = []


def follow(held: Iterable[Any], device: Any) -> bool:
    """Bring state that follows to a device; False if other tensors of those held are elsewhere."""
    strays = [t for t in held if t._value.device is not device]
    known = {id(t) for state in followers for t in (state.key, state.counter)}
    if any(id(t) not in known for t in strays):
        return False
    for t in strays:
        t._value = to_device(t, device)._value
    return True
