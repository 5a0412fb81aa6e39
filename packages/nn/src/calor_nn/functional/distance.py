"""Similarities and distances of vectors, and the losses that compare pairs by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating, relu, softplus
from calor.functions.arguments import one_axis
from calor.functions.half_types import in_float32
from calor.functions.manipulation import broadcast_shapes_of, broadcast_to
from calor.functions.operands import as_operands, pair, select, single
from calor.functions.reductions import max as largest
from calor.functions.reductions import sum as total
from calor.ops import elementwise as e
from calor_nn.functional.loss import reduced, same_shapes

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor
    from calor_nn.functional.loss import Reduction


@in_float32
def cosine_similarity(x1: Operand, x2: Operand, axis: int = 1, *, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along an axis.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (*N, D, *M); real. Integers are converted to float32.
    x2 : Tensor, ndarray or number
        A shape that broadcasts with that of `x1`; real.
    axis : int
        The axis of the vectors in the broadcast shape.
    eps : float
        Norms below it count as `eps`, so a vector of zeros has similarity 0.

    Returns
    -------
    Tensor
        The broadcast shape without `axis`; within [−1, 1] up to rounding.

    Raises
    ------
    AxisError
        If the broadcast shape does not have the axis.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.
    ShapeError
        If the shapes do not broadcast.
    TypeError
        If `axis` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([[3.0, 4.0]])
    >>> round(functional.cosine_similarity(x, calor.asarray([[4.0, 3.0]])).item(), 4)
    0.96
    """
    x1, x2 = (floating(x, "cosine_similarity") for x in as_operands(x1, x2, floating=True))
    shape = broadcast_shapes_of(x1.shape, x2.shape)
    axis = one_axis(axis, shape, "cosine_similarity") - len(shape)
    units = []
    for x in (x1, x2):
        if x.ndim < -axis or x.shape[axis] != shape[axis]:
            # One number stands for all of a vector, whose norm has them all.
            x = broadcast_to(x, shape)
        units.append(_unit(x, axis, eps))
    return total(pair(e.mul, *units), axis=axis)


