"""What the rewritten statements of a kernel do: decide at build time, or make regions.

Requirements: the same ``if`` and ``for`` serve values that the build knows and values of the
device; loops carry exactly what changes in them. Names here are those that
:mod:`calor_kernel.language.rewrite` writes into kernels.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from calor.dtypes import bool_
from calor_kernel.errors import KernelSyntaxError, KernelTypeError
from calor_kernel.ir.nodes import Block, Value
from calor_kernel.ir.substitute import substitute
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import Builder, current
from calor_kernel.language.carry import (
    Frame,
    Region,
    Undefined,
    is_number,
    leaves,
    merged,
    same,
    shape,
)
from calor_kernel.language.values import Number

Values = tuple[Any, ...]
Body = Callable[..., Values]


@dataclass(frozen=True, slots=True)
class DeviceRange:
    """A range with a bound that only the device knows, or one that shall not be unrolled."""

    start: Any
    stop: Any
    step: Any
    unroll: int = 1

    def __iter__(self) -> Iterator[Any]:
        raise KernelTypeError(
            "a loop on the device needs its function rewritten; in a helper function write @helper "
            "above it"
        )


def peek(read: Callable[[], Any], name: str) -> Any:
    """Return the value of a name, or Undefined where it has none yet."""
    try:
        return read()
    except NameError:
        return Undefined(name)


def host(condition: Any) -> Any:
    """Return a condition that the build must know, because what follows leaves a function."""
    if isinstance(condition, Number):
        if isinstance(condition.known, bool):
            return condition.known
        where = current().position() or (None, None)
        raise KernelSyntaxError(
            "return, break and continue stand under conditions that the build knows; assign a "
            "result in both branches instead",
            *where,
        )
    return condition


def host_sequence(sequence: Any) -> Any:
    """Return what a loop with break or continue runs over, which the build must know."""
    if isinstance(sequence, DeviceRange):
        where = current().position() or (None, None)
        raise KernelSyntaxError(
            "break and continue need a loop that is unrolled; use while with a condition", *where
        )
    return sequence


def _decided(condition: Any) -> Any:
    """Return what the build knows of a condition, or the device value."""
    if isinstance(condition, Number):
        return condition.known if isinstance(condition.known, bool) else condition
    return bool(condition)


def branch(
    condition: Any, then: Body, otherwise: Body, values: Values, names: tuple[str, ...]
) -> Values:
    """Run one branch, or make a region of each."""
    condition = _decided(condition)
    if isinstance(condition, bool):
        return then(*values) if condition else otherwise(*values)
    if condition.width > 1:
        raise KernelTypeError("an if takes a scalar; choose lanes with select(condition, a, b)")
    builder = current()
    frame = Frame(builder, values, names)
    blocks, ends, items = [], [], []
    for body in (then, otherwise):
        with builder.inside(Block()) as block:
            ends.append(list(body(*values)))
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
    types, labels = [], _labels(names, ends[0], len(flats[0]))
    for a, b, label in zip(*flats, labels, strict=True):
        types.append(merged(builder, a, b, label, builder._line))
    for block, flat in zip(blocks, flats, strict=True):
        with builder.inside(block):
            block.yields = _typed(builder, flat, types)
    kept = [t for t in types if t is not None]
    made = iter(builder.emit("if", (condition,), kept, regions=blocks))
    result = [
        next(made) if t is not None else (a if a is b or not _gone(a, b) else Undefined(label))
        for t, a, b, label in zip(types, *flats, labels, strict=True)
    ]
    return frame.set(result, ends[0])


def _gone(a: Any, b: Any) -> bool:
    return isinstance(a, Undefined) or isinstance(b, Undefined)


def _labels(names: Sequence[str], values: Sequence[Any], count: int) -> list[str]:
    found = [n for n, v in zip(names, values, strict=True) for _ in leaves(v)]
    return found + ["a register array"] * (count - len(found))


def _typed(
    builder: Builder, flat: Sequence[Any], types: Sequence[Type | None]
) -> tuple[Value, ...]:
    return tuple(
        builder.splat(builder.coerce(leaf, t), t.width)
        for leaf, t in zip(flat, types, strict=True)
        if t is not None
    )


def loop(source: Any, body: Body, targets: int, values: Values, names: tuple[str, ...]) -> Values:
    """Run a body for each item, or make a loop on the device.

    The first ``targets`` names are the loop's own, which have no value after one on the device.
    """
    if not isinstance(source, DeviceRange):
        if isinstance(source, Number):
            raise KernelTypeError(f"{source!r} cannot be looped over; write range({source.hint})")
        for item in source:
            values = body(item, *values)
        return values
    builder = current()
    values = (*(Undefined(n) for n in names[:targets]), *values[targets:])
    start, stop = builder.pair(source.start, source.stop)
    step = builder.coerce(source.step, start.type)
    if start.type != stop.type or start.dtype.kind not in ("int", "uint"):
        raise KernelTypeError(f"a range from {start.type} to {stop.type} is none of integers")
    position = builder.value(start.type, "i")
    position.nonnegative = start.nonnegative and step.nonnegative
    position.divisible = gcd(start.divisible, step.divisible)
    traced = _trace(builder, values, names, [lambda *v: body(position, *v)], [position])
    operands = [start, stop, step, *traced.start]
    attributes = {"unroll": source.unroll} if source.unroll != 1 else {}
    types = [v.type for v in traced.start]
    made = builder.emit("for", operands, types, attributes, regions=traced.blocks)
    return traced.leave(made)


def repeat(test: Callable[..., Any], body: Body, values: Values, names: tuple[str, ...]) -> Values:
    """Run a body while a test holds, or make a loop on the device."""
    builder = current()
    # A test that the build knows is decided without leaving operations behind.
    with builder.inside(Block()):
        first = _decided(test(*values))
    while isinstance(first, bool):
        if not first:
            return values
        values = body(*values)
        with builder.inside(Block()):
            first = _decided(test(*values))

    def question(*given: Any) -> Values:
        answer = builder.coerce(test(*given))
        if answer.type != Type(bool_):
            raise KernelTypeError(f"a while takes a bool, not {answer.type}")
        return (answer,)

    traced = _trace(builder, values, names, [body], [], question)
    types = [v.type for v in traced.start]
    made = builder.emit("while", traced.start, types, regions=traced.blocks)
    return traced.leave(made)


class _Traced:
    """A traced loop: its blocks, the values that it starts with, and how to leave it."""

    def __init__(self, frame: Frame, end: Values) -> None:
        self.frame = frame
        self.end = end
        self.blocks: list[Block] = []
        self.start: list[Number] = []
        self.places: list[int] = []
        self.flat: list[Any] = []

    def leave(self, made: Sequence[Number]) -> Values:
        flat = list(self.flat)
        for place, value in zip(self.places, made, strict=True):
            flat[place] = value
        return self.frame.set(flat, self.end)


def _trace(
    builder: Builder,
    values: Values,
    names: tuple[str, ...],
    bodies: Sequence[Body],
    leading: Sequence[Number],
    question: Callable[..., Values] | None = None,
) -> _Traced:
    """Trace a loop's body with an argument for each number, and drop those that do not change."""
    frame = Frame(builder, values, names)
    weak: dict[int, Type | None] = {}
    while True:
        before = frame.before()
        types = [weak.get(i) or _type(leaf) for i, leaf in enumerate(before)]
        arguments = [
            builder.value(t, getattr(leaf, "hint", "")) if t is not None else None
            for t, leaf in zip(types, before, strict=True)
        ]
        inner = [leaf if a is None else a for a, leaf in zip(arguments, before, strict=True)]
        start = frame.set(inner)
        with builder.inside(Block(arguments=tuple(leading))) as block:
            for body in bodies:
                start = body(*start)
            end = _alike(frame, start)
            flat = frame.flat(end) if end is not None else []
        frame.restore()
        if end is not None and not _changing(builder, before, flat, weak):
            break
    return _finished(builder, frame, end, block, before, flat, arguments, types, question)


