"""Matrix products of fragments: synchronous, or issued and waited for.

One call serves every instruction, and devices without one, by scalar and vector arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from calor_kernel.errors import KernelTypeError
from calor_kernel.language.builder import current
from calor_kernel.language.fragment_rows import Band
from calor_kernel.language.fragments import Fragment, check_shape
from calor_kernel.language.functions import fma
from calor_kernel.language.layouts import Layout
from calor_kernel.language.matrices import Holding, MatrixShape
from calor_kernel.language.memory import Pointer
from calor_kernel.language.swizzles import Swizzled


def mma(a: Fragment, b: Fragment, c: Fragment) -> None:
    """Add a @ b to c, a collective operation of all units that hold them.

    The three are sides of one shape. Without an instruction, products are added in order of k.
    """
    shape = c.shape
    _check(shape, (a, b, c))
    if shape.feature == "async_matrix":
        raise KernelTypeError(f"{shape.name} is asynchronous; use issue_mma and wait_mma")
    if not shape.feature:
        _by_hand(a, b, c)
        return
    builder = current()
    operands = [f.parts[0] for f in (a, b, c)]
    sides = tuple(Holding(shape, f.side) for f in (a, b, c))
    said = {"shape": (shape.m, shape.n, shape.k), "fragments": sides}
    c.parts[0] = builder.emit("mma", operands, (operands[2].type,), said)[0]


def _check(shape: MatrixShape, fragments: Sequence[Fragment]) -> None:
    for given, side in zip(fragments, "abc"[3 - len(fragments) :], strict=True):
        wanted = shape.dtype(given.side)
        if given.shape != shape or given.side != side or given.dtype is not wanted:
            raise KernelTypeError(
                f"{shape.name} takes a and b of {shape.a_dtype} and c of {shape.c_dtype}, not "
                f"{given!r}"
            )


def _by_hand(a: Fragment, b: Fragment, c: Fragment) -> None:
    """Add an outer product for each k: rows of b times the numbers of a column of a."""
    builder, shape = current(), c.shape
    for p in range(shape.k):
        row = b.parts[p].to(c.dtype)
        for i in range(shape.m):
            factor = builder.splat(a.parts[p + shape.k * i].to(c.dtype), shape.n)
            if c.dtype.kind == "float":
                c.parts[i] = fma(factor, row, c.parts[i])
            else:
                c.parts[i] = c.parts[i] + factor * row


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """An operand in shared memory: a layout of (row, column) from a pointer's index 0.

    A swizzle applies to the whole index in the memory, as in hardware, so parts of a tile keep its
    swizzle; the tile itself starts at a multiple of the swizzle's block.
    """

    pointer: Pointer
    at: Layout | Swizzled

    @property
    def plain(self) -> Layout:
        """The layout without its swizzle."""
        return self.at.layout if isinstance(self.at, Swizzled) else self.at

    def tile(self, extent: tuple[int, int], position: tuple[Any, Any]) -> SharedMatrix:
        """Return the operand of the given extent at a position."""
        return SharedMatrix(self.pointer.at(self.plain(*position)), self.at.compose(extent))

    @property
    def major(self) -> Literal["rows", "columns"]:
        """The contiguous index: "columns" if rows are dense, else "rows"."""
        for name, mode in (("rows", self.plain[0]), ("columns", self.plain[1])):
            if any(stride == 1 and size > 1 for size, stride in mode.modes()):
                return name  # type: ignore[return-value]
        raise KernelTypeError(f"{self.at} has no dense rows or columns")

    def offset(self) -> Any:
        """Return the index of the first element in its memory."""
        return current().coerce(self.pointer.offset)


def issue_mma(c: Fragment, pairs: Sequence[tuple[Fragment | SharedMatrix, SharedMatrix]]) -> None:
    """Start adding products a @ b to c, in order, as one group to wait for.

    Operands in shared memory, and c, must be neither read nor written before the wait. The a of a
    pair may be a fragment. Its registers are in use until the wait as well, so a loop waits for all
    groups before it loads the next.
    """
    builder, shape = current(), c.shape
    check_shape(shape)
    _check(shape, (c,))
    if shape.feature != "async_matrix":
        raise KernelTypeError(f"{shape.name} is synchronous; write mma(a, b, c)")
    # A device need not initialize zero sums before the first product.
    nothing = builder.splat(builder.coerce(0, c.parts.type.scalar), c.parts.type.width)
    fresh = c.parts[0] is nothing
    for number, (a, b) in enumerate(pairs):
        said: dict[str, Any] = {"shape": shape, "first": number == 0, "b": b.at, "b_major": b.major}
        if fresh and number == 0:
            said["fresh"] = True
        if isinstance(a, SharedMatrix):
            said.update(source=a.pointer.memory, a=a.at, a_major=a.major)
            left = a.offset()
        else:
            if a.shape != shape or a.side != "a" or a.dtype is not shape.a_dtype:
                raise KernelTypeError(f"{a!r} is no operand a of {shape.name}")
            left = a.parts[0]
        operands = (c.parts[0], left, b.offset())
        types = (c.parts[0].type,)
        c.parts[0] = builder.emit("mma_async", operands, types, said, memory=b.pointer.memory)[0]
    builder.emit("commit_async", (), (), {"group": "matrix"})


def wait_mma(
    *accumulators: Fragment, pending: int = 0, after: Sequence[Fragment | Band] = ()
) -> None:
    """Wait for all groups of products but the latest ``pending``, and for these accumulators.

    ``after``: values computed first, concurrently with the products; without it compilers move the
    wait up over independent arithmetic.
    """
    builder = current()
    made = [one.items if isinstance(one, Band) else one.parts for one in after]
    computed = [item for one in made for item in one.items]
    builder.emit("wait_async", computed, (), {"group": "matrix", "pending": pending})
    for c in accumulators:
        part = c.parts[0]
        c.parts[0] = builder.emit("mma_result", (part,), (part.type,))[0]
