"""Losses between predictions and targets.

Requirements: the formulas, defaults and reductions are PyTorch's. ``reduction`` is "mean", "sum" or
"none". Logarithms are taken of logits where there are logits, so nothing overflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.activation import floating, log_softmax, softplus
from calor.functions.manipulation import expand_dims, reshape
from calor.functions.operands import as_tensor, pair, select, single
from calor.functions.reductions import sum as total
from calor.functions.statistics import mean
from calor.ops import composites as c
from calor.ops import elementwise as e
from calor.ops.indexing import gather, take_along

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor

Reduction = Literal["mean", "sum", "none"]


def reduced(loss: Tensor, reduction: str, what: str) -> Tensor:
    """Return the mean, the sum, or the losses themselves; ArgumentError for another name."""
    if reduction == "mean":
        return mean(loss)
    if reduction == "sum":
        return total(loss)
    if reduction == "none":
        return loss
    raise ArgumentError(f'{what}: reduction {reduction!r} is none of "mean", "sum", "none"')


def same_shapes(x: Any, target: Any, what: str) -> tuple[Tensor, Tensor]:
    """Return two floating tensors of one shape; ShapeError when the shapes differ.

    Losses do not broadcast: (N, 1) against (N,) would silently compare every pair.
    """
    x, target = floating(x, what), floating(target, what)
    if x.shape != target.shape:
        raise ShapeError(
            f"{what}: predictions of shape {x.shape} and targets of shape {target.shape} must "
            f"have one shape; reshape one of them"
        )
    return x, target


def mse_loss(x: Operand, target: Operand, *, reduction: Reduction = "mean") -> Tensor:
    """Return the squared difference. Raises ShapeError when the shapes differ.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.mse_loss(calor.asarray([1.0, 2.0]), calor.asarray([1.0, 4.0])).item()
    2.0
    """
    x, target = same_shapes(x, target, "mse_loss")
    difference = pair(e.sub, x, target)
    return reduced(pair(e.mul, difference, difference), reduction, "mse_loss")


def l1_loss(x: Operand, target: Operand, *, reduction: Reduction = "mean") -> Tensor:
    """Return the absolute difference. Raises ShapeError when the shapes differ.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.l1_loss(calor.asarray([1.0, 2.0]), calor.asarray([1.0, 4.0])).item()
    1.0
    """
    x, target = same_shapes(x, target, "l1_loss")
    return reduced(single(e.abs, pair(e.sub, x, target)), reduction, "l1_loss")


def huber_loss(
    x: Operand, target: Operand, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return d² / 2 for differences d up to ``delta``, delta · (|d| − delta / 2) beyond.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.huber_loss(calor.asarray([0.0, 0.0]), calor.asarray([1.0, 3.0])).item()
    1.5
    """
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta {delta} must be above 0")
    x, target = same_shapes(x, target, "huber_loss")
    return reduced(_rounded_corner(x, target, delta), reduction, "huber_loss")


