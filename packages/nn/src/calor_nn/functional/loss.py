"""Losses between predictions and targets.

Requirements: the formulas, defaults and reductions are PyTorch's. ``reduction`` is "mean", "sum" or
"none". Logarithms are taken of logits where there are logits, so nothing overflows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating, softplus
from calor.functions.half_types import in_float32
from calor.functions.operands import as_operands, pair, select, single
from calor.functions.reductions import sum as total
from calor.functions.statistics import mean
from calor.ops import composites as c
from calor.ops import elementwise as e

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

Reduction = Literal["mean", "sum", "none"]


def reduced(loss: Tensor, reduction: str, what: str, *more: str) -> Tensor:
    """Return the mean, the sum, or the losses themselves; ArgumentError for another name."""
    if reduction == "mean":
        return mean(loss)
    if reduction == "sum":
        return total(loss)
    if reduction == "none":
        return loss
    known = ", ".join(f'"{name}"' for name in ("mean", "sum", "none", *more))
    raise ArgumentError(f"{what}: reduction {reduction!r} is unknown; choose one of {known}")


def same_shapes(x: Any, target: Any, what: str) -> tuple[Tensor, Tensor]:
    """Return two floating tensors of one shape; ShapeError when the shapes differ.

    Losses do not broadcast: (N, 1) against (N,) would silently compare every pair.
    """
    x, target = (floating(one, what) for one in as_operands(x, target, floating=True))
    if x.shape != target.shape:
        raise ShapeError(
            f"{what}: predictions of shape {x.shape} and targets of shape {target.shape} must "
            f"have one shape; reshape one of them"
        )
    return x, target


def weighed(weight: Tensor, x: Tensor) -> Tensor:
    """Return weight · x, in which a weight of 0 leaves out a term that is infinite."""
    out = pair(e.bit_and, pair(e.equal, weight, 0), pair(e.equal, single(e.abs, x), math.inf))
    return pair(e.mul, weight, select(out, 0.0, x))


def logistic(x: Tensor, target: Tensor, share: Tensor) -> Tensor:
    """Return −share · log σ(x) − (1 − target) · log(1 − σ(x)) of logits, which may be infinite."""
    # −log σ(x) is softplus(−x), and −log(1 − σ(x)) is softplus(x).
    positive = weighed(share, softplus(single(e.neg, x)))
    return pair(e.add, positive, weighed(pair(e.sub, 1, target), softplus(x)))


@in_float32
def mse_loss(x: Operand, target: Operand, *, reduction: Reduction = "mean") -> Tensor:
    """Return the squared difference of predictions and targets.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Predictions of any shape; real. Integers are converted to float32.
    target : Tensor, ndarray or number
        What the predictions should be, of the shape of `x`.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ; losses do not broadcast.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.mse_loss(calor.asarray([1.0, 2.0]), calor.asarray([1.0, 4.0])).item()
    2.0
    """
    x, target = same_shapes(x, target, "mse_loss")
    difference = pair(e.sub, x, target)
    return reduced(pair(e.mul, difference, difference), reduction, "mse_loss")


@in_float32
def l1_loss(x: Operand, target: Operand, *, reduction: Reduction = "mean") -> Tensor:
    """Return the absolute difference of predictions and targets.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Predictions of any shape; real. Integers are converted to float32.
    target : Tensor, ndarray or number
        What the predictions should be, of the shape of `x`.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ; losses do not broadcast.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.l1_loss(calor.asarray([1.0, 2.0]), calor.asarray([1.0, 4.0])).item()
    1.0
    """
    x, target = same_shapes(x, target, "l1_loss")
    return reduced(single(e.abs, pair(e.sub, x, target)), reduction, "l1_loss")


@in_float32
def huber_loss(
    x: Operand, target: Operand, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return a loss that is quadratic for small differences and linear for large ones.

    With d = x − target, it is d² / 2 up to |d| = delta, and delta · (|d| − delta / 2) beyond.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Predictions of any shape; real. Integers are converted to float32.
    target : Tensor, ndarray or number
        What the predictions should be, of the shape of `x`.
    delta : float
        Where the loss becomes linear, in the unit of `x`; above 0.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ; losses do not broadcast.
    ArgumentError
        If `delta` is not above 0, or `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    References
    ----------
    Huber, "Robust Estimation of a Location Parameter", 1964.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.huber_loss(calor.asarray([0.0, 0.0]), calor.asarray([1.0, 3.0])).item()
    1.5
    """
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta {delta} must be above 0")
    x, target = same_shapes(x, target, "huber_loss")
    return reduced(_rounded_corner(x, target, delta), reduction, "huber_loss")


