"""Random orders, and what is drawn of given elements."""

from __future__ import annotations

import math
from typing import Any

from calor.errors import ArgumentError
from calor.functions.arguments import integer, one_axis
from calor.functions.operands import as_tensor
from calor.ops import indexing, movement
from calor.random.distributions import integers
from calor.random.generator import Generator, Shape, bits, shape_of
from calor.tensor.tensor import Tensor


def permutation(
    count: int,
    *,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return the numbers 0 … count − 1 in random order.

    Parameters
    ----------
    count : int
        How many numbers, at least 0.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.
    device : Device or str, optional
        Where the result is when no key is given. By default the current device.

    Returns
    -------
    Tensor
        Dtype int64, of shape (count,).

    Raises
    ------
    ArgumentError
        If both a key and a generator are given.
    ShapeError
        If the key is not ``uint32[2]``.
    TypeError
        If ``count`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> sorted(calor.random.permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    drawn = bits(
        (integer(count, "permutation: count"),),
        width=64,
        key=key,
        generator=generator,
        device=device,
    )
    made: Tensor = indexing.sort(drawn, axis=0, descending=False)[1]
    return made


def shuffle(
    x: Tensor,
    *,
    axis: int = 0,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return the tensor with the slices along an axis in random order.

    Parameters
    ----------
    x : Tensor
        At least one axis, any dtype.
    axis : int, optional
        The axis to shuffle along. By default the first.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    ArgumentError
        If both a key and a generator are given.
    AxisError
        If ``x`` has no such axis.
    ShapeError
        If the key is not ``uint32[2]``.
    DTypeError
        If ``x`` is no tensor and no array.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.shuffle(calor.asarray([[1, 2], [3, 4], [5, 6]]), key=calor.random.key(0))
    >>> sorted(x.tolist())
    [[1, 2], [3, 4], [5, 6]]
    """
    x = as_tensor(x)
    axis = one_axis(axis, x.shape, "shuffle")
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
    """Return elements of a tensor drawn at random.

    Parameters
    ----------
    x : Tensor
        The elements, along the first axis; any dtype.
    shape : int or tuple of int, optional
        How many to draw, and in which shape. By default one.
    replace : bool, optional
        Whether an element can be drawn more than once. By default True.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.

    Returns
    -------
    Tensor
        The dtype of ``x``; the given shape, followed by the other axes of ``x``.

    Raises
    ------
    ArgumentError
        If more elements are wanted than there are and ``replace`` is False, or both a key and a
        generator are given.
    AxisError
        If ``x`` has no axis.
    ShapeError
        If the key is not ``uint32[2]``.
    DTypeError
        If ``x`` is no tensor and no array.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.choice(calor.asarray([10, 20, 30]), (3,), replace=False)
    >>> sorted(x.tolist())
    [10, 20, 30]
    """
    x = as_tensor(x)
    count, wanted = x.shape[one_axis(0, x.shape, "choice")], shape_of(shape)
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
