"""What a loop or a branch carries: values of names and of register arrays that change in it.

Requirements: a name that a body assigns may hold a number, a tuple, a register array or anything
that the build knows; what is the same afterwards is not carried, so that loops have no more values
than they need; a type that changes on the way is an error that names the variable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Type
from calor_kernel.language.arrays import Registers
from calor_kernel.language.builder import Builder
from calor_kernel.language.values import Number


class Region(ABC):
    """What ``with`` makes a region of the device by; any other context is one of the build."""

    @abstractmethod
    def make(
        self, body: Callable[..., tuple[Any, ...]], values: tuple[Any, ...], names: tuple[str, ...]
    ) -> tuple[Any, ...]:
        """Make the region of a body over values of names; return what the names are after it."""


class Undefined:
    """A name that has no value here; using it is an error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise KernelTypeError(f"{self._name!r} has no value on every way to this line")

    def __repr__(self) -> str:
        return f"<{self._name} without a value>"


def leaves(given: Any) -> list[Any]:
    """Return the parts that may change: numbers, inside tuples and lists too."""
    if isinstance(given, tuple | list):
        return [leaf for part in given for leaf in leaves(part)]
    return [given]


def rebuild(given: Any, parts: list[Any]) -> Any:
    """Return the structure with its leaves taken from the front of ``parts``."""
    if isinstance(given, tuple | list):
        made = [rebuild(part, parts) for part in given]
        if isinstance(given, list):
            return made
        return type(given)(*made) if hasattr(given, "_fields") else tuple(made)
    return parts.pop(0)


def is_number(given: Any) -> bool:
    """Return whether a value can be a device value: one already, or a number of Python."""
    return isinstance(given, Number | bool | int | float)


def same(a: Any, b: Any) -> bool:
    """Return whether two values are one: the same object, or equal numbers of Python."""
    if a is b:
        return True
    plain = type(a) is type(b) and isinstance(a, bool | int | float)
    return plain and bool(a == b)


class Frame:
    """The state that a region may change: named values, and items of all register arrays alive."""

    def __init__(self, builder: Builder, values: Sequence[Any], names: Sequence[str]) -> None:
        self.builder = builder
        self.values = list(values)
        self.names = tuple(names)
        self.arrays = builder.find_arrays()
        self.items = [list(a.items) for a in self.arrays]

    def restore(self) -> None:
        """Put the arrays' items back as they were at the start."""
        for array, items in zip(self.arrays, self.items, strict=True):
            array.items = list(items)

    def flat(self, values: Sequence[Any]) -> list[Any]:
        """Return the leaves of values of the names, then the arrays' items as they are now."""
        found = [leaf for value in values for leaf in leaves(value)]
        return found + [item for array in self.arrays for item in array.items]

    def before(self) -> list[Any]:
        """Return the leaves at the start."""
        found = [leaf for value in self.values for leaf in leaves(value)]
        return found + [item for items in self.items for item in items]

    def labels(self) -> list[str]:
        """Return a name for each leaf, for messages."""
        pairs = zip(self.names, self.values, strict=True)
        found = [name for name, value in pairs for _ in leaves(value)]
        return found + ["a register array" for items in self.items for _ in items]

    def set(self, flat: Sequence[Any], like: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """Set the arrays' items from leaves, and return the names' values made of the others."""
        parts = list(flat)
        values = tuple(rebuild(v, parts) for v in (self.values if like is None else like))
        for array in self.arrays:
            array.items = [parts.pop(0) for _ in array.items]
        return values


def shape(given: Any) -> Any:
    if isinstance(given, tuple | list):
        return (type(given), *map(shape, given))
    return None


def merged(builder: Builder, a: Any, b: Any, label: str, line: Callable[[], str]) -> Type | None:
    """Return the type in which two leaves meet, None where they are the same and need no value."""
    if a is b:
        return None
    if isinstance(a, Undefined) or isinstance(b, Undefined):
        return None
    if isinstance(a, Registers) or isinstance(b, Registers) or not (is_number(a) and is_number(b)):
        raise KernelTypeError(
            f"{line()}{label!r} becomes {b!r} where it was {a!r}, which the build must decide; "
            f"only device values change on the device"
        )
    if not isinstance(a, Number) and not isinstance(b, Number):
        if same(a, b):
            return None
        a = builder.coerce(float(a) if isinstance(b, float) else a)
    x, y = builder.pair(a, b)
    if x.type != y.type:
        raise KernelTypeError(
            f"{line()}{label!r} is {x.type} on one way and {y.type} on another; convert one "
            f"with .to(dtype)"
        )
    return x.type
