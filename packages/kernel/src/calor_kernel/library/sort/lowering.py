"""A sort as launches: keys, their order, and the elements in it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from calor.dtypes import DType, complex64, complex128, float32, float64, int32, int64, uint8
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.ways import Way, ranked, serves
from calor_kernel.contract.work import Input, Output, Refusal, Request, Work
from calor_kernel.ir.types import UNSIGNED
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
from calor_kernel.library.sort.keys import AxisElements, encode_keys
from calor_kernel.library.sort.partial_sort import pairs_refusal, sorted_pairs
from calor_kernel.library.sort.radix_launch import add_scan, radix_refusal, radix_sorts
from calor_kernel.library.steps import Steps

_PARTS = {complex64: float32, complex128: float64}
# Rows up to this length are ranked; longer rows are sorted by digits.
_SHORT = 192
# Elements of a block of a unit, in cubes of many units; and elements of a cube of one unit.
_BLOCK = 1024
_GRAIN = 1 << 13


def sort_whole(request: Request) -> Sequence[Work] | Refusal:
    """Sort along an axis; values are copied bit for bit."""
    (x,) = request.inputs
    n = x.shape[request.attributes["axis"]]
    if x.size == 0:
        return [Work(())]
    if n >= 1 << 31:
        return Refusal(f"an axis of {n} elements is too long to be sorted; at most 2**31 - 1 are")
    return ranked(WAYS, n, request)


def _pairs_refusal(n: int, request: Request) -> str | None:
    (x,) = request.inputs
    if prod(x.shape[request.attributes["axis"] + 1 :]) != 1:
        return "only the last axis is sorted in vectors"
    return pairs_refusal(x.dtype, n, request.info)


class _Sort:
    """A sort of any key: rows are ranked if they are short, else sorted by digits."""

    def __init__(self, request: Request) -> None:
        (x,) = request.inputs
        axis = request.attributes["axis"]
        self.request, self.info, self.x = request, request.info, x
        self.descending = bool(request.attributes["descending"])
        self.n, inner = x.shape[axis], prod(x.shape[axis + 1 :])
        self.rows = prod(x.shape[:axis]) * inner
        self.units = min(self.info.max_units, 64)
        self.over = AxisElements(x.size, 1 if self.units > 1 else _GRAIN, self.n, inner)
        self.steps = Steps()

    def work(self) -> Work:
        """Return the launches of the sort."""
        keys = self.encoded()
        order = self.ranked(keys) if self.n <= _SHORT else self.by_digits(keys)
        self.take(order)
        return self.steps.work()

    def _add(
        self, kernel: KernelFunction, items: int, label: str, nbytes: int, **given: object
    ) -> None:
        grid = Grid.line(-(-items // self.units), self.units)
        self.steps.add(kernel, grid, Effort(label, 0, nbytes), **given)

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
        target = self.steps.room(self.x.size, word)
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
        order = self.steps.room(self.x.size, int32)
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
        orders = [self.steps.room(size, int32), self.steps.room(size, int32)]
        length = self._block()
        blocks = -(-self.n // length)
        over = Blocks(self.rows * blocks, blocks, self.n, length)
        cells = self.rows * DIGITS * blocks
        counts, ends = self.steps.room(cells, int32), self.steps.room(cells, int32)
        spare = keys[0] if indirect else self.steps.room(size, keys[0].dtype)
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
            add_scan(self.request, (self.rows, cells // self.rows), counts, ends, self.steps)
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


WAYS: Final[tuple[Way[int], ...]] = (
    Way(
        "pairs",
        _pairs_refusal,
        lambda n, request: [sorted_pairs(request, request.inputs[0].size // n, n, (True, True))],
    ),
    Way(
        "radix",
        lambda n, request: radix_refusal(request),
        lambda n, request: radix_sorts(request),
    ),
    Way("general", serves, lambda n, request: [_Sort(request).work()], spare=True),
)
"""The ways to sort rows of n elements for values and indices."""
