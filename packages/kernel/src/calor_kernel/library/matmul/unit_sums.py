"""Small products of a large batch: a unit for each element of the result.

Requirements: neighbouring units have neighbouring elements of the result, so that cubes are full
however small a product is. The operands of a cube fit in its cache. Terms are added in the order
of the K axis, as by tiles of any type.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.launching import Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.matmul.blueprints import accumulator
from calor_kernel.library.matmul.problem import Product, narrow
from calor_kernel.library.matmul.task import Batches, Strides, Task

_UNITS: Final = 256  # of a cube
# The most terms of a sum and of a product, and the fewest products: with more terms, or for fewer
# products, cubes that share what they read take less; unless sums have few terms, and all products
# of a batch take no longer than the launch.
_TERMS, _PRODUCT, _BATCHES = 32, 2048, 32
_SHORT, _FEW = 8, 1 << 14


@kl.kernel
def unit_sums(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    count: kl.Size,
    rows: kl.FastDivmod,
    columns: kl.FastDivmod,
    terms: kl.Size,
    strides: Strides[kl.Number],
    batches: Batches[kl.Number],
    after: After | None,
    *,
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute an element of C."""
    place = kl.absolute_position()
    if place < count:
        line, column = columns.divmod(place)
        batch, row = rows.divmod(line)
        left, right = batches.starts(batch)
        left = left + row * strides.a_row
        right = right + column * strides.b_column
        total = kl.constant(0, accumulate)
        for p in kl.loop_range(terms):
            x = a[left + p * strides.a_depth].to(accumulate)
            y = b[right + p * strides.b_depth].to(accumulate)
            if accumulate.kind == "float":
                total = kl.fma(x, y, total)
            else:
                total = total + x * y
        ends = writer(epilogue, after, c, batch)
        if ends is None:
            c[place] = total.to(c.dtype)
        else:
            ends.write(place, total, row, column)


def refusal(product: Product) -> str | None:
    """Return why units do not compute a product alone, None if they may."""
    if product.formats is not None:
        return "it reads no float8"
    if product.k > _TERMS or product.m * product.n * product.k > _PRODUCT:
        return "its products have many terms"
    if product.batches >= _BATCHES:
        return None
    short = product.batches > 1 and product.k <= _SHORT
    if short and product.batches * product.m * product.n * product.k <= _FEW:
        return None
    return "it is of few products"


def unit_sums_launch(task: Task) -> Launch:
    """Return the launch."""
    (a, b), p = task.operands(), task.product
    count = p.batches * p.m * p.n
    units = min(_UNITS, task.info.max_units)
    reach = count if task.tail is None else task.tail.reach(p.batches, p.m, p.n)
    index = int32 if narrow(p) and kl.index_dtype(reach) is int32 else int64
    return launch(
        unit_sums,
        Grid.line(-(-count // units), units, index=index),
        task.effort("matmul unit sums"),
        a=a, b=b, c=task.result(), count=count, rows=p.m, columns=p.n, terms=p.k,
        strides=task.strides(), batches=task.batches(), accumulate=accumulator(p),
        **task.following(),
    )  # fmt: skip
