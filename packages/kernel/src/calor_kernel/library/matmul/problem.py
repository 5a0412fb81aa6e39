"""The problem of a matrix product: sizes and strides, with axes merged where possible.

Requirements: a product of any axes becomes ``c[i, j, m, n] = Σ_k a[i, j, m, k] · b[i, j, k, n]``
with one stride per letter, so that kernels have one form. An operand whose axes do not merge is
copied first, in an order in which they merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from calor.dtypes import DType, bfloat16, float16, float32, int8, int32
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Request, View, row_major

Axes = tuple[int, ...]
# A margin for the reach of tiles beyond the end of an operand, with 32-bit indices.
_NARROW = (1 << 31) - (1 << 24)
# Units of a cube that computes tiles, the rows of a tile, and the bytes of an access.
_UNITS, _EDGE, _ACCESS = 64, 64, 16
# The multiplications of matrix instructions, and of units, while an element is copied.
_PER_ELEMENT, _PER_SINGLE = 400, 60


@dataclass(frozen=True, slots=True)
class Operand:
    """Strides of one operand in elements: two batch axes, its free axis, and the summed axis."""

    batch: tuple[int, int]
    free: int
    depth: int
    offset: int
    dtype: DType

    def in_accesses(self, count: int, size: int, k: int) -> bool:
        """Return whether accesses of ``count`` elements divide it; ``size``: of its free axis."""
        if self.depth == 1:
            dense, other = k, self.free
        elif self.free == 1:
            dense, other = size, self.depth
        else:
            return False
        numbers = (dense, other, self.offset, *self.batch)
        return all(number % count == 0 for number in numbers)


@dataclass(frozen=True, slots=True)
class Product:
    """``c[i, j, m, n] = Σ_k a[i, j, m, k] · b[i, j, k, n]``; c is dense, of ``dtype``.

    ``tf32``: whether float32 operands may be rounded to TF32. ``formats``: the float8 formats of
    operands that are stored as uint8. ``pitch``: the elements from row to row of c, 0 if it is
    dense.
    """

    batch: tuple[int, int]
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    dtype: DType
    tf32: bool = False
    formats: tuple[DType, DType] | None = None
    pitch: int = 0

    @property
    def batches(self) -> int:
        """The number of products."""
        return prod(self.batch)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batches * self.m * self.n * self.k

    @property
    def nbytes(self) -> int:
        """Bytes of both operands and the result, each once."""
        left = self.a.dtype.itemsize * self.m * self.k
        right = self.b.dtype.itemsize * self.k * self.n
        whole: int = self.batches * (left + right + self.dtype.itemsize * self.m * self.n)
        return whole

    @property
    def single(self) -> bool:
        """Whether operands and result are float32."""
        return self.a.dtype is self.b.dtype is self.dtype is float32

    @property
    def rounded(self) -> bool:
        """Whether it is of float32 operands that may be rounded to TF32."""
        return self.tf32 and self.single

    @property
    def halves(self) -> bool:
        """Whether operands are of one half type, and the result is of it or float32."""
        dtype = self.a.dtype
        same = self.b.dtype is dtype and self.dtype in (dtype, float32)
        return same and dtype in (float16, bfloat16)

    @property
    def narrow(self) -> bool:
        """Whether operands are float8 or int8, the latter with sums of int32."""
        integers = self.a.dtype is self.b.dtype is int8 and self.dtype is int32
        return self.formats is not None or integers

    @property
    def along(self) -> tuple[bool, bool]:
        """Whether each operand is dense along the K axis."""
        return self.a.depth == 1, self.b.depth == 1

    def swapped(self) -> Product:
        """Return the product of the transposes, whose result is the transpose."""
        formats = self.formats and self.formats[::-1]
        return replace(self, m=self.n, n=self.m, a=self.b, b=self.a, formats=formats)


def merged(view: View, axes: Sequence[int]) -> tuple[int, int] | None:
    """Return (size, stride) of axes merged in their order; None if no stride fits."""
    sizes, steps = [view.shape[a] for a in axes], [view.strides[a] for a in axes]
    shape, (strides,) = coalesced(sizes, steps)
    if len(shape) > 1:
        return None
    return (shape[0], strides[0]) if shape else (1, 0)


def _two(
    a: View, b: View, axes: tuple[Axes, Axes], alone: Axes = ()
) -> list[tuple[int, int, int]] | None:
    """Return at most two batch axes as (size, stride of a, stride of b), None for more.

    ``alone``: the axes after those, which only a has.
    """
    left = [a.strides[i] for i in (*axes[0], *alone)]
    right = [b.strides[j] for j in axes[1]] + [0] * len(alone)
    shape, strides = coalesced([a.shape[i] for i in (*axes[0], *alone)], left, right)
    if len(shape) > 2:
        return None
    return [(1, 0, 0)] * (2 - len(shape)) + list(zip(shape, *strides, strict=True))


def _beyond(depth: tuple[int, int], free: tuple[int, int]) -> tuple[int, int]:
    """Return a summed axis; that of one term has a stride as the lines of an operand have.

    Copy engines take no lines of one address. Where no lines are dense, each is of the one term.
    """
    if depth[1] != 0 or depth[0] != 1:
        return depth
    return 1, -(-free[0] // _ACCESS) * _ACCESS if free[1] == 1 else 1


def _lead(view: View, axes: Axes) -> int:
    """Return how many axes are before those that merge with the last one."""
    lead = len(axes) - 1
    while lead and merged(view, axes[lead - 1 :]) is not None:
        lead -= 1
    return lead


def _worth_apart(
    rows: tuple[int, int] | None,
    n: int,
    depth: tuple[int, int],
    batch: Sequence[tuple[int, int, int]],
    request: Request,
) -> bool:
    """Return whether products of parts of the rows take less than a copy that merges them.

    Tiles of each part have an edge of their own. A copy also has lines of whole accesses.
    """
    if rows is None or request.info.max_units < _UNITS or not exceeds(rows[0], _EDGE - 1):
        return False
    view, (size, step), (k, along) = request.inputs[0], rows, depth
    steps = batch[0][1], batch[1][1]
    lines = Operand(steps, step, along, view.offset, view.dtype)
    if not lines.in_accesses(_ACCESS // int(view.dtype.itemsize), size, k):
        return False
    # TF32 is read along the K axis.
    if view.dtype is float32 and request.rounds and along != 1:
        return False
    by_units = view.dtype is float32 and not request.rounds
    most = _PER_SINGLE if by_units else _PER_ELEMENT
    return exceeds(most * size, n * (-size % _EDGE))


def free_axes(view: View, contract: Axes, batch: Axes) -> Axes:
    """Return the axes that are neither summed nor batch axes."""
    return tuple(i for i in range(len(view.shape)) if i not in contract and i not in batch)


def product_of(request: Request) -> tuple[Product | None, tuple[View | None, View | None]]:
    """Return the problem of a ``dot_general``, or the operands to copy first, as views.

    The first is None if an operand must be copied. The second has, per operand, the view (batch,
    free, summed axes in this order) whose dense copy fits, or None.
    """
    a, b = request.inputs
    contract, batch = request.attributes["contract"], request.attributes["batch"]
    free_a, free_b = free_axes(a, contract[0], batch[0]), free_axes(b, contract[1], batch[1])
    rows, columns = merged(a, free_a), merged(b, free_b)
    order = summed_order(a, contract[0])
    summed_a, summed_b = ([axes[i] for i in order] for axes in contract)
    depth_a, depth_b = merged(a, summed_a), merged(b, summed_b)
    shared = _two(a, b, batch)
    if rows is None and columns is not None and depth_a is not None and depth_b is not None:
        lead = _lead(a, free_a)
        apart = merged(a, free_a[lead:])
        several = _two(a, b, batch, free_a[:lead])
        if several is not None and _worth_apart(apart, columns[0], depth_a, several, request):
            rows, shared = apart, several
    if rows is None or columns is None or depth_a is None or depth_b is None or shared is None:
        # Axes of a batch that do not merge are those of both operands.
        copy_a = shared is None or rows is None or depth_a is None
        copy_b = shared is None or columns is None or depth_b is None
        return None, (
            _ordered(a, (*batch[0], *free_a, *summed_a)) if copy_a else None,
            _ordered(b, (*batch[1], *free_b, *summed_b)) if copy_b else None,
        )
    outer, inner = shared
    depth_a, depth_b = _beyond(depth_a, rows), _beyond(depth_b, columns)
    left = Operand((outer[1], inner[1]), rows[1], depth_a[1], a.offset, a.dtype)
    right = Operand((outer[2], inner[2]), columns[1], depth_b[1], b.offset, b.dtype)
    (result,) = request.outputs
    sizes = (outer[0], inner[0])
    rounded = request.rounds and {a.dtype, b.dtype, result.dtype} == {float32}
    made = Product(sizes, rows[0], columns[0], depth_a[0], left, right, result.dtype, rounded)
    return made, (None, None)


def summed_order(a: View, axes: Axes) -> list[int]:
    """Return the order in which summed axes are merged; the memory of a decides it."""
    return sorted(range(len(axes)), key=lambda i: -abs(a.strides[axes[i]]))


def _ordered(view: View, axes: Axes) -> View:
    return View(
        tuple(view.shape[i] for i in axes),
        tuple(view.strides[i] for i in axes),
        view.dtype,
        view.offset,
    )


def copied(request: Request, number: int, view: View) -> Request:
    """Return the request with an operand replaced by the dense copy of its view."""
    contract, batch = request.attributes["contract"], request.attributes["batch"]
    order = summed_order(request.inputs[0], contract[0])
    summed = [tuple(axes[i] for i in order) for axes in contract]
    pairs = {"contract": summed, "batch": list(batch)}
    rank = len(view.shape)
    pairs["batch"][number] = tuple(range(len(batch[number])))
    pairs["contract"][number] = tuple(range(rank - len(order), rank))
    inputs = list(request.inputs)
    inputs[number] = View(view.shape, row_major(view.shape), view.dtype)
    attributes = {**request.attributes, **{k: tuple(v) for k, v in pairs.items()}}
    return replace(request, inputs=tuple(inputs), attributes=attributes)


def in_accesses(product: Product, count: int) -> bool:
    """Return whether accesses of ``count`` elements divide the operands and the result."""
    if product.n % count:
        return False
    left, right = product.a, product.b
    return left.in_accesses(count, product.m, product.k) and right.in_accesses(
        count, product.n, product.k
    )


def narrow(product: Product) -> bool:
    """Return whether 32-bit indices reach all operands and the result."""
    ends = [product.m * product.n * product.batches]
    for operand, size in ((product.a, product.m), (product.b, product.n)):
        sizes = (*product.batch, size, product.k)
        steps = (*operand.batch, operand.free, operand.depth)
        if any(step < 0 for step in steps):
            return False
        pairs = zip(sizes, steps, strict=True)
        ends.append(operand.offset + sum(n * step for n, step in pairs))
    return all(end < _NARROW for end in ends)
