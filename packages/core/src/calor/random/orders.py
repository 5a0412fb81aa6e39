"""Random orders, and what is drawn of given elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calor.errors import ArgumentError
from calor.ops import indexing, movement
from calor.random.distributions import integers
from calor.random.generator import Generator, Shape, bits, shape_of

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


def permutation(
    count: int,
    *,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return the numbers 0 … count−1 in random order, int64.

    >>> import calor
    >>> sorted(calor.random.permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    drawn = bits((count,), width=64, key=key, generator=generator, device=device)
    made: Tensor = indexing.sort(drawn, axis=0, descending=False)[1]
    return made


def shuffle(
    x: Tensor,
    *,
    axis: int = 0,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return the tensor with the slices along an axis in random order."""
    axis = axis % x.ndim
    order = permutation(x.shape[axis], key=key, generator=generator, device=x.device)
    made: Tensor = indexing.gather(x, order, axis=axis)
    return made


def choice(
    x: Tensor,
    shape: Shape = (),
    *,
    replace: bool = True,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return elements of a 1-D tensor drawn at random, with or without replacement."""
    count, wanted = x.shape[0], shape_of(shape)
    total = math.prod(wanted)
    if replace:
        picks = integers(count, shape=wanted, key=key, generator=generator, device=x.device)
    elif total > count:
        raise ArgumentError(f"choice: {total} of {count} elements need replace=True")
    else:
        order = permutation(count, key=key, generator=generator, device=x.device)
        first = movement.slice_(order, starts=(0,), stops=(total,), steps=(1,))
        picks = movement.reshape(first, shape=wanted)
    made: Tensor = indexing.gather(x, picks, axis=0)
    return made
