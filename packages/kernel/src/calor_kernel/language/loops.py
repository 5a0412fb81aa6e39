"""Loops: unrolled over build-time items, else traced once into a region with carried values.

The body is traced with a placeholder for each value, and placeholders of unchanged values are
replaced afterwards. A Python number that changes becomes a value of the type it is combined with,
found by tracing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from calor.dtypes import bool_
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Block, Value
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import Builder, current
from calor_kernel.language.carry import (
    Body,
    Frame,
    Undefined,
    Values,
    decided,
    is_number,
    merged,
    same,
    shape,
)
from calor_kernel.language.values import Number

# The maximum number of retries to find the type of a Python number that changes in a loop.
_GUESSES = 4


@dataclass(frozen=True, slots=True)
class DeviceRange:
    """A range with a bound known only on the device, or a range that must not be unrolled."""

    start: Number | int
    stop: Number | int
    step: Number | int
    unroll: int = 1

    def __iter__(self) -> Iterator[Any]:
        raise KernelTypeError(
            "a loop on the device is a for statement over range(...) itself; in a helper function "
            "write @helper above it, so that its for is rewritten"
        )


def loop_range(*bounds: Number | int, unroll: int = 1) -> DeviceRange:
    """Return a range that becomes a device loop even if the build knows its bounds."""
    if not 1 <= len(bounds) <= 3:
        raise TypeError(f"a range takes 1 to 3 bounds, not {len(bounds)}")
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    return DeviceRange(start, stop, step, unroll)


def loop(source: Any, body: Body, targets: int, values: Values, names: tuple[str, ...]) -> Values:
    """Run a body for each item, or emit a device loop.

    The first ``targets`` names are the loop variables, which are undefined after a device loop.
    """
    if isinstance(source, Number):
        raise KernelTypeError(f"{source!r} cannot be looped over; write range(...) of it")
    if not isinstance(source, DeviceRange):
        for item in source:
            values = body(item, *values)
        return values
    values = (*(Undefined(n) for n in names[:targets]), *values[targets:])
    builder = current()
    start, stop, step = _bounds(builder, source)
    position = builder.value(start.type, "i")
    if step.nonnegative:
        position.nonnegative = start.nonnegative
    else:
        position.nonnegative = isinstance(stop.known, int) and stop.known >= -1
    position.divisible = gcd(start.divisible, step.divisible)
    traced = _Traced(builder, values, names, body, [position])
    attributes = {"unroll": source.unroll} if source.unroll != 1 else {}
    return traced.make("for", [start, stop, step], attributes)


def _bounds(builder: Builder, source: DeviceRange) -> tuple[Number, Number, Number]:
    start, stop = builder.pair(source.start, source.stop)
    step = builder.coerce(source.step, start.type)
    whole = start.dtype.kind in ("int", "uint") and start.width == 1
    if not whole or not start.type == stop.type == step.type:
        raise KernelTypeError(
            f"a range from {start.type} to {stop.type} by {step.type} does not "
            f"have integers of one type; convert with .to(dtype)"
        )
    if step.known == 0:
        raise KernelTypeError("the step of a range is 0")
    if step.known is None and start.dtype.kind == "int" and not step.nonnegative:
        raise KernelTypeError(
            "the step of a range is a number of Python, or a value that is never "
            "negative, as Scalar(dtype, nonnegative=True) says"
        )
    return start, stop, step


def repeat(test: Callable[..., Any], body: Body, values: Values, names: tuple[str, ...]) -> Values:
    """Run a body while a test holds, or emit a device loop."""
    builder = current()
    # A test that the build can decide must leave no operations behind.
    with builder.inside(Block()):
        first = decided(test(*values))
    while isinstance(first, bool):
        if not first:
            return values
        values = body(*values)
        with builder.inside(Block()):
            first = decided(test(*values))

    def question(*given: Any) -> Number:
        answer = builder.coerce(test(*given))
        if answer.type != Type(bool_):
            raise KernelTypeError(f"a while takes a bool, not {answer.type}")
        return answer

    return _Traced(builder, values, names, body, [], question).make("while", [], {})


class _Traced:
    """A loop body traced with a placeholder for each number, and its results."""

    def __init__(
        self,
        builder: Builder,
        values: Values,
        names: tuple[str, ...],
        body: Body,
        leading: Sequence[Number],
        question: Callable[..., Number] | None = None,
    ) -> None:
        self.builder = builder
        self.frame = Frame(builder, values, names)
        self.leading = leading
        self.memories = len(builder.memories)
        # If an outer loop is traced again, this loop is too: its types are then known.
        kinds = [_type(leaf) or type(leaf) for leaf in self.frame.before()]
        key = (body.__code__, *names, *kinds)
        guessed = builder.guesses.get(key, {})
        try:
            self._attempt(body, question, guessed)
        except KernelTypeError:
            if not guessed:
                raise
            self.frame.restore()
            self._attempt(body, question, {})
        builder.guesses[key] = self.guessed

    def _attempt(
        self, body: Body, question: Callable[..., Number] | None, guessed: dict[int, Type]
    ) -> None:
        """Trace until no placeholder is missing, and find the carried values.

        ``guessed``: the types of changing Python numbers, by leaf index.
        """
        self.guessed = dict(guessed)
        for _ in range(_GUESSES * (1 + len(self.frame.before()))):
            del self.builder.memories[self.memories :]
            if self._trace(body, question):
                break
        self._finish()

    def _trace(self, body: Body, question: Callable[..., Number] | None) -> bool:
        """Trace once; return whether no placeholder was missing."""
        builder, frame = self.builder, self.frame
        self.before = frame.before()
        self.types = [self.guessed.get(i) or _type(leaf) for i, leaf in enumerate(self.before)]
        self.asked: Block | None = None
        self.copies: list[Number | None] = []
        if question is not None:
            self.asked = Block()
            self.copies, start = self._stand_ins(self.asked)
            with builder.inside(self.asked):
                self.asked.yields = (question(*start),)
            frame.check_unchanged(start, self.inner)
        self.block = Block(arguments=tuple(self.leading))
        for argument in self.leading:
            argument.home = self.block
        self.arguments, start = self._stand_ins(self.block)
        with builder.inside(self.block):
            end = body(*self.leading, *start)
            alike = _alike(frame, end)
            self.flat = frame.flat(alike) if alike is not None else []
        frame.restore()
        if alike is None:
            # The leaf indices have changed.
            self.guessed.clear()
            return False
        self.end = alike
        return not self._changing()

    def _stand_ins(self, block: Block) -> tuple[list[Number | None], Values]:
        """Return an argument for each number, and the names' values with these substituted."""
        made: list[Number | None] = []
        labels = self.frame.labels()
        for type, leaf, label in zip(self.types, self.before, labels, strict=True):
            argument = None
            if type is not None:
                # The printed kernel keeps the names of its source.
                name = label if label.isidentifier() else "item"
                argument = self.builder.value(type, getattr(leaf, "hint", "") or name)
                argument.home = block
            made.append(argument)
        pairs = zip(made, self.before, strict=True)
        self.inner = [leaf if a is None else a for a, leaf in pairs]
        return made, self.frame.set(self.inner)

    def _changing(self) -> bool:
        """Return whether a Python number turned out to change, or to need another type."""
        found = False
        for i, (old, new) in enumerate(zip(self.before, self.flat, strict=True)):
            if isinstance(old, Number) or not is_number(old):
                continue
            guess = self.guessed.get(i)
            if isinstance(new, Number):
                if new is self.arguments[i] or (guess and _fits(new, guess)):
                    continue
                meets = new.type
            elif guess is None and is_number(new) and not same(old, new):
                number = float(old) if isinstance(new, float) else old
                meets = self.builder.coerce(number).type
            else:
                continue
            found = found or guess != meets
            self.guessed[i] = meets
        return found

    def _finish(self) -> None:
        """Find the carried values, and replace the placeholders of the others."""
        builder = self.builder
        labels = self.frame.labels()
        self.carried: list[int] = []
        yields: list[Value] = []
        replaced: dict[Value, Value] = {}
        used = self._used()
        with builder.inside(self.block):
            for i, new in enumerate(self.flat):
                old, argument, type = self.before[i], self.arguments[i], self.types[i]
                if argument is None or type is None:
                    if not same(old, new):
                        merged(builder, old, new, labels[i])
                        self.flat[i] = Undefined(labels[i])
                    continue
                if new is argument:
                    self.flat[i] = old
                    stays = builder.fitted(old, type)
                    replaced[argument] = stays
                    if self.copies:
                        replaced[_sure(self.copies[i])] = stays
                    continue
                value = _fit(builder, new, type)
                if value is not None:
                    yields.append(value)
                    self.carried.append(i)
                elif argument in used or (self.copies and self.copies[i] in used):
                    raise KernelTypeError(
                        f"{labels[i]!r} is {type} before the loop and becomes "
                        f"{getattr(new, 'type', new)} in it; convert one with .to(dtype)"
                    )
                else:
                    # Written in each round before its first read: the name is local to the body.
                    self.flat[i] = Undefined(labels[i])
        self.block.yields = tuple(yields)
        self.block.arguments += tuple(_sure(self.arguments[i]) for i in self.carried)
        self.blocks = [self.block]
        if self.asked is not None:
            self.asked.arguments = tuple(_sure(self.copies[i]) for i in self.carried)
            self.blocks = [self.asked, self.block]
        _substitute(self.blocks, replaced)

    def _used(self) -> set[Value]:
        """Return the values that the loop reads, to compute or to carry on."""
        pairs = zip(self.flat, self.arguments, strict=True)
        used: set[Value] = {n for n, old in pairs if isinstance(n, Number) and n is not old}
        for block in (self.block, self.asked or Block()):
            used.update(block.yields)
            for operation in block.walk():
                used.update(operation.operands, *(region.yields for region in operation.regions))
        return used

    def make(self, name: str, bounds: list[Number], attributes: dict[str, Any]) -> Values:
        """Emit the loop, and return the values of the names after it."""
        builder, start = self.builder, []
        for i in self.carried:
            type = self.types[i]
            assert type is not None
            start.append(builder.fitted(self.before[i], type))
        types = [value.type for value in start]
        made = builder.emit(name, [*bounds, *start], types, attributes, regions=self.blocks)
        flat = list(self.flat)
        for i, value in zip(self.carried, made, strict=True):
            flat[i] = value
        return self.frame.set(flat, self.end)