def _type(leaf: Any) -> Type | None:
    return leaf.type if isinstance(leaf, Number) else None


def _alike(frame: Frame, end: Values) -> Values | None:
    """Return the values with those that are new in the loop undefined after it.

    None says that one changed its structure, and is local to the body on the next attempt.
    """
    result = list(end)
    for i, (old, new) in enumerate(zip(frame.values, end, strict=True)):
        if shape(old) == shape(new):
            continue
        if not isinstance(old, Undefined):
            frame.values[i] = Undefined(frame.names[i])
            return None
        result[i] = Undefined(frame.names[i])
    return tuple(result)


def _changing(
    builder: Builder, before: list[Any], flat: list[Any], weak: dict[int, Type | None]
) -> bool:
    """Return whether a number of Python turned out to change, so that it must be a value."""
    found = False
    for i, (old, new) in enumerate(zip(before, flat, strict=True)):
        if isinstance(old, Number) or not is_number(old) or i in weak:
            continue
        if isinstance(new, Number):
            weak[i] = new.type
        elif is_number(new) and (new != old or type(new) is not type(old)):
            weak[i] = builder.coerce(float(old) if isinstance(new, float) else old).type
        found = found or i in weak
    return found


def _finished(
    builder: Builder,
    frame: Frame,
    end: Values,
    block: Block,
    before: list[Any],
    flat: list[Any],
    arguments: list[Number | None],
    types: list[Type | None],
    question: Callable[..., Values] | None,
) -> _Traced:
    traced = _Traced(frame, end)
    traced.flat = list(flat)
    labels = frame.labels()
    carried: list[Number] = []
    replaced: dict[Value, Value] = {}
    yields: list[Value] = []
    used = _used(block)
    with builder.inside(block):
        for i, (old, new, argument) in enumerate(zip(before, flat, arguments, strict=True)):
            kind = types[i]
            if argument is None or new is argument:
                traced.flat[i] = old
                if argument is not None:
                    replaced[argument] = old
                elif not same(old, new):
                    merged(builder, old, new, labels[i], builder._line)
                    traced.flat[i] = Undefined(labels[i])
                continue
            assert kind is not None
            value = _fit(builder, new, kind)
            if value is None:
                if argument in used:
                    raise KernelTypeError(
                        f"{builder._line()}{labels[i]!r} is {kind} before the loop and becomes "
                        f"{getattr(new, 'type', new)} in it; convert one with .to(dtype)"
                    )
                # Set anew in each round before it is read: the name is local to the body.
                traced.flat[i] = Undefined(labels[i])
                continue
            carried.append(argument)
            yields.append(value)
            traced.places.append(i)
    block.arguments = (*block.arguments, *carried)
    block.yields = tuple(yields)
    traced.blocks = [block]
    if question is not None:
        copies = [builder.value(a.type, a.hint) for a in carried]
        flat_now = list(traced.flat)
        by_argument = dict(zip(carried, copies, strict=True))
        start = [
            old if a is None else by_argument.get(a, old)
            for a, old in zip(arguments, before, strict=True)
        ]
        given = frame.set(start)
        with builder.inside(Block(arguments=tuple(copies))) as asked:
            asked.yields = question(*given)
        frame.restore()
        traced.flat = flat_now
        traced.blocks = [asked, block]
    substitute(traced.blocks, replaced)
    for place in traced.places:
        wanted = types[place]
        assert wanted is not None
        value = builder.coerce(before[place], wanted)
        traced.start.append(builder.splat(value, wanted.width))
    return traced


