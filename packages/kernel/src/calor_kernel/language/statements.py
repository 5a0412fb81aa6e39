"""Rewritten statements of a kernel: decided at build time, or turned into regions.

:mod:`calor_kernel.language.rewrite` writes these names into kernels.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from math import gcd
from typing import Any, Protocol, overload

from calor.dtypes import bool_
from calor_kernel.errors import KernelSyntaxError, KernelTypeError
from calor_kernel.ir import fold
from calor_kernel.ir.nodes import Block
from calor_kernel.language.builder import current
from calor_kernel.language.carry import (
    Body,
    Frame,
    Region,
    Undefined,
    Values,
    decided,
    leaves,
    merged,
    shape,
)
from calor_kernel.language.loops import DeviceRange, loop_range
from calor_kernel.language.loops import loop as loop
from calor_kernel.language.loops import repeat as repeat
from calor_kernel.language.values import Number


def peek(read: Callable[[], Any], name: str) -> Any:
    """Return the value of a name, or Undefined if it has none yet."""
    try:
        return read()
    except NameError:
        return Undefined(name)


def host(condition: Any) -> Any:
    """Return a condition, which must be known at build time because it leads out of a function."""
    if not isinstance(condition, Number):
        return condition
    if isinstance(condition.known, bool):
        return condition.known
    raise KernelSyntaxError(
        "return, break and continue need conditions known at build time; assign a "
        "result in both branches instead",
        *(current().position() or (None, None)),
    )


def host_sequence(sequence: Any) -> Any:
    """Return the sequence of a loop with break or continue, which must be known at build time."""
    if isinstance(sequence, DeviceRange):
        raise KernelSyntaxError(
            "break and continue need a loop that is unrolled; use while with a condition",
            *(current().position() or (None, None)),
        )
    return sequence


def branch(
    condition: Any, then: Body, otherwise: Body, values: Values, names: tuple[str, ...]
) -> Values:
    """Run one branch, or emit a region for each."""
    condition = decided(condition)
    if isinstance(condition, bool):
        return then(*values) if condition else otherwise(*values)
    builder = current()
    if condition.width > 1:
        raise KernelTypeError("an if takes a scalar; choose lanes with select(condition, a, b)")
    frame = Frame(builder, values, names)
    before = frame.before()
    blocks, ends, items = [], [], []
    for body in (then, otherwise):
        # Lists are copied, so that one branch does not see the other's stores.
        start = frame.set(before)
        with builder.inside(Block()) as block:
            ends.append(list(body(*start)))
            items.append(frame.flat(()))
        blocks.append(block)
        frame.restore()
    for i, name in enumerate(names):
        if shape(ends[0][i]) != shape(ends[1][i]):
            ends[0][i] = ends[1][i] = Undefined(name)
    flats = [
        [leaf for value in end for leaf in leaves(value)] + held
        for end, held in zip(ends, items, strict=True)
    ]
    labels = frame.labels(ends[0])
    types = [merged(builder, a, b, label) for a, b, label in zip(*flats, labels, strict=True)]
    for block, flat in zip(blocks, flats, strict=True):
        with builder.inside(block):
            pairs = zip(flat, types, strict=True)
            block.yields = tuple(builder.fitted(leaf, t) for leaf, t in pairs if t is not None)
    kept = [t for t in types if t is not None]
    results = builder.emit("if", (condition,), kept, regions=blocks)
    for value, a, b in zip(results, blocks[0].yields, blocks[1].yields, strict=True):
        value.nonnegative = fold.not_negative(a, b)
        value.divisible = gcd(a.divisible, b.divisible)
    made = iter(results)
    result = []
    for t, a, b, label in zip(types, *flats, labels, strict=True):
        lost = a is not b and (isinstance(a, Undefined) or isinstance(b, Undefined))
        result.append(next(made) if t is not None else Undefined(label) if lost else a)
    return frame.set(result, ends[0])


def when(condition: Any, body: Callable[[], None]) -> None:
    """Run a body that changes register arrays and memory only, if a condition holds."""

    def run() -> Values:
        body()
        return ()

    branch(condition, run, lambda: (), (), ())


def within(context: Any, body: Body, values: Values, names: tuple[str, ...]) -> Values:
    """Run a body in a device region, or in a build-time context."""
    if isinstance(context, Region):
        return context.make(body, values, names)
    with context:
        return body(*values)


# Conditions.
def both(a: Any, b: Callable[[], Any]) -> Any:
    """``a and b``: b is computed if a holds, or unconditionally if that is harmless."""
    return _logical("and", a, b) if isinstance(a, Number) else a and b()


def either(a: Any, b: Callable[[], Any]) -> Any:
    """``a or b``: b is computed if a does not hold, or unconditionally if that is harmless."""
    return _logical("or", a, b) if isinstance(a, Number) else a or b()


def _logical(name: str, a: Number, second: Callable[[], Any]) -> Any:
    builder = current()
    _check_bool(name, a)
    if isinstance(a.known, bool):
        return second() if a.known is (name == "and") else a
    # Lanes are computed together, independent of the other operand.
    frame = Frame(builder, (), ())
    made, harmless = builder.attempt(second) if a.width == 1 else (second(), True)
    if not harmless:
        frame.restore()
        # It reads memory or divides: it runs only if the first operand requires it.
        sides: list[Body] = [lambda _: (second(),), lambda _: (name == "or",)]
        then, otherwise = sides if name == "and" else reversed(sides)
        return branch(a, then, otherwise, (None,), ("the condition",))[0]
    b = builder.coerce(made)
    _check_bool(name, b)
    return builder.binary(name, a, b)


def _check_bool(name: str, value: Number) -> None:
    if value.dtype is not bool_:
        raise KernelTypeError(f"{name} takes bools, not {value.type}; compare with != 0")


def opposite(a: Any) -> Any:
    """``not a``."""
    if not isinstance(a, Number):
        return not a
    if a.dtype is not bool_:
        raise KernelTypeError(f"not takes a bool, not {a.type}; write x == 0")
    return current().unary("not", a)


def choose(condition: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """``a if condition else b``: a device branch that runs one side only."""
    condition = decided(condition)
    if isinstance(condition, bool):
        return a() if condition else b()
    (value,) = branch(condition, lambda _: (a(),), lambda _: (b(),), (None,), ("the choice",))
    return value


def check(condition: Any, message: Any = "") -> None:
    """``assert``: at build time, or on the device in debug builds."""
    condition = decided(condition)
    if isinstance(condition, bool):
        if not condition:
            raise AssertionError(message)
        return
    builder = current()
    if "debug" in builder.features:
        builder.emit("assert", (condition,), (), {"text": str(message)})


# Built-in functions. In a kernel their names work too. Type-checked modules import these, because
# the stubs of Python require numbers with a truth value and an index, which device values lack.
@overload
def range_(*bounds: int) -> builtins.range: ...  # type: ignore[overload-overlap]


@overload
def range_(*bounds: Number | int) -> Iterable[Number]: ...


def range_(*bounds: Any) -> Iterable[Any]:
    """Return a range: unrolled if the build knows all bounds, else a device loop."""
    if not any(isinstance(b, Number) for b in bounds):
        return builtins.range(*bounds)
    return loop_range(*bounds)


def print_(*values: Any) -> None:
    """``print``: text and values from the device, in debug builds."""
    builder = current()
    if "debug" not in builder.features:
        return
    text = " ".join("{}" if isinstance(v, Number) else str(v) for v in values)
    builder.emit("print", [v for v in values if isinstance(v, Number)], (), {"text": text})


class _Extreme(Protocol):
    @overload
    def __call__(self, first: int, *others: int) -> int: ...

    @overload
    def __call__(self, first: Number | float, *others: Number | float) -> Number: ...


def _extreme(name: str, plain: Callable[..., Any], meaning: str) -> _Extreme:
    def extreme(*values: Any, **said: Any) -> Any:
        if len(values) == 1 and not isinstance(values[0], Number):
            values = tuple(values[0])
        if said or not any(isinstance(v, Number) for v in values):
            return plain(values, **said)
        made = values[0]
        for value in values[1:]:
            made = current().binary(name, made, value)
        return made

    extreme.__name__, extreme.__doc__ = f"{name}_", meaning
    return extreme


_MEANING = "Return the {}, of device values lane by lane; NaN if any is NaN."
min_ = _extreme("min", builtins.min, _MEANING.format("smallest"))
max_ = _extreme("max", builtins.max, _MEANING.format("greatest"))


def abs_(value: Any) -> Any:
    """``abs``."""
    return abs(value)
