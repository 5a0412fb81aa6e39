"""Rows at computed indices, combined as they are read: bags of embeddings, neighbours, experts.

Requirements: gathered rows are many times as large as their sums, so they are never stored. Several
vectors of a row are summed side by side. Each row is converted and multiplied as the ops one by one
would do it, and sums are accumulated in the reduction's own dtype. The vectors of the end of a row
overlap those before them, so no access needs a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import Generic, TypeVar

from calor.dtypes import DType, int32
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Output, Request, Status, Work
from calor_kernel.library.indexing.checked_index import Failures, checked
from calor_kernel.library.indexing.gather import failures
from calor_kernel.library.indexing.regions import share

N = TypeVar("N")
# Vectors of sums in the registers of a unit, and bytes that a cube of one unit reads.
_VECTORS, _GRAIN = 8, 1 << 16


@dataclass(frozen=True, slots=True)
class Bags(Generic[N]):
    """Bags of ``terms`` rows of ``length`` elements, of ``size`` rows; ``turns`` bags a unit."""

    bags: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    terms: kl.SizeOf[N]
    length: kl.SizeOf[N]
    size: kl.SizeOf[N]


@kl.kernel
def embedding_bags(
    source: kl.In,
    indices: kl.In,
    factors: kl.In | None,
    target: kl.Out,
    status: Failures,
    over: Bags[kl.Number],
    *,
    lanes: int,
    vectors: int,
    product: DType,
    term: DType,
    wide: DType,
    greatest: bool,
) -> None:
    """Write the sums, or with ``greatest`` the maxima, of the rows of each bag.

    ``product``: the dtype of a row as it is multiplied, ``term``: that as it is summed, ``wide``:
    that of the sums.
    """
    length, terms = over.length, over.terms
    begin = kl.absolute_position() * over.turns
    for bag in kl.loop_range(begin, kl.min(begin + over.turns, over.bags)):
        for left in kl.loop_range(0, length, vectors * lanes):
            acc = kl.registers(vectors, wide, lanes)
            columns = [kl.min(left + v * lanes, length - lanes) for v in kl.range(vectors)]
            if greatest:
                for v in kl.range(vectors):
                    acc[v] = kl.constant(-inf, wide, lanes)
            for number in kl.loop_range(0, terms):
                row = checked(indices[bag * terms + number], over.size, status, 1) * length
                for v in kl.range(vectors):
                    value = source.load(row + columns[v], lanes)
                    if factors is not None:
                        factor = factors[bag * terms + number].to(product)
                        value = value.to(product).to(wide)
                        value = (value * kl.splat(factor.to(wide), lanes)).to(product)
                    value = value.to(term).to(wide)
                    acc[v] = kl.max(acc[v], value) if greatest else acc[v] + value
            for v in kl.range(vectors):
                target.store(bag * length + columns[v], acc[v].to(target.dtype))


def lower_embedding_bag(request: Request) -> list[Work]:
    """Return the work of sums of gathered rows; the factors of rows are a third operand."""
    x, indices, *factors = request.inputs
    given, info, (made,) = request.attributes, request.info, request.outputs
    bags, terms, length = prod(indices.shape[:-1]), indices.shape[-1], prod(x.shape[1:])
    wide = given["wide"]
    lanes = max(1, info.vector_bytes // max(wide.itemsize, 1))
    while lanes > length:
        lanes //= 2
    vectors = next((n for n in (1, 2, 4) if length <= n * lanes), _VECTORS)
    nbytes = bags * (terms * length * x.dtype.itemsize + length * made.dtype.itemsize)
    units, turns = share(bags, terms * length * x.dtype.itemsize, info, _GRAIN)
    work = launch(
        embedding_bags,
        Grid.line(-(-bags // (units * turns)), units),
        Effort("embedding bags", 2 * bags * terms * length, nbytes),
        source=operand(0, x),
        indices=operand(1, indices),
        factors=operand(2, factors[0]) if factors else None,
        target=Bound(Output(), made.dtype),
        status=Bound(Status(), int32),
        over=Bags(
            bags=bags,
            turns=turns,
            terms=terms,
            length=length,
            size=x.shape[0],
        ),
        lanes=lanes,
        vectors=vectors,
        product=given["product"],
        term=given["term"],
        wide=wide,
        greatest=given["greatest"],
    )
    return [Work((work,), failures=failures(x.shape[:1], (0,)))]