def _substitute(blocks: Sequence[Block], replaced: Mapping[Value, Value]) -> None:
    """Replace values in operands and yields, also in regions; chains are followed."""
    if not replaced:
        return

    def substituted(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(map(last, values))

    def last(value: Value) -> Value:
        while value in replaced:
            value = replaced[value]
        return value

    for block in blocks:
        block.yields = substituted(block.yields)
        for operation in block.walk():
            operation.operands = substituted(operation.operands)
            for region in operation.regions:
                region.yields = substituted(region.yields)


def _sure(value: Number | None) -> Number:
    assert value is not None
    return value


def _type(leaf: Any) -> Type | None:
    return leaf.type if isinstance(leaf, Number) else None


def _alike(frame: Frame, end: Values) -> Values | None:
    """Return the values, with those new in the loop undefined after it.

    None means that a value changed its structure; the next attempt treats it as local to the body.
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


def _fits(new: Number, type: Type) -> bool:
    return new.dtype is type.dtype and new.width in (1, type.width)


def _fit(builder: Builder, new: Any, type: Type) -> Number | None:
    """Return a value converted to a placeholder's type, None if its type differs."""
    if isinstance(new, Number):
        fits = _fits(new, type)
    else:
        fits = is_number(new) and (not isinstance(new, float) or type.dtype.kind == "float")
    return builder.fitted(new, type) if fits else None
