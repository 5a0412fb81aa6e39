"""Programs of steps with movements between them, behind which a compiler may do other steps first.

A norm, a product, a join or a chain is followed by reshapes, orders of axes and sums. A compiler
that moves work across these looks at sizes and at which axes are whole; equal sizes of different
axes, axes of one element, and parts of merged axes are drawn, since these look like what they are
not. Several chains of one expression share operands, which others still read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.ops.base import find

from .base import Array
from .joined_steps import Program, Rng, Shape, one_of, whole


def _regrouped(rng: Rng, shape: Shape) -> Shape:
    """Return a shape of the same elements: neighbouring axes merged, or an axis split."""
    made = list(shape)
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.integers(len(made)))
        factors = [k for k in range(1, made[at] + 1) if made[at] % k == 0]
        if at + 1 < len(made) and rng.random() < 0.5:
            made[at : at + 2] = [made[at] * made[at + 1]]
        else:
            first = int(one_of(rng, factors))
            made[at : at + 1] = [first, made[at] // first]
    return tuple(made)


def _some(rng: Rng, rank: int) -> Shape:
    """Return some axes, in their order."""
    count = int(rng.integers(1, rank + 1))
    return tuple(sorted(int(k) for k in rng.permutation(rank)[:count]))


def _beside(rng: Rng, shape: Shape) -> Array:
    """Return numbers that broadcast to a shape along some of its axes."""
    ones = rng.random(len(shape)) < 0.5
    return whole(rng, tuple(1 if one else n for one, n in zip(ones, shape, strict=True)))


def _norms(rng: Rng) -> Program:
    """A norm whose result is read in another shape: by elementwise steps, and by sums of parts."""
    sizes = (2, 3, 4, 4, 6, 1, 33)
    shape = tuple(int(one_of(rng, sizes)) for _ in range(int(rng.integers(2, 5))))
    name = str(one_of(rng, ("standardize", "rms_norm")))
    axes = tuple(range(int(rng.integers(len(shape))), len(shape)))
    other = _regrouped(rng, shape)
    sums, again = _some(rng, len(other)), bool(rng.integers(2))
    keep, back = bool(rng.integers(2)), bool(rng.integers(2))

    def run(x: Any, scale: Any, shift: Any) -> Any:
        made = calor.reshape(find(name)(x, axes=axes, eps=1e-3)[0], other)
        made = made * scale + shift
        made = calor.maximum(made, 0.0) if again else made
        total = calor.sum(made, axis=sums, keepdims=keep)
        return (calor.reshape(made, shape) if back else made), total

    arrays = [np.asarray(rng.normal(size=shape), np.float32), _beside(rng, other),
              _beside(rng, other)]  # fmt: skip
    told = f"{name} of {shape} along {axes}, as {other}, summed along {sums}, {again=}, {back=}"
    return Program(run, arrays, told, 2e-5, True)


def _products(rng: Rng) -> Program:
    """A product over any axes of its factors, whose result is read in another order."""
    batch, summed = int(one_of(rng, (0, 1, 2, 2))), int(one_of(rng, (1, 1, 2)))
    frees = int(one_of(rng, (0, 1, 1, 2))), int(one_of(rng, (0, 1, 1, 2)))
    # Equal sizes, so that an order that is mistaken for another fits.
    sizes = [int(one_of(rng, (2, 3, 3, 5))) for _ in range(batch + summed)]
    free = int(one_of(rng, (3, 4, 17) if sum(frees) < 3 else (3, 4)))
    given = []
    for count in frees:
        places = rng.permutation(batch + summed + count).tolist()
        shape = [free] * len(places)
        for k, size in enumerate(sizes):
            shape[places[k]] = size
        given.append((tuple(shape), tuple(places[:batch]), tuple(places[batch : batch + summed])))
    (left, left_batch, left_sum), (right, right_batch, right_sum) = given
    rank, chain = batch + sum(frees), int(one_of(rng, (0, 0, 1, 2)))
    order = tuple(int(k) for k in rng.permutation(rank))
    if rng.random() < 0.6:
        # The axes of both factors change places.
        order = (*range(batch), *range(batch + frees[0], rank), *range(batch, batch + frees[0]))

    def run(a: Any, b: Any) -> Any:
        made = find("dot_general")(a, b, contract=(left_sum, right_sum),
                                   batch=(left_batch, right_batch), dtype=float32)  # fmt: skip
        made = made * 2 if chain == 1 else made
        made = calor.permute_dims(made, order)
        return calor.maximum(made, 0.0) + 1 if chain == 2 else made

    told = f"{left} by {right}, batch {left_batch, right_batch}, sums {left_sum, right_sum}, "
    return Program(
        run, [whole(rng, left), whole(rng, right)], f"{told}{order}, {chain=}", 1e-5, True
    )


def _merges(shape: Shape, count: int) -> list[Shape]:
    """Return the shapes that merging neighbouring axes to so many gives."""
    if count == 1:
        return [(prod(shape),)]
    return [
        (prod(shape[:k]), *rest)
        for k in range(1, len(shape) - count + 2)
        for rest in _merges(shape[k:], count - 1)
    ]


def _joins(rng: Rng) -> Program:
    """Values in other orders whose axes are merged in different ways and then joined."""
    while True:
        sizes = tuple(int(one_of(rng, (2, 2, 3, 4, 4, 1))) for _ in range(int(rng.integers(3, 5))))
        count = int(rng.integers(2, len(sizes)))
        target, axis = one_of(rng, _merges(sizes, count)), int(rng.integers(count))
        shapes = [sizes]
        for _ in range(int(rng.integers(1, 3))):
            shapes.append(tuple(int(n) for n in rng.permutation(sizes)))
        found = [[m for m in _merges(s, count) if _alike(m, target, axis)] for s in shapes]
        if all(found):
            break
    merged = [one_of(rng, some) for some in found]
    orders = [tuple(int(k) for k in rng.permutation(len(sizes))) for _ in shapes]
    scale = bool(rng.integers(2))

    def run(*given: Any) -> Any:
        parts = [
            calor.reshape(calor.permute_dims(x, order), shape)
            for x, order, shape in zip(given, orders, merged, strict=True)
        ]
        made = calor.concat(parts, axis=axis)
        return made * 2 + 1 if scale else made

    # What lies in memory before it is reordered.
    arrays = []
    for shape, order in zip(shapes, orders, strict=True):
        before = [0] * len(shape)
        for k, a in enumerate(order):
            before[a] = shape[k]
        arrays.append(whole(rng, tuple(before)))
    told = f"{shapes} in orders {orders} as {merged}, joined along {axis}, {scale=}"
    return Program(run, arrays, told, 0.0, True)


def _alike(shape: Sequence[int], target: Sequence[int], axis: int) -> bool:
    """Return whether shapes may be joined along an axis."""
    return all(a == b or k == axis for k, (a, b) in enumerate(zip(shape, target, strict=True)))


def _siblings(rng: Rng) -> Program:
    """Chains of one expression, whose operands are made before and read by several of them."""
    n, count = int(one_of(rng, (5, 33, 4099, 65_541))), int(rng.integers(2, 5))
    makers = [int(rng.integers(4)) for _ in range(int(rng.integers(2, 4)))]
    pairs = [tuple(int(k) for k in rng.integers(0, len(makers), 2)) for _ in range(count)]
    ends = [int(rng.integers(4)) for _ in range(count)]
    form = int(rng.integers(3))

    def made(kind: int, x: Any) -> Any:
        if kind == 0:
            return calor.flip(calor.sort(x), axis=0)
        if kind == 1:
            return calor.cumulative_max(x)
        return calor.sort(x) if kind == 2 else calor.cumulative_min(calor.flip(x, axis=0))

    def chain(a: Any, b: Any) -> Any:
        if form == 0:
            return a * 2 + b
        return calor.maximum(a, b) - 1 if form == 1 else calor.abs(a - b) * 0.5

    def run(*given: Any) -> Any:
        held = [made(kind, x) for kind, x in zip(makers, given, strict=True)]
        chains = [chain(held[i], held[j]) for i, j in pairs]
        return [_read(end, x) for end, x in zip(ends, chains, strict=True)]

    told = f"{n} made by {makers}, chains {pairs} of form {form}, read by {ends}"
    return Program(run, [whole(rng, (n,)) for _ in makers], told)


def _read(kind: int, x: Any) -> Any:
    if kind == 0:
        return x
    if kind == 1:
        return calor.cumulative_max(x)
    return calor.flip(x, axis=0) + x if kind == 2 else calor.sort(x)


MOVES: Final[dict[str, Callable[[Rng], Program]]] = {
    "norms-in-other-shapes": _norms, "products-in-other-orders": _products,
    "joins-of-merged-axes": _joins, "chains-that-share": _siblings,
}  # fmt: skip
"""The families of programs by name."""