def _fit(builder: Builder, new: Any, kind: Type) -> Number | None:
    if isinstance(new, Number):
        if new.type != kind and new.width == 1 and new.dtype is kind.dtype:
            return builder.splat(new, kind.width)
        return new if new.type == kind else None
    if not is_number(new) or (isinstance(new, float) and kind.dtype.kind != "float"):
        return None
    return builder.splat(builder.coerce(new, kind), kind.width)


def _used(block: Block) -> set[Value]:
    used: set[Value] = set()
    for operation in block.walk():
        used.update(operation.operands)
        for region in operation.regions:
            used.update(region.yields)
    return used


def within(context: Any, body: Body, values: Values, names: tuple[str, ...]) -> Values:
    """Run a body in a region of the device, or in a context of the build."""
    if isinstance(context, Region):
        return context.make(body, values, names)
    with context:
        return body(*values)


# Conditions.
def both(a: Any, b: Callable[[], Any]) -> Any:
    """``a and b``; on the device both are computed."""
    if not isinstance(a, Number):
        return a and b()
    return _logical("and", a, b())


def either(a: Any, b: Callable[[], Any]) -> Any:
    """``a or b``; on the device both are computed."""
    if not isinstance(a, Number):
        return a or b()
    return _logical("or", a, b())


def _logical(name: str, a: Number, b: Any) -> Any:
    builder = current()
    b = builder.coerce(b)
    if a.dtype is not bool_ or b.dtype is not bool_:
        raise KernelTypeError(f"and, or take bools, not {a.type} and {b.type}; compare with != 0")
    return builder.binary(name, a, b)


