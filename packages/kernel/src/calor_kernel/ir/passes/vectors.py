"""Splits vectors of any width into the widths of a target.

Dtypes may have different widths (sixteen lanes of a byte, four of a float), so operands are cut
alike before they are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import gcd
from types import MappingProxyType
from typing import Any, Final

from calor.dtypes import DType
from calor_kernel.ir.nodes import Kernel, Operation, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes.rewriting import CONTROL, Parts, Rewriter
from calor_kernel.ir.types import UNSIGNED, Type

Widths = Callable[[DType], Sequence[int]]
Rule = Callable[["Splitter", Operation], Sequence[Parts]]

_PER_UNIT = frozenset(("plane_reduce", "plane_scan"))


def split_vectors(kernel: Kernel, widths: Widths) -> Kernel:
    """Return the kernel with vectors only of the widths that ``widths`` allows for a dtype.

    A value becomes the fewest parts, the widest first; 1 is always among the widths. Operations on
    whole vectors (matrix instructions, intrinsics) get a packed one.
    """
    splitter = Splitter(widths)
    types = {v.type for o in kernel.body.walk() for v in (*o.operands, *o.results)}
    if all(len(splitter.sizes(type)) == 1 for type in types):
        return kernel
    return splitter.run(kernel)


class Splitter(Rewriter):
    """The pass of :func:`split_vectors`."""

    def __init__(self, widths: Widths) -> None:
        super().__init__()
        self.widths = widths
        self._sizes: dict[Type, tuple[int, ...]] = {}
        # Whole vectors by their parts: chained matrix instructions pass them on.
        self.wholes: dict[Parts, Value] = {}

    def sizes(self, type: Type) -> tuple[int, ...]:
        """Return the widths of the parts of a type."""
        found = self._sizes.get(type)
        if found is None:
            have = sorted({1, *self.widths(type.dtype)}, reverse=True)
            sizes, left = [], type.width
            while left:
                widest = next(w for w in have if w <= left)
                sizes.append(widest)
                left -= widest
            found = self._sizes[type] = tuple(sizes)
        return found

    def types(self, type: Type) -> tuple[Type, ...]:
        return tuple(type.wide(n) for n in self.sizes(type))

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        name = operation.name
        if name in CONTROL or not any(
            v.type.width > 1 for v in (*operation.operands, *operation.results)
        ):
            return None
        rule = RULES.get(name)
        if rule is not None:
            return rule(self, operation)
        if name in _PER_UNIT or (OPS[name].pure and operation.operands):
            return [self.lanewise(operation)]
        return _whole(self, operation)

    # Parts.
    def cuts(self, *types: Type) -> Iterator[tuple[int, int]]:
        """Yield (first lane, lanes) of the common cuts of types of one width."""
        ends = {end for type in types for end in accumulate(self.sizes(type))}
        first = 0
        for end in sorted(ends):
            yield first, end - first
            first = end

    def take(self, parts: Sequence[Value], first: int, count: int) -> Value:
        """Return consecutive lanes as one value."""
        return self.lanes(parts, range(first, first + count))

    def lanes(self, parts: Sequence[Value], wanted: Sequence[int]) -> Value:
        """Return lanes, counted through all parts, as one value."""
        places: list[tuple[int, int]] = []
        for number, part in enumerate(parts):
            places += [(number, lane) for lane in range(part.type.width)]
        found = [places[lane] for lane in wanted]
        sources = sorted({number for number, _ in found})
        a, b = parts[sources[0]], parts[sources[-1]]
        if len(found) == 1:
            return self.extract(a, found[0][1])
        width = a.type.width
        if len(sources) == 1 and [lane for _, lane in found] == list(range(width)):
            return a
        if len(sources) <= 2 and a.type == b.type:
            chosen = tuple(lane + (width if n != sources[0] else 0) for n, lane in found)
            type = a.type.wide(len(chosen))
            return self.emit("shuffle", (a, b), (type,), {"lanes": chosen})[0]
        return self.pack([self.extract(parts[n], lane) for n, lane in found])

    def cut(self, type: Type, parts: Sequence[Value]) -> Parts:
        """Return consecutive values as the parts of a type."""
        return tuple(self.take(parts, first, count) for first, count in self.cuts(type))

    def lanewise(self, operation: Operation) -> Parts:
        """Apply an operation to each part."""
        result = operation.result.type
        made: list[Value] = []
        for first, count in self.cuts(result, *(v.type for v in operation.operands)):
            operands = [self.take(self.parts(v), first, count) for v in operation.operands]
            type = result.wide(count)
            made += self.again(operation, operands, (type,))
        return self.cut(result, made)


def _whole(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    """Apply an operation to whole vectors, packed for it."""
    operands = []
    for value in operation.operands:
        parts = splitter.parts(value)
        whole = splitter.wholes.get(tuple(parts))
        if whole is not None:
            operands.append(whole)
            continue
        lanes = [
            splitter.extract(p, i) for p in parts for i in range(p.type.width) if len(parts) > 1
        ]
        operands.append(splitter.pack(lanes) if lanes else parts[0])
    made = zip(operation.results, splitter.again(operation, operands), strict=True)
    found = []
    for result, value in made:
        parts = splitter.cut(result.type, (value,))
        splitter.wholes[parts] = value
        found.append(parts)
    return found


def _constant(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    type, lanes = operation.result.type, operation.attributes["value"]
    pieces = (lanes[i : i + n] for i, n in splitter.cuts(type))
    return [tuple(splitter.constant(piece, type.dtype) for piece in pieces)]


def _splat(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    value = splitter.get(operation.operands[0])
    return [tuple(splitter.splat(value, n) for n in splitter.sizes(operation.result.type))]


def _extract(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    parts = splitter.parts(operation.operands[0])
    return [(splitter.take(parts, operation.attributes["lane"], 1),)]


def _insert(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    vector, value = operation.operands
    new, lane = splitter.get(value), operation.attributes["lane"]
    made = []
    pairs = zip(splitter.cuts(vector.type), splitter.parts(vector), strict=True)
    for (first, count), part in pairs:
        if not first <= lane < first + count:
            made.append(part)
        elif count == 1:
            made.append(new)
        else:
            said = {"lane": lane - first}
            made += splitter.emit("insert", (part, new), (part.type,), said)
    return [tuple(made)]


def _pack(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    lanes = splitter.flat(operation.operands)
    cuts = splitter.cuts(operation.result.type)
    return [tuple(splitter.pack(lanes[i : i + n]) for i, n in cuts)]


def _shuffle(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    parts = splitter.flat(operation.operands)
    lanes = operation.attributes["lanes"]
    cuts = splitter.cuts(operation.result.type)
    return [tuple(splitter.lanes(parts, lanes[i : i + n]) for i, n in cuts)]


def _vreduce(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    """Combine the lower half with the upper until one part is left; a middle lane waits a round."""
    type = operation.operands[0].type
    parts = list(splitter.parts(operation.operands[0]))
    kind, flags = operation.attributes["kind"], operation.attributes.get("flags")
    said = {"flags": flags} if flags and kind in ("add", "mul") else {}
    width = type.width
    while width > 1:
        if len(parts) == 1:
            return [splitter.again(operation, parts)]
        high, low = width // 2, (width + 1) // 2
        made: list[Value] = []
        for first, count in splitter.cuts(type.wide(high)):
            a, b = splitter.take(parts, first, count), splitter.take(parts, low + first, count)
            made += splitter.emit(kind, (a, b), (a.type,), said)
        if low > high:
            made.append(splitter.take(parts, high, 1))
        parts, width = list(splitter.cut(type.wide(low), made)), low
    return [tuple(parts)]


def _dot(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    a, b, c = operation.operands
    group = a.type.width // c.type.width
    xs, ys, totals = splitter.parts(a), splitter.parts(b), splitter.parts(c)
    made: list[Value] = []
    for first, count in splitter.cuts(c.type):
        lanes = first * group, count * group
        total = splitter.take(totals, first, count)
        if splitter.sizes(a.type.wide(lanes[1])) == (lanes[1],):
            operands = splitter.take(xs, *lanes), splitter.take(ys, *lanes), total
            made += splitter.again(operation, operands, (total.type,))
            continue
        for lane in range(count):
            sum_ = splitter.extract(total, lane)
            for i in range(group):
                place = (first + lane) * group + i
                pair = (splitter.take(xs, place, 1), splitter.take(ys, place, 1))
                x, y = (splitter.convert(v, c.type.dtype) for v in pair)
                sum_ = splitter.make("add", sum_, splitter.make("mul", x, y))
            made.append(sum_)
    return [splitter.cut(c.type, made)]


def _bitcast(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    source, result = operation.operands[0].type, operation.result.type
    parts = splitter.parts(operation.operands[0])
    if source.width == result.width:
        return [splitter.lanewise(operation)]
    if len(parts) == 1 and splitter.sizes(result) == (result.width,):
        return [splitter.emit("bitcast", parts, (result,))]
    made: list[Value] = []
    if source.width > result.width:
        group = source.width // result.width
        for lane in range(result.width):
            made.append(_joined(splitter, parts, lane * group, group, result.dtype))
    else:
        group = result.width // source.width
        for lane in range(source.width):
            made += _parted(splitter, splitter.take(parts, lane, 1), group, result.dtype)
    return [splitter.cut(result, made)]


def _joined(splitter: Splitter, parts: Parts, first: int, group: int, dtype: DType) -> Value:
    """Return narrow lanes joined to a wide one, the first in the low bits."""
    source = parts[0].type.dtype
    if splitter.sizes(Type(source, group)) == (group,):
        value = splitter.take(parts, first, group)
        return splitter.emit("bitcast", (value,), (Type(dtype),))[0]
    wide, narrow = UNSIGNED[dtype.itemsize], UNSIGNED[source.itemsize]
    total: Value | None = None
    for i in range(group):
        lane = splitter.convert(splitter.take(parts, first + i, 1), narrow, "bitcast")
        lane = splitter.convert(lane, wide)
        lane = splitter.make("shl", lane, splitter.like(8 * i * source.itemsize, lane))
        total = lane if total is None else splitter.make("or", total, lane)
    assert total is not None
    return splitter.convert(total, dtype, "bitcast")


def _parted(splitter: Splitter, value: Value, group: int, dtype: DType) -> Iterator[Value]:
    """Yield the narrow lanes of a wide one, from the low bits on."""
    if splitter.sizes(Type(dtype, group)) == (group,):
        yield splitter.emit("bitcast", (value,), (Type(dtype, group),))[0]
        return
    wide, narrow = UNSIGNED[value.type.dtype.itemsize], UNSIGNED[dtype.itemsize]
    bits = splitter.convert(value, wide, "bitcast")
    for i in range(group):
        lane = splitter.make("shr", bits, splitter.like(8 * i * dtype.itemsize, bits))
        yield splitter.convert(splitter.convert(lane, narrow), dtype, "bitcast")


def _load(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    result = operation.result.type
    made: list[Value] = []
    for first, count in splitter.cuts(result, *_widths(operation)):
        operands = _pieces(splitter, operation, first, count)
        access = _access(operation, first)
        made += splitter.again(operation, operands, (result.wide(count),), access)
    return [splitter.cut(result, made)]


def _store(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    for first, count in splitter.cuts(*_widths(operation)):
        operands = _pieces(splitter, operation, first, count)
        splitter.again(operation, operands, (), _access(operation, first))
    return []


def _widths(operation: Operation) -> list[Type]:
    return [v.type for v in operation.operands if v.type.width > 1]


def _pieces(splitter: Splitter, operation: Operation, first: int, count: int) -> list[Value]:
    """Return the operands of a part of an access: of a scalar index its first element."""
    index, *rest = operation.operands
    parts = splitter.parts(index)
    if index.type.width > 1:
        place = splitter.take(parts, first, count)
    else:
        place = splitter.make("add", parts[0], splitter.like(first, parts[0]))
    return [place, *(splitter.take(splitter.parts(v), first, count) for v in rest)]


def _access(operation: Operation, first: int) -> Mapping[str, Any]:
    """Return the attributes of a part's access, whose alignment may be lower than the whole's."""
    attributes = operation.attributes
    if not first or not attributes.get("align"):
        return attributes
    assert operation.memory is not None
    size = operation.memory.type.nbytes
    align = gcd(attributes["align"], first * size)
    kept = {k: v for k, v in attributes.items() if k != "align"}
    return {**kept, "align": align} if align > size else kept


def _plane_shuffle(splitter: Splitter, operation: Operation) -> Sequence[Parts]:
    value, lane = operation.operands
    other = splitter.get(lane)
    parts = splitter.parts(value)
    return [tuple(splitter.again(operation, (part, other), (part.type,))[0] for part in parts)]


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "constant": _constant,
        "splat": _splat,
        "extract": _extract,
        "insert": _insert,
        "pack": _pack,
        "shuffle": _shuffle,
        "vreduce": _vreduce,
        "dot": _dot,
        "bitcast": _bitcast,
        "load": _load,
        "store": _store,
        "plane_shuffle": _plane_shuffle,
    }
)