@in_float32
def normalize(x: Operand, /, p: float = 2.0, axis: int = 1, *, eps: float = 1e-12) -> Tensor:
    """Return x divided by its p-norm along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.
    p : float
        Which norm; above 0, also infinity.
    axis : int
        The axis of the vectors.
    eps : float
        Norms below it count as `eps`, so a vector of zeros stays one.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    AxisError
        If `x` does not have the axis.
    ArgumentError
        If `p` is not above 0.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.
    TypeError
        If `axis` is not a whole number.

    Examples
    --------
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
    return pair(e.div, x, select(pair(e.less_equal, norm, eps), eps, norm))


def _unit(x: Tensor, axis: int, eps: float) -> Tensor:
    square = total(pair(e.mul, x, x), axis=axis, keepdims=True)
    # Squares up to eps² enter no root, whose slope at 0 is infinite; NaN does.
    small = pair(e.less_equal, square, eps * eps)
    norm = single(e.sqrt, select(small, 1.0, square))
    return pair(e.div, x, select(small, eps, norm))


def _norm(x: Tensor, p: float, axis: int, keepdims: bool = False) -> Tensor:
    """Return the p-norm along an axis, with slope 0 where it is 0."""
    if p <= 0:
        raise ArgumentError(f"p must be above 0 for a norm, not {p}")
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


@in_float32
def pairwise_distance(
    x1: Operand, x2: Operand, *, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> Tensor:
    """Return the p-norm of x1 − x2 + eps over the last axis.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (*N, D); real. Integers are converted to float32.
    x2 : Tensor, ndarray or number
        A shape that broadcasts with that of `x1`; real.
    p : float
        Which norm; above 0, also infinity.
    eps : float
        Added to the difference, which keeps the gradient of equal vectors finite.
    keepdims : bool
        Keep the last axis, with size 1.

    Returns
    -------
    Tensor
        The broadcast shape without the last axis.

    Raises
    ------
    ArgumentError
        If `p` is not above 0.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.zeros((1, 2))
    >>> functional.pairwise_distance(x, calor.asarray([[3.0, 4.0]]), eps=0.0).tolist()
    [5.0]
    """
    x1, x2 = (floating(x, "pairwise_distance") for x in as_operands(x1, x2, floating=True))
    difference = pair(e.sub, x1, x2)
    if eps:
        difference = pair(e.add, difference, eps)
    return _norm(difference, p, -1, keepdims)


@in_float32
def cosine_embedding_loss(
    x1: Operand,
    x2: Operand,
    target: Operand,
    *,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return 1 − cos for targets of 1 and max(0, cos − margin) for targets of −1.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (N, D) or (D,); real. Integers are converted to float32.
    x2 : Tensor, ndarray or number
        The shape of `x1`.
    target : Tensor, ndarray or number
        1 for pairs that belong together, −1 for others; shape (N,) or (). Other values have loss 0.
    margin : float
        The cosine up to which pairs that do not belong together have no loss.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or shape (N,) if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If `x1` and `x2` differ in shape, have other than 1 or 2 axes, or `target` does not fit
        them.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    Notes
    -----
    The squared norms count 1e-12 more, as in PyTorch, so vectors of zeros have a cosine.

    Examples
    --------
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
        raise ShapeError(
            f"{what}: inputs {x1.shape} need targets {x1.shape[:-1]}, not {target.shape}"
        )
    tiny = 1e-12
    square1 = pair(e.add, total(pair(e.mul, x1, x1), axis=-1), tiny)
    square2 = pair(e.add, total(pair(e.mul, x2, x2), axis=-1), tiny)
    product = total(pair(e.mul, x1, x2), axis=-1)
    cosine = pair(e.div, product, single(e.sqrt, pair(e.mul, square1, square2)))
    apart = relu(pair(e.sub, cosine, margin))
    positive = select(pair(e.equal, target, 1.0), pair(e.sub, 1.0, cosine), 0.0)
    negative = select(pair(e.equal, target, -1.0), apart, 0.0)
    return reduced(pair(e.add, positive, negative), reduction, what)


@in_float32
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

    Parameters
    ----------
    anchor : Tensor, ndarray or number
        Shape (*N, D); real. Integers are converted to float32.
    positive : Tensor, ndarray or number
        The shape of `anchor`: vectors that should be near.
    negative : Tensor, ndarray or number
        The shape of `anchor`: vectors that should be far.
    margin : float
        How much farther the negative should be than the positive.
    p : float
        The norm of the distance; above 0.
    eps : float
        Added to the differences; see :func:`pairwise_distance`.
    swap : bool
        Take the smaller of the negative's distances to the anchor and to the positive.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or shape (*N,) if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If `p` is not above 0, or `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    References
    ----------
    Balntas et al., "Learning Local Feature Descriptors with Triplets and Shallow Convolutional
    Neural Networks", 2016.

    Examples
    --------
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


@in_float32
def hinge_embedding_loss(
    x: Operand, target: Operand, *, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return x for targets of 1 and max(0, margin − x) for targets of −1.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Distances of any shape; real. Integers are converted to float32.
    target : Tensor, ndarray or number
        1 or −1, of the shape of `x`. Other values have loss 0.
    margin : float
        The distance from which pairs that do not belong together have no loss.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    References
    ----------
    Hadsell et al., "Dimensionality Reduction by Learning an Invariant Mapping", 2006.

    Examples
    --------
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


@in_float32
def margin_ranking_loss(
    x1: Operand,
    x2: Operand,
    target: Operand,
    *,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return max(0, −target · (x1 − x2) + margin).

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Scores of any shape; real. Integers are converted to float32.
    x2 : Tensor, ndarray or number
        Scores of the shape of `x1`.
    target : Tensor, ndarray or number
        1 if x1 should rank above x2, −1 if below; the shape of `x1`.
    margin : float
        The difference from which a pair in the right order has no loss.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x1` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    Examples
    --------
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


@in_float32
def soft_margin_loss(x: Operand, target: Operand, *, reduction: Reduction = "mean") -> Tensor:
    """Return log(1 + exp(−target · x)), which does not overflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Scores of any shape; real. Integers are converted to float32.
    target : Tensor, ndarray or number
        1 or −1, of the shape of `x`.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.soft_margin_loss(calor.asarray([-1000.0]), calor.asarray([1.0])).item()
    1000.0
    """
    x, target = same_shapes(x, target, "soft_margin_loss")
    loss: Any = softplus(single(e.neg, pair(e.mul, target, x)))
    return reduced(loss, reduction, "soft_margin_loss")
