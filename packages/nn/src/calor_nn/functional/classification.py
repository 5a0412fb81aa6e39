"""Losses of class numbers and of distributions over classes.

Requirements: the formulas, defaults and reductions are PyTorch's. Classes that are ignored are left
out of sums, not multiplied by 0, so that a log-probability of −inf there makes no NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor.dtypes import int32
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.activation import floating, log_softmax
from calor.functions.half_types import in_float32
from calor.functions.manipulation import expand_dims, reshape
from calor.functions.operands import as_tensor, pair, select, single
from calor.functions.reductions import sum as total
from calor.ops import composites as c
from calor.ops import elementwise as e
from calor.ops.indexing import gather, take_along
from calor.ops.sources import iota
from calor_nn.functional.affine import others
from calor_nn.functional.loss import reduced, weighed

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor
    from calor_nn.functional.loss import Reduction


@in_float32
def nll_loss(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return minus the log-probability of each target class.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Log-probabilities, shape (N, C, *S) or (C,); real.
    target : Tensor, ndarray or number
        Class numbers, shape (N, *S) or (); integers.
    weight : Tensor, ndarray or number, optional
        A factor for each class, shape (C,); 1 if left out.
    ignore_index : int
        Targets of this number have no loss, and do not count in the mean.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, weighted by the factors, their sum, or each of
        them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `target` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If `x` has no axes, or `target` or `weight` does not fit it.
    DTypeError
        If class numbers are not integers, or `x` is complex or float8.
    ArgumentError
        If `reduction` is not one of the three names.

    Notes
    -----
    The mean is NaN if no target counts.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.log(calor.asarray([[0.5, 0.5], [0.25, 0.75]]))
    >>> round(functional.nll_loss(x, calor.asarray([0, 0])).item(), 4)
    1.0397
    """
    x = floating(x, "nll_loss")
    loss, weights = _class_losses(x, target, weight, ignore_index, "nll_loss")
    return _weighted(loss, weights, reduction, "nll_loss")


