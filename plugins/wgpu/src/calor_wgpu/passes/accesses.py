"""Lowers accesses for languages with arrays of whole words and without pointers.

Elements below 32 bits share words of a buffer. A unit that writes a whole word stores it; otherwise
atomics change single bits and preserve the neighbours. In shared and private memory each element
has a word of its own, bools too, because NVIDIA's Vulkan loses writes to arrays of bools in shared
memory. A masked-off element may be out of bounds, so a mask becomes a branch, but for loads of four
words, which are read within the memory whatever their mask is, and for loads with zeros in place of
masked-off elements on a device that reads zeros beyond a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from calor.dtypes import DType, bool_, uint8, uint16, uint32
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Parameter, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter
from calor_kernel.ir.types import Scalar, Type

WORD = 4
_BITS = {1: uint8, 2: uint16}


def is_packed(memory: Memory) -> bool:
    """Return whether elements of a memory share words."""
    return memory.space == "global" and memory.type.dtype.itemsize < WORD


# The index of words beyond any buffer; a multiple of vectors.
BEYOND: Final = (1 << 32) - 4


def atomics_of(kernel: Kernel) -> set[Memory]:
    """Return the memories with atomic or ordered accesses anywhere."""
    found = set()
    for operation in kernel.body.walk():
        ordered = operation.name in ("load", "store") and operation.attributes.get("order")
        if operation.name == "atomic" or ordered:
            found.add(_memory(operation))
    return found


def reads_on(operation: Operation) -> bool:
    """Return whether a masked load may read four aligned words whatever its mask is.

    It may if one bool decides the mask, for then the memory has all of the words or none.
    """
    if operation.name != "load" or not operation.attributes.get("masked"):
        return False
    type, said = operation.result.type, operation.attributes
    plain = not said.get("order") and _memory(operation).space == "global"
    whole = operation.operands[0].type.width == 1 and type.nbytes == 4 * WORD == 4 * type.width
    return plain and whole and said.get("align", 0) > 0 and said["align"] % 16 == 0


def reads_beyond(operation: Operation) -> bool:
    """Return whether a load gives zeros beyond a buffer on a device that reads zeros there.

    It does in words of global memory that no atomic changes.
    """
    dtype = operation.result.type.dtype
    plain = not operation.attributes.get("order") and _memory(operation).space == "global"
    return plain and dtype is not bool_ and dtype.itemsize <= WORD


def _is_zero(value: Value) -> bool:
    """Return whether all lanes of a value are zero, and positive."""
    lanes = value.known if isinstance(value.known, tuple) else (value.known,)
    return {str(lane) for lane in lanes} == {"0.0" if value.type.dtype.kind == "float" else "0"}


def touched(kernel: Kernel) -> tuple[set[Memory], set[Memory]]:
    """Return the global memories that a kernel reads, and those that it writes."""
    read, written = set[Memory](), set[Memory]()
    for operation in kernel.body.walk():
        if operation.memory is not None and operation.memory.space == "global":
            if operation.name in ("load", "atomic"):
                read.add(operation.memory)
            if operation.name in ("store", "atomic"):
                written.add(operation.memory)
    return read, written


def lower_accesses(kernel: Kernel, zeros: bool = False) -> Kernel:
    """Return the kernel with accesses of one element, or of four words if aligned.

    ``zeros``: whether the device reads zeros beyond a buffer. Indices are uint32 from the start of
    a buffer: additional parameters give each buffer's offset in elements. Memory of small elements
    becomes memory of uint32. Vectors fill a word or are four words, as left by
    :func:`split_vectors`.
    """
    return _Accesses(kernel, zeros).run(kernel)


class _Accesses(Rewriter):
    def __init__(self, kernel: Kernel, zeros: bool) -> None:
        super().__init__()
        self.zeros = zeros
        self.atomics = atomics_of(kernel)
        self.offsets: dict[Memory, Value] = {}
        # The scalars that are all lanes of vectors: of masks and of fills.
        self.whole: dict[Value, Value] = {}
        for parameter in kernel.parameters:
            if parameter.memory is not None:
                made = Value(Type(uint32), f"{parameter.name}_offset", nonnegative=True)
                size = parameter.memory.type.dtype.itemsize
                made.divisible = max(parameter.memory.align // size, 1)
                self.offsets[parameter.memory] = made

    def emit(self, name: str, operands: Sequence[Value] = (), *given: Any, **named: Any) -> Parts:
        made = super().emit(name, operands, *given, **named)
        if name == "splat":
            self.whole[made[0]] = operands[0]
        return made

    def run(self, kernel: Kernel) -> Kernel:
        made = super().run(kernel)
        offsets = [Parameter(v.hint, Scalar(uint32), value=v) for v in self.offsets.values()]
        return replace(made, parameters=(*made.parameters, *offsets))

    def memory_of(self, memory: Memory) -> Memory:
        other = is_packed(memory) or memory.type.dtype is bool_
        return replace(memory, type=Type(uint32)) if other else memory

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        if operation.name == "load":
            return [(self.load(operation),)]
        if operation.name == "store":
            self.store(operation)
            return []
        if operation.name == "copy_async":
            self.copied(operation)
            return []
        if operation.name == "atomic":
            index, *values = (self.get(v) for v in operation.operands)
            place = self.place(_memory(operation), index)
            return [(value,) for value in self.again(operation, (place, *values))]
        return None

    def is_wide(self, operation: Operation, type: Type) -> bool:
        """Return whether an access takes four aligned words at once."""
        memory, align = _memory(operation), operation.attributes.get("align", 0)
        four = type.width == 4 and type.dtype.itemsize == WORD
        plain = len(operation.operands) == (1 if operation.results else 2) or (
            reads_on(operation) and self.get(operation.operands[1]) in self.whole
        )
        whole = memory.space != "private" and (memory.size or 0) % 4 == 0
        known = operation.operands[0].type.width == 1 and align > 0 and align % 16 == 0
        return four and plain and whole and known and memory not in self.atomics

    # Element positions.
    def place(self, memory: Memory, index: Value, lane: int = 0) -> Value:
        """Return the index of a lane's element from the start of the array."""
        if index.type.width > 1:
            index, lane = self.extract(index, lane), 0
        if lane:
            index = self.make("add", index, self.like(lane, index))
        made = self.convert(index, uint32)
        offset = self.offsets.get(memory)
        return made if offset is None else self.make("add", offset, made)

    def word(self, dtype: DType, place: Value) -> tuple[Value, Value]:
        """Return the word of an element, and its first bit there."""
        per = WORD // dtype.itemsize
        bits = self.make("and", place, self.like(per - 1, place))
        first = self.make("mul", bits, self.like(8 * dtype.itemsize, place))
        return self.make("shr", place, self.like(per.bit_length() - 1, place)), first

    # Values of small types as the low bits of words.
    def narrowed(self, word: Value, dtype: DType) -> Value:
        bits = _BITS[dtype.itemsize]
        if dtype is bool_:
            low = self.make("and", word, self.like(0xFF, word))
            return self.make("ne", low, self.like(0, low))
        if dtype.kind == "float":
            return self.convert(self.convert(word, bits), dtype, "bitcast")
        return self.convert(word, dtype)

    def widened(self, value: Value) -> Value:
        dtype = value.type.dtype
        bits = _BITS[dtype.itemsize]
        if dtype.kind == "float":
            value = self.convert(value, bits, "bitcast")
        elif dtype.kind == "int":
            value = self.convert(value, bits)
        return self.convert(value, uint32)

    # Loads.
    def element(self, operation: Operation, memory: Memory, place: Value) -> Value:
        dtype, held = memory.type.dtype, self.memory(memory)
        order = {k: v for k, v in operation.attributes.items() if k == "order" and v}
        if not is_packed(memory):
            found = self.emit("load", (place,), (held.type,), order, memory=held)[0]
            return found if held.type.dtype is dtype else self.narrowed(found, dtype)
        at, first = self.word(dtype, place)
        word = self.emit("load", (at,), (Type(uint32),), order, memory=held)[0]
        return self.narrowed(self.make("shr", word, first), dtype)

    def load(self, operation: Operation) -> Value:
        memory, type = _memory(operation), operation.result.type
        index, *rest = (self.get(v) for v in operation.operands)
        if self.is_wide(operation, type):
            place = self.place(memory, index)
            if rest and self.beyond(operation) and _is_zero(self.whole.get(rest[1], rest[1])):
                said = {k: v for k, v in operation.attributes.items() if k != "masked"}
                place = self.kept(self.whole[rest[0]], place)
                return self.again(operation, (place,), None, said)[0]
            return self.again(operation, (place, *rest))[0]
        if not rest and _whole_word(operation, type):
            at, _ = self.word(type.dtype, self.place(memory, index))
            word = self.emit("load", (at,), (Type(uint32),), memory=self.memory(memory))[0]
            bits = range(0, 32, 8 * type.dtype.itemsize)
            parts = [self.make("shr", word, self.like(bit, word)) for bit in bits]
            return self.pack([self.narrowed(part, type.dtype) for part in parts])
        lanes = []
        for lane in range(type.width):
            place = self.place(memory, index, lane)
            given = [self.lane(v, lane) for v in rest]
            lanes.append(self.guarded(operation, memory, place, given))
        return self.pack(lanes)

    def lane(self, value: Value, lane: int) -> Value:
        """Return a lane, which is known if the vector is."""
        if isinstance(value.known, tuple):
            return self.constant(value.known[lane], value.type.dtype)
        return self.whole.get(value) or self.extract(value, lane)

    def guarded(
        self, operation: Operation, memory: Memory, place: Value, rest: Sequence[Value]
    ) -> Value:
        """Return an element; with a mask and another value, the latter where the mask is false."""
        if not rest:
            return self.element(operation, memory, place)
        mask, other = rest
        if self.beyond(operation):
            read = self.element(operation, memory, self.kept(mask, place))
            return read if _is_zero(other) else self.select(mask, read, other)
        found = self.branch(mask, partial(self.element, operation, memory, place), lambda: other)
        assert found is not None
        return found

    def beyond(self, operation: Operation) -> bool:
        """Return whether a masked load reads beyond its memory where its mask is false."""
        plain = operation.name == "load" and _memory(operation) not in self.atomics
        return self.zeros and plain and reads_beyond(operation)

    def kept(self, mask: Value, place: Value) -> Value:
        """Return a place where a mask is true, else one beyond all memory."""
        values = (mask, place, self.like(BEYOND, place))
        return self.emit("select", values, (place.type,))[0]

    # Stores.
    def written(self, operation: Operation, memory: Memory, place: Value, value: Value) -> None:
        order = operation.attributes.get("order")
        held = self.memory(memory)
        if not is_packed(memory):
            said = {"order": order} if order else {}
            value = value if value.type.dtype is held.type.dtype else self.widened(value)
            self.emit("store", (place, value), (), said, memory=held)
            return
        at, first = self.word(memory.type.dtype, place)
        ones = self.like((1 << 8 * memory.type.dtype.itemsize) - 1, at)
        kept = self.make("not", self.make("shl", ones, first))
        bits = self.make("shl", self.widened(value), first)
        for kind, given in (("and", kept), ("or", bits)):
            said = {"kind": kind, "order": "relaxed", "scope": "device"}
            self.emit("atomic", (at, given), (Type(uint32),), said, memory=held)

    def store(self, operation: Operation) -> None:
        memory, type = _memory(operation), operation.operands[1].type
        index, value, *rest = (self.get(v) for v in operation.operands)
        if self.is_wide(operation, type):
            self.again(operation, (self.place(memory, index), value))
            return
        if not rest and _whole_word(operation, type):
            at, _ = self.word(type.dtype, self.place(memory, index))
            parts = [self.widened(self.extract(value, i)) for i in range(type.width)]
            total = parts[0]
            for number, part in enumerate(parts[1:], 1):
                moved = self.make("shl", part, self.like(8 * type.dtype.itemsize * number, part))
                total = self.make("or", total, moved)
            self.emit("store", (at, total), (), memory=self.memory(memory))
            return
        for lane in range(type.width):
            place, one = self.place(memory, index, lane), self.extract(value, lane)
            write = partial(self.written, operation, memory, place, one)
            if rest:
                self.branch(self.extract(rest[0], lane), write, lambda: None)
            else:
                write()

    def copied(self, operation: Operation) -> None:
        """Execute a copy synchronously."""
        source, target = operation.attributes["source"], _memory(operation)
        to, of, *mask = (self.get(v) for v in operation.operands)
        for lane in range(operation.attributes["elements"]):
            place = self.place(source, of, lane)
            rest = [mask[0], self.constant(0, source.type.dtype)] if mask else []
            value = self.guarded(operation, source, place, rest)
            self.written(operation, target, self.place(target, to, lane), value)

    def branch(
        self,
        condition: Value,
        then: Callable[[], Value | None],
        otherwise: Callable[[], Value | None],
    ) -> Value | None:
        """Emit a branch; return its value, if any."""
        regions, given = [], None
        for way in (then, otherwise):
            with self.inside(Block()) as region:
                given = way()
                region.yields = (given,) if given is not None else ()
            regions.append(region)
        types = (given.type,) if given is not None else ()
        made = self.emit("if", (condition,), types, regions=regions)
        return made[0] if made else None


def _memory(operation: Operation) -> Memory:
    assert operation.memory is not None
    return operation.memory


def _whole_word(operation: Operation, type: Type) -> bool:
    """Return whether an access covers all elements of a word."""
    index, align = operation.operands[0], operation.attributes.get("align", 0)
    size = _memory(operation).type.dtype.itemsize * type.width
    packed = is_packed(_memory(operation)) and index.type.width == 1
    return packed and size == WORD and align > 0 and align % WORD == 0
