"""A product with its memory and device, and the groups of numbers that its kernels share.

Requirements: a task is a value, so asking a way changes nothing. A task with a copied operand is
another task, which has the launches of the copy and their memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Multiple, Place
from calor_kernel.contract.work import Argument, Launch, Output, Scratch, View, Work
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.steps import Steps

N = TypeVar("N")
Given = int | Multiple


@dataclass(frozen=True, slots=True)
class Sizes(Generic[N]):
    """Rows and columns of the result, and terms of a sum."""

    m: kl.SizeOf[N]
    n: kl.SizeOf[N]
    k: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class Strides(Generic[N]):
    """Strides of both operands, along their free axis and the K axis."""

    a_row: kl.StrideOf[N]
    a_depth: kl.StrideOf[N]
    b_depth: kl.StrideOf[N]
    b_column: kl.StrideOf[N]


@dataclass(frozen=True, slots=True)
class Placed(Generic[N]):
    """Strides of an operand along the two batch axes, and its start."""

    outer: kl.StrideOf[N]
    inner: kl.StrideOf[N]
    base: kl.StrideOf[N]

    @staticmethod
    def of(operand: Operand, divisor: int = 0) -> Placed[Given]:
        """Return the numbers of an operand, with a divisor or with their signs."""
        outer, inner, base = (
            Multiple(n, divisor) if divisor else signed(n) for n in (*operand.batch, operand.offset)
        )
        return Placed(outer, inner, base)

    def at(self: Placed[kl.Number], outer: kl.Number, inner: kl.Number) -> kl.Number:
        """Return the position of a product's operand."""
        return self.base + outer * self.outer + inner * self.inner


@dataclass(frozen=True, slots=True)
class Batches(Generic[N]):
    """The places of both operands along the batch axes, of which one has ``inner`` elements."""

    inner: kl.SizeOf[N]
    a: Placed[N]
    b: Placed[N]

    def starts(self: Batches[kl.Number], batch: kl.Number) -> tuple[kl.Number, kl.Number]:
        """Return the positions of a product's operands."""
        place = batch // self.inner, batch % self.inner
        return self.a.at(*place), self.b.at(*place)


@dataclass(frozen=True, slots=True)
class Matrices(Generic[N]):
    """The matrices of one operand: strides along K and columns, and the place of each."""

    depth: kl.StrideOf[N]
    column: kl.StrideOf[N]
    batch_inner: kl.SizeOf[N]
    place: Placed[N]

    @staticmethod
    def of(operand: Operand, batch: tuple[int, int]) -> Matrices[Given]:
        """Return the strides of an operand."""
        depth, column = signed(operand.depth), signed(operand.free)
        return Matrices(depth, column, batch[1], Placed.of(operand))

    def start(self: Matrices[kl.Number], batch: kl.Number) -> kl.Number:
        """Return the position of a matrix."""
        return self.place.at(batch // self.batch_inner, batch % self.batch_inner)


def signed(stride: int) -> Multiple:
    """Return a stride for a kernel that is built for its sign."""
    return Multiple(stride, 1, stride >= 0)


def memory(argument: Argument, dtype: object, align: int = 0) -> Bound:
    """Return a buffer argument as a kernel's memory."""
    assert not isinstance(argument, int | float)
    return Bound(argument, dtype, align)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Task:
    """A product, the memory of its operands, and the device.

    ``before``: the launches that prepare operands; ``scratch``: the bytes of each of their blocks.
    ``tail``: the epilogue, on the memory of the result also where the operands are swapped.
    ``streamed``: whether tiles may be half empty, since one operand is so long that memory decides.
    ``alone``: whether ways by whole accesses would copy that operand first.
    """

    product: Product
    places: tuple[Place, Place]
    info: DeviceInfo
    before: tuple[Launch, ...] = ()
    scratch: tuple[int, ...] = ()
    tail: Tail | None = None
    streamed: bool = False
    alone: bool = False

    def operands(self, a_align: int = 0, b_align: int = 0) -> tuple[Bound, Bound]:
        """Return both operands with the alignment of their accesses in bytes."""
        (a, b), p = self.places, self.product
        return Bound(a, p.a.dtype, a_align), Bound(b, p.b.dtype, b_align)

    def result(self, align: int = 0) -> Bound:
        """Return the result; ``align`` is for accesses of elements of the product's dtype."""
        if self.tail is None:
            return Bound(Output(0), self.product.dtype, align)
        dtype = self.tail.expression.outputs[0]
        return Bound(Output(0), dtype, align // self.product.dtype.itemsize * dtype.itemsize)

    def following(self, count: int = 1) -> dict[str, object]:
        """Return a launch's arguments for the epilogue; ``count``: the columns of an access."""
        return {"after": None} if self.tail is None else self.tail.given(count)

    def sizes(self, divisor: int = 1) -> Sizes[Given]:
        """Return the sizes; ``divisor``: that of the columns."""
        p = self.product
        return Sizes(p.m, Multiple(p.n, divisor), p.k)

    def strides(self) -> Strides[Given]:
        """Return the strides of both operands."""
        a, b = self.product.a, self.product.b
        return Strides(*map(signed, (a.free, a.depth, b.depth, b.free)))

    def batches(self, a_divisor: int = 0, b_divisor: int = 0) -> Batches[Given]:
        """Return the places of both operands, with each one's divisor or with their signs."""
        p = self.product
        return Batches(p.batch[1], Placed.of(p.a, a_divisor), Placed.of(p.b, b_divisor))

    def tiles(self, rows: int, columns: int) -> tuple[int, int, int]:
        """Return the tiles along columns and rows, and of all products: a cube for each."""
        p = self.product
        return -(-p.n // columns), -(-p.m // rows), p.batches

    def effort(self, label: str) -> Effort:
        """Return the work of a launch that computes the product."""
        p, tail = self.product, self.tail
        if tail is None:
            return Effort(label, p.flops, p.nbytes)
        return Effort(
            f"{label} with epilogue", p.flops, p.nbytes + tail.nbytes(p.batches, p.m, p.n)
        )

    def room(self, nbytes: int) -> tuple[Scratch, Task]:
        """Return further scratch memory, and the task that has it."""
        return Scratch(len(self.scratch)), replace(self, scratch=(*self.scratch, nbytes))

    def taking(self, number: int, place: Place, operand: Operand | None = None) -> Task:
        """Return the task whose operand of a number is elsewhere."""
        a, b = self.places
        product = self.product
        if operand is not None:
            product = replace(product, b=operand) if number else replace(product, a=operand)
        return replace(self, product=product, places=(a, place) if number else (place, b))

    def copied(self, number: int, view: View, operand: Operand | None = None) -> Task:
        """Return the task that copies a view of an operand to scratch memory, densely."""
        target, task = self.room(view.size * view.dtype.itemsize)
        made = Steps()
        made.copy(view, self.places[number], target, self.info)
        before = (*self.before, *(replace(launch, prepares=True) for launch in made.launches))
        return replace(task.taking(number, target, operand), before=before)

    def swapped(self) -> Task:
        """Return the task of the transposes, whose result is the transpose."""
        return replace(self, product=self.product.swapped(), places=self.places[::-1])

    def work(self, *launches: Launch, name: str = "", group: int = 0) -> Work:
        """Return the work of launches after those that prepare operands."""
        return Work((*self.before, *launches), self.scratch, variant=name, group=group)
