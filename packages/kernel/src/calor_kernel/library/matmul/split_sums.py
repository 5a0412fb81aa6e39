"""Split-K with two passes for any sizes: the parts of a sum, and the launch that adds them.

Requirements: with fewer tiles than cores the K axis is divided, and each part writes sums of its
own, of the dtype of the sums. They are added in a fixed order, for reproducible results, and
rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.choices import choice
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.matmul.blueprints import accumulator
from calor_kernel.library.matmul.task import Given, Task

# Units of a cube that adds, and those that divide many parts.
_UNITS, _DOWN = 256, 8
# With more parts their sums cost more than they save.
_MOST = 128

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Parts:
    """The K axis in ``count`` parts of ``length`` terms; the last one may be shorter."""

    count: int
    length: int

    @staticmethod
    def of(k: int, count: int, step: int) -> Parts:
        """Return at most ``count`` parts of whole steps, and none that is empty.

        >>> Parts.of(100, 4, 8), Parts.of(100, 1, 8)
        (Parts(count=4, length=32), Parts(count=1, length=104))
        """
        steps = -(-k // step)
        length = -(-steps // count) * step
        return Parts(1 if count == 1 else -(-k // length), length)

    def across(self, products: int, step: int) -> SplitK[Given]:
        """Return the parts of several products, each of whole steps."""
        return SplitK(products, Multiple(self.length, step))


@dataclass(frozen=True, slots=True)
class SplitK(Generic[N]):
    """Parts of ``length`` terms of ``products``, which are adjacent: cubes along z."""

    products: kl.SizeOf[N]
    length: kl.SizeOf[N]

    def terms(
        self: SplitK[kl.Number], number: kl.Number, k: kl.Number
    ) -> tuple[kl.Number, kl.Number, kl.Number]:
        """Return a cube's product, and where its terms of ``k`` begin and end."""
        begin = number // self.products * self.length
        return number % self.products, begin, kl.min(begin + self.length, k)


@dataclass(frozen=True, slots=True)
class Whole(Generic[N]):
    """Rows and columns of a product's result."""

    rows: kl.SizeOf[N]
    columns: kl.SizeOf[N]


@kl.kernel
def add_split_sums(
    parts: kl.In,
    c: kl.Out,
    size: kl.Size,
    many: kl.Size,
    whole: Whole[kl.Number] | None,
    after: After | None,
    *,
    across: int,
    down: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Add ``many`` adjacent arrays of ``size`` elements each, in an order of their own.

    Of the units of a cube ``across`` have adjacent elements, and ``down`` divide the parts.
    ``whole``: the rows and columns of the result, for an epilogue.
    """
    x, y = kl.unit_index() % across, kl.unit_index() // across
    i = kl.cube_position(0) * across + x
    total = kl.constant(0, parts.dtype)
    if i < size:
        for part in kl.loop_range(y, many, down, unroll=4):
            total = total + parts[part * size + i]
    if down > 1:
        memory = kl.shared(across * down, parts.dtype)
        memory[y * across + x] = total
        kl.barrier()
        if y == 0:
            for one in range(1, down):
                total = total + memory[one * across + x]
    if (y == 0) & (i < size):
        if whole is None:
            c[i] = total.to(c.dtype)
        else:
            line = i // whole.columns
            ends = writer(epilogue, after, c, line // whole.rows)
            assert ends is not None
            ends.write(i, total, line % whole.rows, i % whole.columns)


def in_parts(
    task: Task, parts: Parts, turned: bool = False
) -> tuple[Task, Bound, tuple[Launch, ...]]:
    """Return the task with room for the parts' sums, where they go, and what adds them.

    ``turned``: whether the result is that of the transposes. An epilogue follows the addition.
    """
    if parts.count == 1:
        return task, task.result(), ()
    product = task.product
    dtype = accumulator(product)
    size = product.batches * product.m * product.n
    place, task = task.room(parts.count * size * dtype.itemsize)
    nbytes = size * (parts.count * dtype.itemsize + product.dtype.itemsize)
    down = _DOWN if parts.count > _DOWN else 1
    whole = None
    if task.tail is not None:
        # The result's own rows and columns, also where the product is that of the transposes.
        whole = Whole(product.n, product.m) if turned else Whole(product.m, product.n)
    after = launch(
        add_split_sums,
        Grid.line(-(-size // (_UNITS // down)), _UNITS, task.info.planes[0]),
        Effort(f"matmul sums of {parts.count}", parts.count * size, nbytes),
        parts=Bound(place, dtype),
        c=task.result(),
        size=size,
        many=parts.count,
        across=_UNITS // down,
        down=down,
        whole=whole,
        **task.following(),
    )
    return replace(task, tail=None), Bound(place, dtype), (after,)


@choice(low=1)
def fewest_parts(cubes: int, steps: int, least: int, cores: int) -> int:
    """Return the parts that give each core cubes, of at least ``least`` steps each.

    >>> fewest_parts(16, 32, 4, 132), fewest_parts(200, 32, 4, 132), fewest_parts(1, 8, 4, 132)
    (8, 1, 2)
    """
    if cubes >= cores:
        return 1
    return max(1, min(2 * cores // cubes, steps // least, _MOST))
