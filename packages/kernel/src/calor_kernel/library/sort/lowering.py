"""A sort as launches: keys, their order, and the elements in it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from calor.dtypes import DType, complex64, complex128, float32, float64, int32, int64, uint8
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Input, Launch, Output, Refusal, Request, Scratch, Work
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.copying import as_bits
from calor_kernel.library.sort.kernels import (
    DIGITS,
    Blocks,
    DigitPass,
    count_digits,
    move_digits,
    rank_rows,
    take_sorted,
)
from calor_kernel.library.sort.keys import UNSIGNED, AxisElements, encode_keys
from calor_kernel.library.sort.partial_sort import in_pairs, sorted_pairs
from calor_kernel.library.sort.radix_launch import by_radix, radix_sorts, scan_rows_of

_PARTS = {complex64: float32, complex128: float64}
# Rows up to this length are ranked; longer rows are sorted by digits.
_SHORT = 192
# Elements of a block of a unit, in cubes of many units; and elements of a cube of one unit.
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
        self.n, inner = x.shape[axis], prod(x.shape[axis + 1 :])
        self.rows = prod(x.shape[:axis]) * inner
        self.units = min(self.info.max_units, 64)
        self.over = AxisElements(x.size, 1 if self.units > 1 else _GRAIN, self.n, inner)
        self.scratch: list[int] = []
        self.launches: list[Launch] = []

    def new(self, count: int, dtype: DType) -> Bound:
        """Return fresh scratch memory."""
        self.scratch.append(count * dtype.itemsize)
        return Bound(Scratch(len(self.scratch) - 1), dtype)

    def work(self) -> Work:
        """Return the launches of the sort."""
        keys = self.encoded()
        order = self.ranked(keys) if self.n <= _SHORT else self.by_digits(keys)
        self.take(order)
        return Work(tuple(self.launches), tuple(self.scratch))

    def _add(
        self, kernel: KernelFunction, items: int, label: str, nbytes: int, **given: object
    ) -> None:
        grid = Grid.line(-(-items // self.units), self.units)
        self.launches.append(launch(kernel, grid, Effort(label, 0, nbytes), **given))

    def _add_over_elements(self, kernel: KernelFunction, label: str, **given: object) -> None:
        items = -(-self.x.size // self.over.turns)
        self._add(
            kernel, items, label, 2 * self.x.size * self.x.dtype.itemsize, over=self.over, **given
        )

    def encoded(self) -> list[Bound]:
        """Return the words of the keys, the least significant first."""
        if self.x.dtype.kind != "complex":
            return [self._encode("whole", self.x.dtype)]
        part = _PARTS[self.x.dtype]
        return [self._encode(name, part) for name in ("imaginary", "real", "class")]

    def _encode(self, part: str, dtype: DType) -> Bound:
        word: DType = uint8 if part == "class" else UNSIGNED[dtype.itemsize]
        target = self.new(self.x.size, word)
        offset = self.x.offset * (2 if self.x.dtype.kind == "complex" else 1)
        self._add_over_elements(
            encode_keys,
            "sort keys",
            source=Bound(Input(0, offset), dtype),
            target=target,
            part=part,
            descending=self.descending,
        )
        return target

    def ranked(self, keys: Sequence[Bound]) -> Bound:
        """Return the order of short rows."""
        order = self.new(self.x.size, int32)
        lanes = max(1, self.info.vector_bytes // 4) if self.units == 1 else 1
        self._add(
            rank_rows,
            self.rows * -(-self.n // lanes),
            "sort ranks",
            self.x.size * self.n,
            words=keys,
            order=order,
            rows=self.rows,
            n=self.n,
            lanes=lanes,
        )
        return order

    def by_digits(self, keys: Sequence[Bound]) -> Bound:
        """Return the order of long rows, after a pass for each byte of the keys."""
        indirect = len(keys) > 1
        size = self.x.size
        orders = [self.new(size, int32), self.new(size, int32)]
        length = self._block()
        blocks = -(-self.n // length)
        over = Blocks(self.rows * blocks, blocks, self.n, length)
        cells = self.rows * DIGITS * blocks
        counts, ends = self.new(cells, int32), self.new(cells, int32)
        spare = keys[0] if indirect else self.new(size, keys[0].dtype)
        words = list(keys)
        passes = [(w, s) for w, k in enumerate(keys) for s in range(0, k.dtype.itemsize * 8, 8)]
        for number, (word, shift) in enumerate(passes):
            key, itemsize = words[word], words[word].dtype.itemsize
            before, after = orders[number % 2], orders[(number + 1) % 2]
            first, last = number == 0, number == len(passes) - 1
            given = {"keys": key, "order": before, "over": over}
            self._add(
                count_digits,
                over.items,
                "sort count",
                size * itemsize,
                counts=counts,
                digits=DigitPass(shift, indirect and not first),
                **given,
            )
            self._scan(counts, ends, cells // self.rows)
            self._add(
                move_digits,
                over.items,
                "sort move",
                2 * size * (4 + itemsize),
                ends=ends,
                moved=key if indirect else spare,
                moved_order=after,
                digits=DigitPass(shift, indirect, first, last),
                **given,
            )
            if not indirect:
                words[word], spare = spare, words[word]
        return orders[len(passes) % 2]

    def _block(self) -> int:
        if self.units > 1:
            return _BLOCK
        wanted = -(-self.info.cores // self.rows)
        return int(-(-self.n // max(1, min(wanted, self.n // 4096))))

    def _scan(self, counts: Bound, ends: Bound, cells: int) -> None:
        made, scratch = scan_rows_of(
            self.request, (self.rows, cells), counts, ends, len(self.scratch)
        )
        self.scratch += scratch
        self.launches += made

    def take(self, order: Bound) -> None:
        """Write values and indices."""
        bits = as_bits(self.x, self.info)
        self._add_over_elements(
            take_sorted,
            "sort take",
            source=operand(0, bits),
            order=order,
            values=Bound(Output(0), bits.dtype),
            indices=Bound(Output(1), int64),
            words=self.x.dtype.itemsize // bits.dtype.itemsize,
        )
