"""Reading and writing blocks of a fixed size, whose place is held in tensors.

Requirements: a place is a run-time operand, so that a compiled step which writes the next token of
a cache is one plan. A block that would leave the tensor is moved back inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from calor.dtypes import int64
from calor.errors import DTypeError, ShapeError
from calor.functions.arguments import sizes_of
from calor.functions.joining import stack
from calor.functions.operands import as_tensor
from calor.ops import elementwise as e
from calor.ops import movement as m
from calor.recording.record import host
from calor.specs import spec
from calor.tensor.tensor import Operand, Tensor

Starts: TypeAlias = "Operand | Sequence[Operand]"


def _places(starts: Any, x: Tensor, what: str) -> Tensor:
    """Return the first places of a block as one tensor of integers (axes,)."""
    if isinstance(starts, Tensor | np.ndarray):
        made = as_tensor(starts, x)
    elif all(isinstance(start, int | np.integer) for start in starts):
        numbers = np.array(starts, np.int64).reshape(len(starts))
        made = host(numbers, spec(numbers.shape, int64), x._value.device)
    else:
        parts = [as_tensor(start, x) for start in starts]
        wrong = [t.dtype.name for t in parts if not t.dtype.is_integer]
        if wrong:
            raise DTypeError(f"{what}: a start is {wrong[0]}; starts must be integers")
        made = stack([e.cast(t, dtype=int64) for t in parts])
    if not made.dtype.is_integer:
        raise DTypeError(f"{what}: starts are {made.dtype.name}; they must be integers")
    if made.shape != (x.ndim,):
        raise ShapeError(
            f"{what}: starts of shape {made.shape} must hold one number for each of the {x.ndim} "
            f"axes of {x.shape}"
        )
    return made


def dynamic_slice(x: Operand, starts: Starts, sizes: Sequence[int], /) -> Tensor:
    """Return the block of the given sizes whose first place is held in tensors.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any dtype.
    starts : Tensor, ndarray or sequence of int and Tensor
        The first place of the block along each axis: integers of shape (x.ndim,), or a sequence of
        that many numbers and integer scalars. Under `jit` their values are no part of the graph.
        A block that would leave ``x`` is moved back inside.
    sizes : sequence of int
        The size of the block along each axis, at most that of ``x``.

    Returns
    -------
    Tensor
        Shape ``sizes``, the dtype of ``x``.

    Raises
    ------
    DTypeError
        If ``starts`` are not integers.
    ShapeError
        If ``starts`` or ``sizes`` do not have one number for each axis, or a size does not fit.

    References
    ----------
    JAX, ``jax.lax.dynamic_slice``.

    Examples
    --------
    >>> import calor
    >>> place = calor.asarray(1)
    >>> calor.dynamic_slice(calor.asarray([5, 6, 7, 8]), [place], [2]).tolist()
    [6, 7]
    """
    x = as_tensor(x)
    whole = sizes_of(sizes, "dynamic_slice")
    made: Tensor = m.dynamic_slice(x, _places(starts, x, "dynamic_slice"), sizes=whole)
    return made


def dynamic_update_slice(x: Operand, update: Operand, starts: Starts, /) -> Tensor:
    """Return x with the block that starts at a place held in tensors replaced.

    ``cache[...] = dynamic_update_slice(cache, rows, [0, place])`` in a compiled step writes the
    rows into the memory of the cache.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any dtype.
    update : Tensor, ndarray or number
        The block, with as many axes as ``x``; converted to the dtype of ``x``.
    starts : Tensor, ndarray or sequence of int and Tensor
        The first place of the block along each axis, as in `dynamic_slice`. A block that would
        leave ``x`` is moved back inside.

    Returns
    -------
    Tensor
        A new tensor with the shape and dtype of ``x``.

    Raises
    ------
    DTypeError
        If ``starts`` are not integers.
    ShapeError
        If ``starts`` do not have one number for each axis, or the block does not fit into ``x``.

    References
    ----------
    JAX, ``jax.lax.dynamic_update_slice``.

    Examples
    --------
    >>> import calor
    >>> place = calor.asarray(1)
    >>> calor.dynamic_update_slice(calor.zeros(3), calor.ones(2), [place]).tolist()
    [0.0, 1.0, 1.0]
    """
    x = as_tensor(x)
    block = as_tensor(update, x)
    if block.dtype is not x.dtype:
        block = e.cast(block, dtype=x.dtype)
    places = _places(starts, x, "dynamic_update_slice")
    made: Tensor = m.dynamic_update_slice(x, block, places)
    return made
