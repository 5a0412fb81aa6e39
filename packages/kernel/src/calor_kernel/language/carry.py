"""Carried values of loops and branches: names and register arrays that change.

A name assigned in a body may hold a number, a tuple, a register array or any build-time value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any

from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import Builder
from calor_kernel.language.memory import Registers
from calor_kernel.language.values import Number
from calor_kernel.language.values import Undefined as Undefined

Values = tuple[Any, ...]
Body = Callable[..., Values]


class Region(ABC):
    """A context whose ``with`` becomes a device region; other contexts are build-time."""

    def __enter__(self) -> None:
        """Refuse: only a kernel's ``with`` creates a region, by calling ``make``."""
        raise KernelTypeError(f"{type(self).__name__} is for kernels and helpers only")

    def __exit__(self, *raised: object) -> None:  # noqa: B027 - nothing was entered
        """Do nothing: the region was never entered."""

    @abstractmethod
    def make(self, body: Body, values: Values, names: tuple[str, ...]) -> Values:
        """Emit the region of a body over named values; return the values of the names after it."""


def _structure(given: Any) -> list[Any] | None:
    """Return the parts of a composite value, None for other values.

    Frozen dataclasses are composite if they contain device values, and build-time values otherwise.
    """
    if isinstance(given, Number):
        return None
    if isinstance(given, tuple | list):
        return list(given)
    if isinstance(given, dict):
        return list(given.values())
    if is_dataclass(given) and not isinstance(given, type):
        frozen = given.__dataclass_params__.frozen  # type: ignore[attr-defined]
        parts = [getattr(given, f.name) for f in fields(given)] if frozen else []
        if any(isinstance(leaf, Number) for part in parts for leaf in leaves(part)):
            return parts
    return None


def leaves(given: Any) -> list[Any]:
    """Return the leaves that may change: numbers, also inside composite values."""
    parts = _structure(given)
    return [given] if parts is None else [leaf for part in parts for leaf in leaves(part)]


def rebuild(given: Any, parts: list[Any]) -> Any:
    """Return the structure with its leaves taken from the front of ``parts``."""
    inner = _structure(given)
    if inner is None:
        return parts.pop(0)
    made = [rebuild(part, parts) for part in inner]
    if isinstance(given, list):
        return made
    if isinstance(given, dict):
        return dict(zip(given, made, strict=True))
    if isinstance(given, tuple):
        return type(given)(*made) if hasattr(given, "_fields") else tuple(made)
    result = copy(given)
    for field, part in zip(fields(given), made, strict=True):
        object.__setattr__(result, field.name, part)
    return result


def is_number(given: Any) -> bool:
    """Return whether a value is a device value or a Python number."""
    return isinstance(given, Number | bool | int | float)


def same(a: Any, b: Any) -> bool:
    """Return whether two values are the same object, or equal Python numbers."""
    if a is b:
        return True
    plain = type(a) is type(b) and isinstance(a, bool | int | float)
    return plain and bool(a == b)


class Frame:
    """The state that a region may change: named values, and items of all live register arrays."""

    def __init__(self, builder: Builder, values: Sequence[Any], names: Sequence[str]) -> None:
        self.builder = builder
        self.values = list(values)
        self.names = tuple(names)
        self.arrays: list[Registers] = sorted(builder.arrays, key=lambda array: array.number)
        self.items = [list(a.items) for a in self.arrays]

    def restore(self) -> None:
        """Restore the arrays' items from the start."""
        for array, items in zip(self.arrays, self.items, strict=True):
            array.items = list(items)

    def flat(self, values: Sequence[Any]) -> list[Any]:
        """Return the leaves of the names' values, then the arrays' current items."""
        return leaves(tuple(values)) + [item for array in self.arrays for item in array.items]

    def before(self) -> list[Any]:
        """Return the leaves at the start."""
        return leaves(self.values) + [item for items in self.items for item in items]

    def labels(self, values: Sequence[Any] | None = None) -> list[str]:
        """Return a name for each leaf of the names' values, for messages."""
        pairs = zip(self.names, self.values if values is None else values, strict=True)
        found = [name for name, value in pairs for _ in leaves(value)]
        return found + ["a register array" for items in self.items for _ in items]

    def set(self, flat: Sequence[Any], like: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """Set the arrays' items from leaves; return the names' values built from the others."""
        parts = list(flat)
        values = tuple(rebuild(v, parts) for v in (self.values if like is None else like))
        for array in self.arrays:
            array.items = [parts.pop(0) for _ in array.items]
        return values

    def check_unchanged(self, given: Sequence[Any], flat: Sequence[Any]) -> None:
        """Raise if a loop's condition changed a register array or a list."""
        now = self.flat(given)
        if len(now) != len(flat) or any(a is not b for a, b in zip(now, flat, strict=True)):
            raise KernelTypeError(
                "the condition of a while changes a register array or a list; change it in the body"
            )


def decided(condition: Any) -> Any:
    """Return a condition's build-time value if known, else the device value."""
    if isinstance(condition, Number):
        return condition.known if isinstance(condition.known, bool) else condition
    return bool(condition)


def shape(given: Any) -> Any:
    """Return a key; values with equal keys have the same leaves."""
    parts = _structure(given)
    if parts is None:
        return None
    keys = tuple(given) if isinstance(given, dict) else ()
    return (type(given), keys, *map(shape, parts))


def merged(builder: Builder, a: Any, b: Any, label: str) -> Type | None:
    """Return the common type of two leaves, None if they are identical."""
    if a is b or isinstance(a, Undefined) or isinstance(b, Undefined):
        return None
    if not (is_number(a) and is_number(b)):
        raise KernelTypeError(
            f"{label!r} becomes {b!r} but was {a!r}, which the build must "
            f"decide; a device condition changes device values only"
        )
    if same(a, b):
        return None
    x, y = _types(builder, a, b)
    if x.dtype is not y.dtype or (x.width != y.width and 1 not in (x.width, y.width)):
        raise KernelTypeError(
            f"{label!r} is {x} on one way and {y} on another; convert one with .to(dtype)"
        )
    return x if x.width > 1 else y


def _types(builder: Builder, a: Any, b: Any) -> tuple[Type, Type]:
    """Return the types of two numbers; a Python number adopts the other's, as in arithmetic."""
    if isinstance(a, Number) or isinstance(b, Number):
        like = a.type if isinstance(a, Number) else b.type
        return builder.coerce(a, like).type, builder.coerce(b, like).type
    kinds = {type(a), type(b)}
    common = float if float in kinds else int if int in kinds else bool
    type_ = builder.coerce(common(a)).type
    return type_, type_
