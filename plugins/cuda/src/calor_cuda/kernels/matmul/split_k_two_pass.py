"""Split-K with two passes, for few tiles with a long K axis.

Requirements: with fewer tiles than cores, each part of the K axis is a product of its own, and a
second launch adds the parts. They are added in a fixed order, for reproducible results, and have
the dtype of the sums, so that a result is rounded once.
"""

from __future__ import annotations

from dataclasses import replace

from calor.dtypes import DType, bfloat16, float16, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, launch
from calor_kernel.contract.work import Launch, Scratch
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.split_sums import Whole
from calor_kernel.library.matmul.task import Task

# The largest number first.
_PARTS = (16, 8, 4, 2)
# Minimum of bytes of the K axis in a part, for which writing it pays.
_LEAST = 1024
_WIDE, _UNITS, _NBYTES = 4, 256, 16


@kl.kernel
def add_parts(
    parts: kl.In,
    c: kl.Out,
    count: kl.Size,
    whole: Whole[kl.Number] | None,
    after: After | None,
    *,
    many: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Add ``many`` adjacent arrays of ``count`` elements each, in their order.

    ``whole``: the rows and columns of the result, for an epilogue.
    """
    i = kl.absolute_position() * _WIDE
    if i < count:
        total = parts.load(i, _WIDE, align=_NBYTES)
        for part in range(1, many):
            total = total + parts.load(part * count + i, _WIDE, align=_NBYTES)
        if whole is None:
            c.store(i, total.to(c.dtype), align=_WIDE * c.dtype.itemsize)
        else:
            line, column = i // whole.columns, kl.assume_multiple(i % whole.columns, _WIDE)
            ends = writer(epilogue, after, c, line // whole.rows)
            assert ends is not None
            ends.write(i, total, line % whole.rows, column, aligned=_WIDE)


def parts_of(product: Product, tiles: int, info: DeviceInfo) -> int:
    """Return the number of parts of the K axis that fills the cores; 1: no split."""
    nbytes = product.k * product.a.dtype.itemsize
    for many in _PARTS if product.batch[0] == 1 else ():
        fits = not exceeds(tiles * many, info.cores) and exceeds(nbytes, many * _LEAST - 1)
        if fits and product.k % many == 0:
            return many
    return 1


def divided(task: Task, many: int) -> tuple[Task, Scratch, Launch]:
    """Return the product in parts, their memory, and the launch that adds them to the result."""
    product = task.product
    deep = product.k // many
    dtype = sums_of(product.dtype)

    def part(operand: Operand) -> Operand:
        return replace(operand, batch=(deep * operand.depth, operand.batch[1]))

    batch = (many, product.batch[1])
    a, b = part(product.a), part(product.b)
    count = product.batches * product.m * product.n
    nbytes = many * count * dtype.itemsize
    target, task = task.room(nbytes)
    whole = None
    following: dict[str, object] = {"after": None}
    if task.tail is not None and product.n % _WIDE == 0:
        whole = Whole(product.m, Multiple(product.n, _WIDE))
        following = task.following(_WIDE)
    after = launch(
        add_parts,
        Grid.line(-(-count // (_WIDE * _UNITS)), _UNITS, task.info.planes[0]),
        Effort(f"matmul parts {many}", many * count, nbytes + count * product.dtype.itemsize),
        parts=Bound(target, dtype, _NBYTES),
        c=task.result(_NBYTES),
        count=Multiple(count, _WIDE),
        many=many,
        whole=whole,
        **following,
    )
    made = replace(product, batch=batch, k=deep, a=a, b=b, dtype=dtype)
    return replace(task, product=made, tail=None), target, after


def sums_of(dtype: DType) -> DType:
    """Return the dtype of the sums for a result dtype."""
    return float32 if dtype in (float16, bfloat16) else dtype
