"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calor.dtypes import bool_
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.activation import floating
from calor.functions.manipulation import broadcast_to, reshape
from calor.functions.operands import as_tensor, as_tensors, lowered, together
from calor.ops.attention import attention, weighted
from calor.ops.attention import attention_weights as attention_weights_of
from calor.ops.composites import like, wide
from calor.precision import permitted
from calor_nn.functional.dropouts import dropout

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


def scaled_dot_product_attention(
    query: Operand,
    key: Operand,
    value: Operand,
    *,
    mask: Operand | None = None,
    bias: Operand | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    random_key: Tensor | None = None,
) -> Tensor:
    """Return softmax(scale · query · keyᵀ + bias) · value.

    Parameters
    ----------
    query : Tensor, ndarray or number
        Shape (*N, H, L, E), or without heads (N, L, E) or (L, E); real.
    key : Tensor, ndarray or number
        Shape (*N, K, S, E). K divides H: each key head serves H / K query heads.
    value : Tensor, ndarray or number
        Shape (*N, K, S, V).
    mask : Tensor, ndarray or bool, optional
        Bool, broadcast to (*N, H, L, S): True where a query may attend to a key.
    bias : Tensor, ndarray or number, optional
        Broadcast to (*N, H, L, S): added to the scaled scores.
    causal : bool
        Also hide key j from query i if j > i.
    scale : float, optional
        What the scores are multiplied by; 1 / √E if left out.
    dropout : float
        Probability with which a weight is set to 0, in [0, 1). Above 0 the matrix of weights is
        materialized.
    random_key : Tensor, optional
        The key that dropout draws with; the global generator if left out.

    Returns
    -------
    Tensor
        Shape (*N, H, L, V); the common dtype of the operands. A query that may attend to no key
        gives 0.

    Raises
    ------
    ShapeError
        If the numbers of axes differ or are below 2, the sizes do not fit, or `mask` or `bias` does
        not broadcast to the scores.
    DTypeError
        If `mask` is not bool, an operand is complex or float8, or the dtypes have no common one.
    ArgumentError
        If `dropout` is outside [0, 1).

    References
    ----------
    - Vaswani et al., "Attention Is All You Need", 2017.
    - Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models", 2023.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> q = calor.zeros((1, 2, 4))
    >>> v = calor.asarray([[[1.0], [3.0]]])
    >>> functional.scaled_dot_product_attention(q, q, v, causal=True).tolist()
    [[[1.0], [2.0]]]
    """
    what = "scaled_dot_product_attention"
    q, k, v = together([lowered(floating(x, what)) for x in as_tensors(query, key, value)], what)
    if not 2 <= q.ndim == k.ndim == v.ndim:
        raise ShapeError(
            f"{what}: query {q.shape}, key {k.shape} and value {v.shape} must have the same "
            f"number of axes, 2 or more"
        )
    if not 0 <= dropout < 1:
        raise ArgumentError(f"{what}: dropout {dropout} must be within [0, 1)")
    options: Any = {"causal": bool(causal), "scale": _scale(q, scale)}
    extras = _extras(mask, bias, q, k, what)
    four = [_four(x) for x in (q, k, v)]
    if dropout:
        weights = attention_weights_of(four[0], four[1], *extras, **options)
        out = like(weighted(_dropped(weights, dropout, random_key), wide(four[2])), q)
    else:
        out = attention(*four, *extras, **options, **permitted(q.dtype))[0]
    return reshape(out, (*q.shape[:-1], v.shape[-1]))


def attention_weights(
    query: Operand,
    key: Operand,
    *,
    mask: Operand | None = None,
    bias: Operand | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return the weights with which attention sums values, for inspection.

    Parameters
    ----------
    query : Tensor, ndarray or number
        Shape (*N, H, L, E), or without heads (N, L, E) or (L, E); real.
    key : Tensor, ndarray or number
        Shape (*N, K, S, E). K divides H: each key head serves H / K query heads.
    mask : Tensor, ndarray or bool, optional
        Bool, broadcast to (*N, H, L, S): True where a query may attend to a key.
    bias : Tensor, ndarray or number, optional
        Broadcast to (*N, H, L, S): added to the scaled scores.
    causal : bool
        Also hide key j from query i if j > i.
    scale : float, optional
        What the scores are multiplied by; 1 / √E if left out.

    Returns
    -------
    Tensor
        Shape (*N, H, L, S); the common dtype of the operands. Rows sum to 1, or to 0 for a query
        that may attend to no key.

    Raises
    ------
    ShapeError
        If the numbers of axes differ or are below 2, or `mask` or `bias` does not broadcast to the
        scores.
    DTypeError
        If `mask` is not bool, an operand is complex or float8, or the dtypes have no common one.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> q = calor.zeros((1, 2, 4))
    >>> functional.attention_weights(q, q, causal=True).tolist()
    [[[1.0, 0.0], [0.5, 0.5]]]
    """
    what = "attention_weights"
    q, k = together([lowered(floating(x, what)) for x in as_tensors(query, key)], what)
    if not 2 <= q.ndim == k.ndim:
        raise ShapeError(f"{what}: query {q.shape} and key {k.shape} must have 2 axes or more")
    made: Any = attention_weights_of(
        _four(q),
        _four(k),
        *_extras(mask, bias, q, k, what),
        causal=bool(causal),
        scale=_scale(q, scale),
    )
    return reshape(like(made, q), (*q.shape[:-1], k.shape[-2]))


def _scale(query: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else float(scale)


def _leading(shape: tuple[int, ...]) -> tuple[tuple[int], int]:
    """Return the batch as one axis, and the number of heads: 1 without an axis of heads."""
    if len(shape) < 4:
        return (shape[0] if len(shape) == 3 else 1,), 1
    return (math.prod(shape[:-3]),), shape[-3]


def _four(x: Tensor) -> Tensor:
    lead, heads = _leading(x.shape)
    return reshape(x, (*lead, heads, *x.shape[-2:]))


def _extras(mask: Any, bias: Any, q: Tensor, k: Tensor, what: str) -> list[Tensor]:
    """Return mask and bias with four axes; axes that broadcast keep size 1."""
    found = []
    if mask is not None:
        mask = as_tensor(mask, q)
        if mask.dtype is not bool_:
            raise DTypeError(
                f"{what}: mask must be bool (True where a query may attend to a key), not "
                f"{mask.dtype.name}; pass numbers to add to the scores as bias="
            )
        found.append(mask)
    if bias is not None:
        found.append(floating(as_tensor(bias, q), what))
    scores = (*q.shape[:-1], k.shape[-2])
    return [_fitted(x, scores, what) for x in found]


def _fitted(x: Tensor, scores: tuple[int, ...], what: str) -> Tensor:
    ndim = len(scores)
    fits = x.ndim <= ndim and all(
        n in (1, m) for n, m in zip(x.shape, scores[ndim - x.ndim :], strict=True)
    )
    if not fits:
        raise ShapeError(
            f"{what}: a mask or bias of shape {x.shape} does not broadcast to {scores}"
        )
    shape = (1,) * (ndim - x.ndim) + x.shape
    if ndim == 3:
        return reshape(x, (shape[0], 1, *shape[1:]))
    batch = shape[:-3]
    if any(n != 1 for n in batch) and batch != scores[:-3]:
        x = broadcast_to(x, (*scores[:-3], *shape[-3:]))
        batch = scores[:-3]
    return reshape(x, (math.prod(batch), *(1,) * max(3 - ndim, 0), *shape[-3:][-ndim:]))


def _dropped(weights: Tensor, p: float, key: Any) -> Tensor:
    return dropout(weights, p, key=key)