@in_float32
def smooth_l1_loss(
    x: Operand, target: Operand, *, beta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return the absolute difference, rounded off to a parabola near 0.

    With d = x − target, it is d² / (2 · beta) up to |d| = beta, and |d| − beta / 2 beyond.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Predictions of any shape; real. Integers are converted to float32.
    target : Tensor, ndarray or number
        What the predictions should be, of the shape of `x`.
    beta : float
        Where the loss becomes linear, in the unit of `x`; not negative. 0 gives :func:`l1_loss`.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ; losses do not broadcast.
    ArgumentError
        If `beta` is negative, or `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    References
    ----------
    Girshick, "Fast R-CNN", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.smooth_l1_loss(calor.asarray([0.0, 0.0]), calor.asarray([1.0, 3.0])).item()
    1.5
    """
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta {beta} must not be negative")
    if beta == 0:
        return l1_loss(x, target, reduction=reduction)
    x, target = same_shapes(x, target, "smooth_l1_loss")
    corner = pair(e.div, _rounded_corner(x, target, beta), beta)
    return reduced(corner, reduction, "smooth_l1_loss")


def _rounded_corner(x: Tensor, target: Tensor, delta: float) -> Tensor:
    difference = pair(e.sub, x, target)
    size = single(e.abs, difference)
    near = pair(e.less_equal, size, delta)
    # The gradient of a square that does not count is 0, for an infinite difference too.
    inner = select(near, difference, 0.0)
    square = pair(e.mul, pair(e.mul, inner, inner), 0.5)
    line = pair(e.mul, pair(e.sub, size, 0.5 * delta), delta)
    return select(near, square, line)


@in_float32
def binary_cross_entropy(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the cross-entropy of probabilities and binary targets.

    It is −target · log(x) − (1 − target) · log(1 − x). Logarithms end at −100, as in PyTorch;
    :func:`binary_cross_entropy_with_logits` needs no such bound.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Probabilities of any shape, in [0, 1]; real.
    target : Tensor, ndarray or number
        Targets in [0, 1], of the shape of `x`.
    weight : Tensor, ndarray or number, optional
        A factor for each loss, which broadcasts to the shape of `x`.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ; losses do not broadcast.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> round(functional.binary_cross_entropy(calor.asarray([0.5]), calor.asarray([1.0])).item(), 4)
    0.6931
    """
    x, target = same_shapes(x, target, "binary_cross_entropy")
    loss = pair(c.binary_cross_entropy, x, target)
    if weight is not None:
        loss = pair(e.mul, loss, weight)
    return reduced(loss, reduction, "binary_cross_entropy")


@in_float32
def binary_cross_entropy_with_logits(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    pos_weight: Operand | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the binary cross-entropy of sigmoid(x), which does not overflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Logits of any shape; real. Integers are converted to float32.
    target : Tensor, ndarray or number
        Targets in [0, 1], of the shape of `x`.
    weight : Tensor, ndarray or number, optional
        A factor for each loss, which broadcasts to the shape of `x`.
    pos_weight : Tensor, ndarray or number, optional
        A factor for the losses of positive targets, which broadcasts to the shape of `x`.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ; losses do not broadcast.
    ArgumentError
        If `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([1000.0])
    >>> functional.binary_cross_entropy_with_logits(x, calor.asarray([0.0])).item()
    1000.0
    """
    what = "binary_cross_entropy_with_logits"
    x, target = same_shapes(x, target, what)
    share = target if pos_weight is None else pair(e.mul, pos_weight, target)
    loss = logistic(x, target, share)
    if weight is not None:
        loss = pair(e.mul, loss, weight)
    return reduced(loss, reduction, what)


@in_float32
def kl_div(
    x: Operand,
    target: Operand,
    *,
    log_target: bool = False,
    reduction: Literal["mean", "sum", "none", "batchmean"] = "mean",
) -> Tensor:
    """Return the Kullback–Leibler divergence of targets from log-probabilities.

    It is target · (log(target) − x), with 0 · log(0) = 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Log-probabilities of any shape; real.
    target : Tensor, ndarray or number
        Probabilities, or log-probabilities with `log_target`; the shape of `x`.
    log_target : bool
        Whether the target holds log-probabilities.
    reduction : {"mean", "sum", "none", "batchmean"}
        How the losses become the result. "batchmean" divides their sum by the first size of `x`,
        which is the divergence's definition; "mean" divides by the number of elements.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes differ; losses do not broadcast.
    ArgumentError
        If `reduction` is not one of the four names.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    References
    ----------
    Kullback and Leibler, "On Information and Sufficiency", 1951.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> p = calor.asarray([[0.5, 0.5]])
    >>> functional.kl_div(calor.log(p), p, reduction="batchmean").item()
    0.0
    """
    x, target = same_shapes(x, target, "kl_div")
    if log_target:
        none = pair(e.equal, target, -math.inf)
        logs = select(none, 0.0, pair(e.sub, target, x))
        loss = pair(e.mul, single(e.exp, target), logs)
    else:
        # 0 · log 0 is 0, and its gradient for the target is not asked of log at 0.
        none = pair(e.less_equal, target, 0)
        logs = select(none, 0.0, single(e.log, select(none, 1.0, target)))
        loss = weighed(target, pair(e.sub, logs, x))
    if reduction == "batchmean":
        return pair(e.div, total(loss), float(x.shape[0] if x.ndim else 1))
    return reduced(loss, reduction, "kl_div", "batchmean")
