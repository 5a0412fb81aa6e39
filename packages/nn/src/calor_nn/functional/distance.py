"""Similarities and distances of vectors, and the losses that compare pairs by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating, relu, softplus
from calor.functions.operands import one_axis, pair, select, single
from calor.functions.reductions import max as largest
from calor.functions.reductions import sum as total
from calor.ops import elementwise as e
from calor_nn.functional.loss import reduced, same_shapes

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor
    from calor_nn.functional.loss import Reduction


def cosine_similarity(x1: Operand, x2: Operand, *, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along an axis; the others broadcast.

    Norms below ``eps`` count as eps, so a vector of zeros has similarity 0.

    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([[3.0, 4.0]])
    >>> round(functional.cosine_similarity(x, calor.asarray([[4.0, 3.0]])).item(), 4)
    0.96
    """
    x1, x2 = floating(x1, "cosine_similarity"), floating(x2, "cosine_similarity")
    one_axis(axis, x1.shape, "cosine_similarity")
    return total(pair(e.mul, _unit(x1, axis, eps), _unit(x2, axis, eps)), axis=axis)


def normalize(x: Operand, /, *, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """Return x divided by its p-norm along an axis, where norms below ``eps`` count as eps.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.normalize(calor.asarray([[0.0, 2.0]])).tolist()
    [[0.0, 1.0]]
    """
    x = floating(x, "normalize")
    one_axis(axis, x.shape, "normalize")
    if p == 2.0:
        return _unit(x, axis, eps)
    norm = _norm(x, p, axis, keepdims=True)
    return pair(e.div, x, select(pair(e.greater, norm, eps), norm, eps))


def _unit(x: Tensor, axis: int, eps: float) -> Tensor:
    square = total(pair(e.mul, x, x), axis=axis, keepdims=True)
    # The root is taken of what is above eps² only: its slope at 0 is infinite.
    large = pair(e.greater, square, eps * eps)
    norm = single(e.sqrt, select(large, square, 1.0))
    return pair(e.div, x, select(large, norm, eps))


def _norm(x: Tensor, p: float, axis: int, keepdims: bool = False) -> Tensor:
    """Return the p-norm along an axis, with slope 0 where it is 0."""
    if p <= 0:
        raise ArgumentError(f"a norm needs p above 0, not {p}")
    size = single(e.abs, x)
    if p == float("inf"):
        return largest(size, axis=axis, keepdims=keepdims)
    if p == 1.0:
        return total(size, axis=axis, keepdims=keepdims)
    powers = pair(e.mul, x, x) if p == 2.0 else pair(e.power, size, p)
    summed = total(powers, axis=axis, keepdims=keepdims)
    zero = pair(e.less_equal, summed, 0.0)
    inside = select(zero, 1.0, summed)
    root = single(e.sqrt, inside) if p == 2.0 else pair(e.power, inside, 1.0 / p)
    return select(zero, 0.0, root)


def pairwise_distance(
    x1: Operand, x2: Operand, *, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> Tensor:
    """Return the p-norm of x1 − x2 + eps over the last axis.

    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.zeros((1, 2))
    >>> functional.pairwise_distance(x, calor.asarray([[3.0, 4.0]]), eps=0.0).tolist()
    [5.0]
    """
    x1, x2 = floating(x1, "pairwise_distance"), floating(x2, "pairwise_distance")
    difference = pair(e.sub, x1, x2)
    if eps:
        difference = pair(e.add, difference, eps)
    return _norm(difference, p, -1, keepdims)


def cosine_embedding_loss(
    x1: Operand,
    x2: Operand,
    target: Operand,
    *,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return 1 − cos for targets of 1, and max(0, cos − margin) for targets of −1.

    x1 and x2 are (N, D) or (D,), ``target`` (N,) or 0-d. The squares of the norms count 1e-12 more,
    as in PyTorch, so vectors of zeros have a cosine. Raises ShapeError for other shapes.

    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([[1.0, 0.0]])
    >>> functional.cosine_embedding_loss(x, x, calor.asarray([-1.0])).item()
    1.0
    """
    what = "cosine_embedding_loss"
    x1, x2 = same_shapes(x1, x2, what)
    target = floating(target, what)
    if x1.ndim not in (1, 2) or target.shape != x1.shape[:-1]:
        raise ShapeError(f"{what}: {x1.shape} needs targets {x1.shape[:-1]}, not {target.shape}")
    tiny = 1e-12
    square1 = pair(e.add, total(pair(e.mul, x1, x1), axis=-1), tiny)
    square2 = pair(e.add, total(pair(e.mul, x2, x2), axis=-1), tiny)
    product = total(pair(e.mul, x1, x2), axis=-1)
    cosine = pair(e.div, product, single(e.sqrt, pair(e.mul, square1, square2)))
    apart = relu(pair(e.sub, cosine, margin))
    positive = select(pair(e.equal, target, 1.0), pair(e.sub, 1.0, cosine), 0.0)
    negative = select(pair(e.equal, target, -1.0), apart, 0.0)
    return reduced(pair(e.add, positive, negative), reduction, what)


def triplet_margin_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return max(0, d(anchor, positive) − d(anchor, negative) + margin).

    With ``swap`` the negative's distance is the smaller of those to anchor and positive (Balntas et
    al., 2016).

    >>> import calor
    >>> from calor.nn import functional
    >>> a = calor.asarray([[0.0, 0.0]])
    >>> round(functional.triplet_margin_loss(a, a, a).item(), 4)
    1.0
    """
    what = "triplet_margin_loss"
    anchor, positive = same_shapes(anchor, positive, what)
    anchor, negative = same_shapes(anchor, negative, what)
    near = pairwise_distance(anchor, positive, p=p, eps=eps)
    far = pairwise_distance(anchor, negative, p=p, eps=eps)
    if swap:
        far = pair(e.minimum, far, pairwise_distance(positive, negative, p=p, eps=eps))
    loss = relu(pair(e.add, pair(e.sub, near, far), margin))
    return reduced(loss, reduction, what)


def hinge_embedding_loss(
    x: Operand, target: Operand, *, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return x for targets of 1, and max(0, margin − x) for targets of −1.

    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([0.5, 0.5])
    >>> functional.hinge_embedding_loss(x, calor.asarray([1.0, -1.0]), reduction="none").tolist()
    [0.5, 0.5]
    """
    what = "hinge_embedding_loss"
    x, target = same_shapes(x, target, what)
    inside = relu(pair(e.sub, margin, x))
    positive = select(pair(e.equal, target, 1.0), x, 0.0)
    negative = select(pair(e.equal, target, -1.0), inside, 0.0)
    return reduced(pair(e.add, positive, negative), reduction, what)


def margin_ranking_loss(
    x1: Operand,
    x2: Operand,
    target: Operand,
    *,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return max(0, −target · (x1 − x2) + margin): 1 says that x1 ranks above x2, −1 below.

    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([1.0])
    >>> functional.margin_ranking_loss(x, calor.asarray([3.0]), calor.asarray([1.0])).item()
    2.0
    """
    what = "margin_ranking_loss"
    x1, x2 = same_shapes(x1, x2, what)
    x1, target = same_shapes(x1, target, what)
    difference = pair(e.mul, target, pair(e.sub, x2, x1))
    return reduced(relu(pair(e.add, difference, margin)), reduction, what)


def soft_margin_loss(x: Operand, target: Operand, *, reduction: Reduction = "mean") -> Tensor:
    """Return log(1 + exp(−target · x)) of targets 1 and −1, without overflow.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.soft_margin_loss(calor.asarray([-1000.0]), calor.asarray([1.0])).item()
    1000.0
    """
    x, target = same_shapes(x, target, "soft_margin_loss")
    loss: Any = softplus(single(e.neg, pair(e.mul, target, x)))
    return reduced(loss, reduction, "soft_margin_loss")