def smooth_l1_loss(
    x: Operand, target: Operand, *, beta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return d² / (2 · beta) for differences d up to ``beta``, |d| − beta / 2 beyond.

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
    square = pair(e.mul, pair(e.mul, difference, difference), 0.5)
    line = pair(e.mul, pair(e.sub, size, 0.5 * delta), delta)
    return select(pair(e.less_equal, size, delta), square, line)


def nll_loss(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return minus the log-probability of each target class.

    x holds log-probabilities (N, C, \\*S) or (C,), ``target`` class numbers (N, \\*S) or a number;
    those equal to ``ignore_index`` count nothing. ``weight`` holds one factor for each class, and
    the mean is a weighted one; NaN when nothing counts. Raises ShapeError, and DTypeError for
    targets that are no integers.

    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.log(calor.asarray([[0.5, 0.5], [0.25, 0.75]]))
    >>> round(functional.nll_loss(x, calor.asarray([0, 0])).item(), 4)
    1.0397
    """
    x = floating(x, "nll_loss")
    loss, weights = _class_losses(x, target, weight, ignore_index, "nll_loss")
    return _weighted(loss, weights, reduction, "nll_loss")


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

    x holds logits (N, C, \\*S) or (C,). ``target`` holds class numbers, (N, \\*S) or a number, as
    for :func:`nll_loss`, or probabilities of the shape of x. ``label_smoothing`` mixes the
    target with the uniform distribution. Raises ShapeError, and ArgumentError for a smoothing
    outside [0, 1].

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
        counted = pair(e.not_equal, target, ignore_index)
        loss = pair(
            e.add,
            pair(e.mul, loss, 1 - label_smoothing),
            select(counted, pair(e.mul, uniform, label_smoothing), 0.0),
        )
    return _weighted(loss, weights, reduction, what)


def binary_cross_entropy(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return −target · log(x) − (1 − target) · log(1 − x) of probabilities x.

    Logarithms end at −100, as in PyTorch; ``binary_cross_entropy_with_logits`` needs no such end.

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


def binary_cross_entropy_with_logits(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    pos_weight: Operand | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the binary cross-entropy of sigmoid(x), computed from the logits x without overflow.

    ``pos_weight`` multiplies the losses of positive targets.

    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([1000.0])
    >>> functional.binary_cross_entropy_with_logits(x, calor.asarray([0.0])).item()
    1000.0
    """
    what = "binary_cross_entropy_with_logits"
    x, target = same_shapes(x, target, what)
    negative = pair(e.mul, pair(e.sub, 1, target), x)
    slope = softplus(single(e.neg, x))
    if pos_weight is not None:
        more = pair(e.mul, pair(e.sub, pos_weight, 1), target)
        slope = pair(e.mul, slope, pair(e.add, more, 1))
    loss = pair(e.add, negative, slope)
    if weight is not None:
        loss = pair(e.mul, loss, weight)
    return reduced(loss, reduction, what)


def kl_div(
    x: Operand,
    target: Operand,
    *,
    log_target: bool = False,
    reduction: Literal["mean", "sum", "none", "batchmean"] = "mean",
) -> Tensor:
    """Return target · (log(target) − x), the divergence from x, given as log-probabilities.

    With ``log_target`` the target is given as log-probabilities too. "batchmean" divides the sum by
    the first size, which is the divergence's definition; "mean" divides by all of them.

    >>> import calor
    >>> from calor.nn import functional
    >>> p = calor.asarray([[0.5, 0.5]])
    >>> functional.kl_div(calor.log(p), p, reduction="batchmean").item()
    0.0
    """
    x, target = same_shapes(x, target, "kl_div")
    if log_target:
        loss = pair(e.mul, single(e.exp, target), pair(e.sub, target, x))
    else:
        # 0 · log 0 is 0, and its gradient for the target is not asked of log at 0.
        none = pair(e.less_equal, target, 0)
        logs = select(none, 0.0, single(e.log, select(none, 1.0, target)))
        loss = pair(e.mul, target, pair(e.sub, logs, x))
    if reduction == "batchmean":
        return pair(e.div, total(loss), float(x.shape[0] if x.ndim else 1))
    return reduced(loss, reduction, "kl_div")


def _class_axis(x: Tensor, what: str) -> int:
    if not x.ndim:
        raise ShapeError(f"{what}: a 0-d tensor has no axis of classes; give (N, C) or (C,)")
    return 1 if x.ndim > 1 else 0


def _class_losses(
    logs: Tensor, target: Any, weight: Any, ignore_index: int, what: str
) -> tuple[Tensor, Tensor]:
    """Return the weighted loss of each target class, 0 where none counts, and the weights."""
    target = as_tensor(target, logs)
    axis = _class_axis(logs, what)
    if not target.dtype.is_integer:
        raise DTypeError(
            f"{what}: targets are class numbers (integers), not {target.dtype.name}"
            + ("" if what == "nll_loss" else ", or floating probabilities")
        )
    wanted = (*logs.shape[:axis], *logs.shape[axis + 1 :])
    if target.shape != wanted:
        raise ShapeError(
            f"{what}: predictions of shape {logs.shape} need class numbers of shape {wanted}, "
            f"not {target.shape}"
        )
    counted = pair(e.not_equal, target, ignore_index)
    classes = select(counted, target, 0)
    picked = reshape(take_along(logs, expand_dims(classes, axis), axis=axis), wanted)
    if weight is None:
        weights: Tensor = e.cast(counted, dtype=logs.dtype)
    else:
        weights = select(counted, gather(_factors(logs, weight, what), classes, axis=0), 0.0)
    # What is ignored may have probability 0, and is left out rather than multiplied by 0.
    return select(counted, pair(e.mul, single(e.neg, picked), weights), 0.0), weights


def _factors(logs: Tensor, weight: Any, what: str) -> Tensor:
    classes = logs.shape[_class_axis(logs, what)]
    weight = floating(weight, what)
    if weight.shape != (classes,):
        raise ShapeError(f"{what}: weight of shape {weight.shape} does not fit {classes} classes")
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
    part = pair(e.mul, logs, target)
    if weight is not None:
        part = pair(e.mul, part, _by_class(logs, weight, what))
    loss = single(e.neg, total(part, axis=axis))
    return reduced(loss, reduction, what)
