"""Rotary positions: pairs of features turned by angles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import calor
from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating
from calor.functions.half_types import in_float32
from calor.functions.operands import as_tensor
from calor_nn.functional.constant_tables import constant_table

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


@in_float32(autocast=False)
def rotary_embedding(
    x: Operand,
    positions: Tensor | None = None,
    *,
    dim: int | None = None,
    base: float = 10000.0,
    interleaved: bool = False,
) -> Tensor:
    """Return x with pairs of features turned by position · base^(−2k / dim).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (*N, L, D); real.
    positions : Tensor, optional
        Shape (L,), or any that broadcasts to (*N, L): the positions; 0, 1, … if left out.
    dim : int, optional
        How many features are turned, from the first on; even. All of them if left out.
    base : float
        The wavelengths grow from 2π to 2π · base.
    interleaved : bool
        Whether pair k is features 2k and 2k + 1; otherwise k and k + dim / 2.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes or fewer features than `dim`.
    ArgumentError
        If `dim` is not even.
    DTypeError
        If `x` is complex or float8.

    References
    ----------
    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> y = functional.rotary_embedding(calor.asarray([[1.0, 0.0], [1.0, 0.0]]))
    >>> [[round(v, 4) for v in row] for row in y.tolist()]
    [[1.0, 0.0], [0.5403, 0.8415]]
    """
    what = "rotary_embedding"
    x = floating(x, what)
    if x.ndim < 2:
        raise ShapeError(f"{what}: shape {x.shape} must be (*N, L, D)")
    dim = x.shape[-1] if dim is None else dim
    if dim % 2 or dim < 2:
        raise ArgumentError(f"{what}: {dim} features do not make pairs; dim must be even")
    if dim > x.shape[-1]:
        raise ShapeError(f"{what}: shape {x.shape} has fewer than {dim} features")
    if positions is None:
        positions = calor.arange(x.shape[-2], device=x.device)
    positions = as_tensor(positions, x)
    rates = (float(base) ** (-np.arange(0, dim, 2) / dim)).astype(x.dtype.numpy)
    angles = calor.expand_dims(positions.astype(x.dtype), -1) * constant_table(rates, x.device)
    cos, sin = calor.cos(angles), calor.sin(angles)
    turned, rest = x[..., :dim], x[..., dim:]
    if interleaved:
        pairs = calor.reshape(turned, (*x.shape[:-1], dim // 2, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        made = calor.stack([a * cos - b * sin, b * cos + a * sin], axis=-1)
        made = calor.reshape(made, turned.shape)
    else:
        a, b = turned[..., : dim // 2], turned[..., dim // 2 :]
        made = calor.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)
    return calor.concat([made, rest], axis=-1) if rest.shape[-1] else made