@in_float32
def cross_entropy(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return minus the log-probability of the target under the softmax of logits.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Logits, shape (N, C, *S) or (C,); real.
    target : Tensor, ndarray or number
        Class numbers, integers of shape (N, *S) or (); or probabilities, floating and of the shape
        of `x`.
    weight : Tensor, ndarray or number, optional
        A factor for each class, shape (C,); 1 if left out.
    ignore_index : int
        Class numbers equal to it have no loss, and do not count in the mean.
    label_smoothing : float
        The share of the uniform distribution that is mixed into the target, in [0, 1].
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean (weighted by the factors if the targets are
        class numbers), their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or shape (N, *S) or () if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If `x` has no axes, or `target` or `weight` does not fit it.
    DTypeError
        If class numbers are not integers, or `x` is complex or float8.
    ArgumentError
        If `label_smoothing` is outside [0, 1], or `reduction` is not one of the three names.

    References
    ----------
    Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2016 (label
    smoothing).

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> logits = calor.asarray([[0.0, 0.0], [1000.0, 0.0]])
    >>> round(functional.cross_entropy(logits, calor.asarray([0, 0])).item(), 4)
    0.3466
    """
    what = "cross_entropy"
    x, target = floating(x, what), as_tensor(target)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"{what}: label_smoothing {label_smoothing} must be within [0, 1]")
    logs = log_softmax(x, axis=_class_axis(x, what))
    if target.dtype.is_floating:
        return _distribution_loss(logs, target, weight, label_smoothing, reduction)
    loss, weights = _class_losses(logs, target, weight, ignore_index, what)
    if label_smoothing:
        uniform = _uniform_loss(logs, weight)
        counted = others(target, ignore_index)
        loss = pair(
            e.add,
            pair(e.mul, loss, 1 - label_smoothing),
            select(counted, pair(e.mul, uniform, label_smoothing), 0.0),
        )
    return _weighted(loss, weights, reduction, what)


def _class_axis(x: Tensor, what: str) -> int:
    if not x.ndim:
        raise ShapeError(f"{what}: x has no axis of classes; give it shape (N, C) or (C,)")
    return 1 if x.ndim > 1 else 0


def _class_losses(
    logs: Tensor, target: Any, weight: Any, ignore_index: int, what: str
) -> tuple[Tensor, Tensor]:
    """Return the weighted loss of each target and its weight; both are 0 for ignored ones.

    The loss of logits sums what is 0 at all classes but the target: a device computes that sum with
    the softmax, and its gradient, without a log-probability in memory.
    """
    target = as_tensor(target, logs)
    axis = _class_axis(logs, what)
    if not target.dtype.is_integer:
        raise DTypeError(
            f"{what}: targets must be class numbers (integers)"
            f"{'' if what == 'nll_loss' else ' or probabilities (floating)'}, "
            f"not {target.dtype.name}"
        )
    wanted = (*logs.shape[:axis], *logs.shape[axis + 1 :])
    if target.shape != wanted:
        raise ShapeError(
            f"{what}: predictions of shape {logs.shape} need class numbers of shape {wanted}, "
            f"not {target.shape}"
        )
    counted = others(target, ignore_index)
    classes = select(counted, target, 0)
    if what == "nll_loss":
        picked = reshape(take_along(logs, expand_dims(classes, axis), axis=axis), wanted)
    else:
        picked = total(select(_hits(logs, classes, axis), logs, 0.0), axis=axis)
    loss: Tensor = single(e.neg, picked)
    if weight is None:
        weights: Tensor = e.cast(counted, dtype=logs.dtype)
    else:
        weights = select(counted, gather(_factors(logs, weight, what), classes, axis=0), 0.0)
        loss = weighed(weights, loss)
    # An ignored class may have probability 0: its loss is left out, not multiplied by 0.
    return select(counted, loss, 0.0), weights


def _hits(logs: Tensor, classes: Tensor, axis: int) -> Tensor:
    """Return which elements are those of the classes; an error tells of one out of range."""
    with logs.device:
        numbers = iota(length=logs.shape[axis], dtype=int32)
    # Reading a class among all classes checks it, and counts negative ones from the end.
    places = expand_dims(gather(numbers, classes, axis=0), axis)
    along = (-1,) + (1,) * (logs.ndim - axis - 1)
    return pair(e.equal, reshape(numbers, along), places)


def _factors(logs: Tensor, weight: Any, what: str) -> Tensor:
    classes = logs.shape[_class_axis(logs, what)]
    weight = floating(weight, what)
    if weight.shape != (classes,):
        raise ShapeError(f"{what}: weight of shape {weight.shape} must hold {classes} factors")
    made: Tensor = c.like(weight, logs)
    return made


def _by_class(logs: Tensor, weight: Any, what: str) -> Tensor:
    axis = _class_axis(logs, what)
    return reshape(_factors(logs, weight, what), (-1,) + (1,) * (logs.ndim - axis - 1))


def _uniform_loss(logs: Tensor, weight: Any) -> Tensor:
    """Return the loss against the uniform distribution over classes."""
    axis = _class_axis(logs, "cross_entropy")
    part = logs if weight is None else pair(e.mul, logs, _by_class(logs, weight, "cross_entropy"))
    return pair(e.div, total(part, axis=axis), -float(logs.shape[axis]))


def _weighted(loss: Tensor, weights: Tensor, reduction: str, what: str) -> Tensor:
    if reduction == "mean":
        return pair(e.div, total(loss), total(weights))
    return reduced(loss, reduction, what)


def _distribution_loss(
    logs: Tensor, target: Tensor, weight: Any, smoothing: float, reduction: str
) -> Tensor:
    what = "cross_entropy"
    axis = _class_axis(logs, what)
    if target.shape != logs.shape:
        raise ShapeError(
            f"{what}: probabilities of shape {target.shape} must have the shape of the logits, "
            f"{logs.shape}; class numbers must be integers"
        )
    classes = logs.shape[axis]
    if smoothing:
        target = pair(e.add, pair(e.mul, target, 1 - smoothing), smoothing / classes)
    part = weighed(target, logs)
    if weight is not None:
        part = pair(e.mul, part, _by_class(logs, weight, what))
    loss = single(e.neg, total(part, axis=axis))
    return reduced(loss, reduction, what)
