"""A sort as launches: keys, their order, and the elements in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from calor.dtypes import DType, complex64, complex128, float32, float64, int32, int64, uint8
from calor.specs import spec
from calor_kernel.contract.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.copying import as_bits
from calor_kernel.library.redirection import redirected
from calor_kernel.library.scan.lowering import lower_scan
from calor_kernel.library.sort.kernels import (
    DIGITS,
    count_digits,
    move_digits,
    rank_rows,
    take_sorted,
)
from calor_kernel.library.sort.keys import UNSIGNED, encode_keys
from calor_kernel.library.sort.partial_sort import in_pairs, sorted_pairs
from calor_kernel.library.sort.radix_launch import by_radix, radix_sorts

_SIZE = Scalar(int64, nonnegative=True)
_PARTS = {complex64: float32, complex128: float64}
# Rows up to this length are ranked; what is longer is sorted by digits.
_SHORT = 192
# Elements that a unit of a cube of many handles in a step.
_BLOCK = 1024
_GRAIN = 1 << 13


def sort_whole(request: Request) -> Sequence[Work] | Refusal:
    """Sort along an axis; values are copied bit for bit."""
    (x,) = request.inputs
    axis = request.attributes["axis"]
    n = x.shape[axis]
    if x.size == 0:
        return [Work(())]
    if n >= 1 << 31:
        return Refusal(f"an axis of {n} elements is too long to be sorted; at most 2**31 - 1 are")
    if in_pairs(x.dtype, n, request.info) and prod(x.shape[axis + 1 :]) == 1:
        return [sorted_pairs(request, x.size // n, n, (True, True))]
    if by_radix(request):
        return radix_sorts(request)
    return [_Sort(request).work()]


class _Sort:
    def __init__(self, request: Request) -> None:
        (x,) = request.inputs
        axis = request.attributes["axis"]
        self.request, self.info, self.x = request, request.info, x
        self.descending = bool(request.attributes["descending"])
        self.n, self.inner = x.shape[axis], prod(x.shape[axis + 1 :])
        self.rows = prod(x.shape[:axis]) * self.inner
        self.units = min(self.info.max_units, 64)
        self.scratch: list[int] = []
        self.launches: list[Launch] = []

    def new(self, nbytes: int) -> Scratch:
        """Return fresh scratch memory."""
        self.scratch.append(nbytes)
        return Scratch(len(self.scratch) - 1)

    def work(self) -> Work:
        """Return the launches of the sort."""
        keys = self.encoded()
        order = self.ranked(keys) if self.n <= _SHORT else self.by_digits(keys)
        self.take(order)
        return Work(tuple(self.launches), tuple(self.scratch))

    def encoded(self) -> list[tuple[Scratch, DType]]:
        """Return the words of the keys, the least significant first."""
        if self.x.dtype.kind != "complex":
            return [self._encode("whole", self.x.dtype)]
        part = _PARTS[self.x.dtype]
        return [self._encode(name, part) for name in ("imaginary", "real", "class")]

    def _encode(self, part: str, dtype: DType) -> tuple[Scratch, DType]:
        word: DType = uint8 if part == "class" else UNSIGNED[dtype.itemsize]
        target = self.new(self.x.size * word.itemsize)
        turns = 1 if self.units > 1 else _GRAIN
        numbers = (self.x.size, turns, self.n, self.inner)
        build = Build(
            encode_keys,
            (Buffer(dtype, writable=False), Buffer(word), *(_SIZE,) * len(numbers)),
            (("descending", self.descending), ("part", part)),
            (self.units, 1, 1),
        )
        offset = self.x.offset * (2 if self.x.dtype.kind == "complex" else 1)
        self._launch(build, self.x.size, turns, (Input(0, offset), target, *numbers), "sort keys")
        return target, word

    def _launch(
        self,
        build: Build,
        items: int,
        turns: int,
        arguments: tuple[Argument, ...],
        label: str,
        nbytes: int = 0,
    ) -> None:
        cubes = (-(-items // (self.units * turns)), 1, 1)
        moved = nbytes or 2 * self.x.size * self.x.dtype.itemsize
        self.launches.append(Launch(build, cubes, arguments, 0, moved, label))

    def ranked(self, keys: Sequence[tuple[Scratch, DType]]) -> Scratch:
        """Return the order of short rows."""
        order = self.new(self.x.size * 4)
        words = [*keys, *[keys[0]] * (3 - len(keys))]
        lanes = max(1, self.info.vector_bytes // 4) if self.units == 1 else 1
        build = Build(
            rank_rows,
            (*(Buffer(d, writable=False) for _, d in words), Buffer(int32), _SIZE, _SIZE),
            (("lanes", lanes), ("words", len(keys))),
            (self.units, 1, 1),
        )
        items = self.rows * -(-self.n // lanes)
        arguments = (*(place for place, _ in words), order, self.rows, self.n)
        self._launch(build, items, 1, arguments, "sort ranks", self.x.size * self.n)
        return order

    def by_digits(self, keys: Sequence[tuple[Scratch, DType]]) -> Scratch:
        """Return the order of long rows, after a pass for each byte of the keys."""
        indirect = len(keys) > 1
        size = self.x.size
        orders = [self.new(size * 4), self.new(size * 4)]
        block = self._block()
        blocks = -(-self.n // block)
        cells = self.rows * DIGITS * blocks
        counts, ends = self.new(cells * 4), self.new(cells * 4)
        spare = keys[0][0] if indirect else self.new(size * keys[0][1].itemsize)
        passes = [(w, s) for w, (_, d) in enumerate(keys) for s in range(0, d.itemsize * 8, 8)]
        places = [place for place, _ in keys]
        for number, (word, shift) in enumerate(passes):
            dtype = keys[word][1]
            taken, given = orders[number % 2], orders[(number + 1) % 2]
            first, last = number == 0, number == len(passes) - 1
            through = indirect and not first
            key = places[word]
            to = spare if not indirect else key
            counted = self._build(count_digits, dtype, 1, through, shift)
            numbers = (self.rows * blocks, blocks, self.n, block)
            self._launch(
                counted,
                self.rows * blocks,
                1,
                (key, taken, counts, *numbers),
                "sort count",
                size * dtype.itemsize,
            )
            self._scan(counts, ends, cells // self.rows)
            moved = self._build(move_digits, dtype, 3, indirect, shift, first, last)
            arguments = (key, taken, ends, to, given, *numbers)
            self._launch(
                moved,
                self.rows * blocks,
                1,
                arguments,
                "sort move",
                2 * size * (4 + dtype.itemsize),
            )
            if not indirect:
                places[word], spare = spare, places[word]
        return orders[len(passes) % 2]

    def _block(self) -> int:
        if self.units > 1:
            return _BLOCK
        wanted = -(-self.info.cores // self.rows)
        return int(-(-self.n // max(1, min(wanted, self.n // 4096))))

    def _build(
        self,
        function: object,
        dtype: DType,
        written: int,
        indirect: bool,
        shift: int,
        *passes: bool,
    ) -> Build:
        read = Buffer(dtype, writable=False)
        order = Buffer(int32, writable=False)
        if function is count_digits:
            signature = (read, order, Buffer(int32))
            keywords = (("indirect", indirect), ("shift", shift))
            return Build(count_digits, (*signature, *(_SIZE,) * 4), keywords, (self.units, 1, 1))
        first, last = passes
        more = (
            ("first_pass", first),
            ("indirect", indirect),
            ("last_pass", last),
            ("shift", shift),
        )
        buffers = (read, order, Buffer(int32, writable=False), Buffer(dtype), Buffer(int32))
        return Build(move_digits, (*buffers, *(_SIZE,) * 4), more, (self.units, 1, 1))

    def _scan(self, counts: Scratch, ends: Scratch, cells: int) -> None:
        shape = (self.rows, cells)
        result = spec(shape, int32)
        asked = replace(
            self.request,
            op="cumsum",
            attributes={"axis": 1, "reverse": False},
            inputs=(View.dense(result),),
            outputs=(result,),
        )
        works = lower_scan(asked)
        assert not isinstance(works, Refusal)
        work = works[0]
        places: dict[Argument, Argument] = {Input(0): counts, Output(0): ends}
        for i, nbytes in enumerate(work.scratch):
            places[Scratch(i)] = self.new(nbytes)
        self.launches += [redirected(launch, places) for launch in work.launches]

    def take(self, order: Scratch) -> None:
        """Write values and indices."""
        bits = as_bits(self.x, self.info)
        words = self.x.dtype.itemsize // bits.dtype.itemsize
        turns = 1 if self.units > 1 else _GRAIN
        numbers = (self.x.size, turns, self.n, self.inner)
        build = Build(
            take_sorted,
            (
                Buffer(bits.dtype, writable=False),
                Buffer(int32, writable=False),
                Buffer(bits.dtype),
                Buffer(int64),
                *(_SIZE,) * len(numbers),
            ),
            (("words", words),),
            (self.units, 1, 1),
        )
        arguments = (Input(0, bits.offset), order, Output(0), Output(1), *numbers)
        self._launch(build, self.x.size, turns, arguments, "sort take")
