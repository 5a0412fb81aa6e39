"""Losses of several classes by margins, and of triplets by any distance.

Requirements: the formulas, defaults and reductions are PyTorch's; half types are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calor.dtypes import int32
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.activation import floating, relu
from calor.functions.half_types import in_float32
from calor.functions.manipulation import expand_dims
from calor.functions.operands import as_tensor, pair, select
from calor.functions.ranges import arange
from calor.functions.reductions import cumulative_sum
from calor.functions.reductions import sum as total
from calor.functions.statistics import mean
from calor.ops import elementwise as e
from calor.ops.indexing import gather, take_along
from calor_nn.functional.distance import pairwise_distance
from calor_nn.functional.loss import Reduction, logistic, reduced, same_shapes

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


@in_float32
def multi_margin_loss(
    x: Operand,
    target: Operand,
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: Operand | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the mean over other classes of max(0, margin − x[target] + x[class]) to a power.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Scores, shape (N, C) or (C,); real.
    target : Tensor, ndarray or number
        Class numbers, shape (N,) or (); integers.
    p : {1, 2}
        The power.
    margin : float
        How much larger the score of the target should be.
    weight : Tensor, ndarray or number, optional
        A factor for the losses of each target class, shape (C,); 1 if left out.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `target` if `reduction` is "none"; the dtype of the scores.

    Raises
    ------
    ShapeError
        If `x`, `target` and `weight` do not fit.
    ArgumentError
        If `p` is not 1 or 2, or `reduction` is not one of the three names.
    DTypeError
        If class numbers are not integers, or `x` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.multi_margin_loss(calor.asarray([0.0, 0.5]), calor.asarray(0)).item()
    0.75
    """
    what = "multi_margin_loss"
    x, target = floating(x, what), as_tensor(target)
    if p not in (1, 2):
        raise ArgumentError(f"{what}: p is {p!r}; choose 1 or 2")
    _check_classes(x, target, x.shape[:-1], what)
    own = take_along(x, expand_dims(target, -1), axis=x.ndim - 1)
    apart = relu(pair(e.add, pair(e.sub, x, own), margin))
    loss = apart if p == 1 else pair(e.mul, apart, apart)
    if weight is not None:
        factors = floating(as_tensor(weight, x), what)
        if factors.shape != x.shape[-1:]:
            raise ShapeError(f"{what}: weight of shape {factors.shape} must be {x.shape[-1:]}")
        loss = pair(e.mul, loss, expand_dims(gather(factors, target, axis=0), -1))
    classes = arange(x.shape[-1], device=x.device)
    # Read among the classes, a number has their dtype and counts from the end below zero.
    others = pair(e.not_equal, classes, expand_dims(gather(classes, target, axis=0), -1))
    made = pair(e.div, total(select(others, loss, 0.0), axis=-1), float(x.shape[-1]))
    return reduced(made, reduction, what)


@in_float32
def multilabel_margin_loss(x: Operand, target: Operand, *, reduction: Reduction = "mean") -> Tensor:
    """Return the mean over pairs of a target and another class of max(0, 1 − x[target] + x[class]).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Scores, shape (N, C) or (C,); real.
    target : Tensor, ndarray or number
        The numbers of the classes of each sample, filled up with −1; the shape of `x`, integers.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or shape (N,) or () if `reduction` is "none"; the dtype of the scores.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If class numbers are not integers, or `x` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([0.0, 0.5])
    >>> functional.multilabel_margin_loss(x, calor.asarray([0, -1])).item()
    0.75
    """
    what = "multilabel_margin_loss"
    x, target = floating(x, what), as_tensor(target)
    _check_classes(x, target, x.shape, what)
    # What stands behind the first −1 does not count.
    ended = cumulative_sum(e.cast(pair(e.less, target, 0), dtype=int32), axis=-1)
    counts = pair(e.equal, ended, 0)
    places = select(counts, target, 0)
    own = take_along(x, places, axis=x.ndim - 1)
    classes = arange(x.shape[-1], device=x.device)
    # (*N, T, C): whether a target is a class.
    hits = pair(e.equal, expand_dims(gather(classes, places, axis=0), -1), classes)
    hits = pair(e.bit_and, hits, expand_dims(counts, -1))
    others = pair(e.equal, total(hits, axis=-2), 0)
    apart = relu(pair(e.add, pair(e.sub, expand_dims(x, -2), expand_dims(own, -1)), 1.0))
    used = pair(e.bit_and, expand_dims(counts, -1), expand_dims(others, -2))
    loss = total(select(used, apart, 0.0), axis=(-2, -1))
    return reduced(pair(e.div, loss, float(x.shape[-1])), reduction, what)


@in_float32
def multilabel_soft_margin_loss(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the mean over classes of the binary cross-entropy of sigmoid(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Logits, shape (*N, C); real.
    target : Tensor, ndarray or number
        1 for the classes of each sample and 0 for others; the shape of `x`.
    weight : Tensor, ndarray or number, optional
        A factor for each class, which broadcasts to the shape of `x`; 1 if left out.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or shape (*N,) if `reduction` is "none"; the dtype of the logits.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x, y = calor.asarray([[0.0, 0.0]]), calor.asarray([[1.0, 0.0]])
    >>> round(functional.multilabel_soft_margin_loss(x, y).item(), 4)
    0.6931
    """
    what = "multilabel_soft_margin_loss"
    x, target = same_shapes(x, target, what)
    loss = logistic(x, target, target)
    if weight is not None:
        loss = pair(e.mul, loss, weight)
    return reduced(mean(loss, axis=-1), reduction, what)


@in_float32
def triplet_margin_with_distance_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return max(0, d(anchor, positive) − d(anchor, negative) + margin) of any distance.

    Parameters
    ----------
    anchor : Tensor, ndarray or number
        Shape (*N, D); real. Integers are converted to float32.
    positive : Tensor, ndarray or number
        The shape of `anchor`: vectors that should be near.
    negative : Tensor, ndarray or number
        The shape of `anchor`: vectors that should be far.
    distance_function : callable, optional
        Two tensors of vectors to their distances; :func:`pairwise_distance` if left out.
    margin : float
        How much farther the negative should be than the positive.
    swap : bool
        Take the smaller of the negative's distances to the anchor and to the positive.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of the distances if `reduction` is "none".

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> a, b = calor.asarray([[0.0, 0.0]]), calor.asarray([[3.0, 4.0]])
    >>> round(functional.triplet_margin_with_distance_loss(a, b, a).item(), 4)
    6.0
    """
    what = "triplet_margin_with_distance_loss"
    measure = pairwise_distance if distance_function is None else distance_function
    anchor, positive = same_shapes(anchor, positive, what)
    anchor, negative = same_shapes(anchor, negative, what)
    near, far = measure(anchor, positive), measure(anchor, negative)
    if swap:
        far = pair(e.minimum, far, measure(positive, negative))
    return reduced(relu(pair(e.add, pair(e.sub, near, far), margin)), reduction, what)


def _check_classes(x: Tensor, target: Tensor, shape: tuple[int, ...], what: str) -> None:
    if not target.dtype.is_integer:
        raise DTypeError(f"{what}: class numbers must be integers, not {target.dtype.name}")
    if x.ndim not in (1, 2) or target.shape != shape:
        raise ShapeError(
            f"{what}: scores of shape {x.shape} must be (N, C) or (C,), and class numbers "
            f"{target.shape} must be {shape}"
        )