def opposite(a: Any) -> Any:
    """``not a``."""
    if not isinstance(a, Number):
        return not a
    if a.dtype is not bool_:
        raise KernelTypeError(f"not takes a bool, not {a.type}; write x == 0")
    return current().unary("not", a)


def choose(condition: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """``a if condition else b``: a branch on the device, of which only one side runs."""
    condition = _decided(condition)
    if isinstance(condition, bool):
        return a() if condition else b()
    (value,) = branch(condition, lambda _: (a(),), lambda _: (b(),), (None,), ("the choice",))
    return value


def check(condition: Any, message: Any = "") -> None:
    """``assert``: at build time, or on the device where debug builds ask for it."""
    condition = _decided(condition)
    if isinstance(condition, bool):
        if not condition:
            raise AssertionError(message)
        return
    builder = current()
    if "debug" in builder.features:
        builder.emit("assert", (condition,), (), {"text": str(message)})


# Built-in functions.
def range_(*bounds: Any) -> Iterable[Any] | DeviceRange:
    """``range``: unrolled where the build knows all bounds, else a loop on the device."""
    if not any(isinstance(b, Number) for b in bounds):
        return builtins.range(*bounds)
    return loop_range(*bounds)


def loop_range(*bounds: Any, unroll: int = 1) -> DeviceRange:
    """Return a range that is a loop on the device, also where the build knows its bounds."""
    if not 1 <= len(bounds) <= 3:
        raise TypeError(f"a range takes 1 to 3 bounds, not {len(bounds)}")
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    return DeviceRange(start, stop, step, unroll)


def print_(*values: Any) -> None:
    """``print``: text and values, from the device, where debug builds ask for it."""
    builder = current()
    if "debug" not in builder.features:
        return
    text = " ".join("{}" if isinstance(v, Number) else str(v) for v in values)
    builder.emit("print", [v for v in values if isinstance(v, Number)], (), {"text": text})


def _extreme(name: str, plain: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    if not any(isinstance(v, Number) for v in values):
        return plain(*values)
    made = values[0]
    for value in values[1:]:
        made = current().binary(name, made, value)
    return made


def min_(*values: Any) -> Any:
    """``min``, also of device values: NaN where one is NaN."""
    return _extreme("min", builtins.min, values)


def max_(*values: Any) -> Any:
    """``max``, also of device values: NaN where one is NaN."""
    return _extreme("max", builtins.max, values)


def abs_(value: Any) -> Any:
    """``abs``."""
    return abs(value)


def unrolled(sequence: Iterable[Any]) -> Iterator[Any]:
    """Return a sequence as it is: what a loop runs over at build time."""
    return iter(sequence)
