"""Negative logarithms of likelihoods: of normal and of Poisson distributions.

Requirements: the formulas, defaults and reductions are PyTorch's; half types are rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating
from calor.functions.half_types import in_float32
from calor.functions.operands import as_tensor, pair, select, single
from calor.ops import elementwise as e
from calor_nn.functional.loss import Reduction, reduced, same_shapes, weighed

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


@in_float32
def gaussian_nll_loss(
    x: Operand,
    target: Operand,
    var: Operand,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return minus the logarithm of the normal density of targets.

    The loss is ½ · (log(var) + (x − target)² / var), with the variance clipped from below at `eps`.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Predicted means of any shape; real. Integers are converted to float32.
    target : Tensor, ndarray or number
        Samples, of the shape of `x`.
    var : Tensor, ndarray or number
        Predicted variances: the shape of `x`, or with a last axis of size 1, or without it.
    full : bool
        Add the constant ½ · log(2π).
    eps : float
        The least variance; no gradient passes through the clipping.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Returns
    -------
    Tensor
        A scalar, or the shape of `x` if `reduction` is "none"; the dtype of the predictions.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    ArgumentError
        If `eps` is not above 0, or `reduction` is not one of the three names.
    DTypeError
        If an operand is complex or float8.

    References
    ----------
    Nix and Weigend, "Estimating the mean and variance of the target probability distribution",
    1994.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x, one = calor.asarray([1.0]), calor.ones(1)
    >>> functional.gaussian_nll_loss(x, calor.asarray([3.0]), one).item()
    2.0
    """
    what = "gaussian_nll_loss"
    x, target = same_shapes(x, target, what)
    var = floating(as_tensor(var, x), what)
    if var.shape == x.shape[:-1] and var.shape != x.shape:
        var = var.reshape((*var.shape, 1))
    if var.shape not in (x.shape, (*x.shape[:-1], 1)):
        raise ShapeError(f"{what}: variances of shape {var.shape} do not fit means {x.shape}")
    if not eps > 0:
        raise ArgumentError(f"{what}: eps {eps} must be above 0")
    # What is clipped keeps the slope of the variance itself, as in PyTorch.
    least = pair(e.maximum, var.detach(), eps)
    clipped = pair(e.add, pair(e.sub, var, var.detach()), least)
    apart = pair(e.sub, x, target)
    loss = pair(e.add, single(e.log, clipped), pair(e.div, pair(e.mul, apart, apart), clipped))
    loss = pair(e.mul, loss, 0.5)
    if full:
        loss = pair(e.add, loss, 0.5 * math.log(2 * math.pi))
    return reduced(loss, reduction, what)


@in_float32
def poisson_nll_loss(
    x: Operand,
    target: Operand,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return minus the logarithm of the Poisson probability of targets, up to a constant.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Predicted rates of any shape, or their logarithms; real.
    target : Tensor, ndarray or number
        Counts, of the shape of `x`.
    log_input : bool
        Whether `x` is the logarithm of the rate: the loss is exp(x) − target · x. Otherwise it is
        x − target · log(x + eps).
    full : bool
        Add Stirling's approximation of log(target!) for targets above 1.
    eps : float
        Keeps the logarithm of a rate of 0 finite.
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
        If an operand is complex or float8.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.poisson_nll_loss(calor.zeros(1), calor.ones(1)).item()
    1.0
    """
    what = "poisson_nll_loss"
    x, target = same_shapes(x, target, what)
    if log_input:
        loss = pair(e.sub, single(e.exp, x), weighed(target, x))
    else:
        log = single(e.log, pair(e.add, x, eps))
        loss = pair(e.sub, x, weighed(target, log))
    if full:
        many = pair(e.greater, target, 1.0)
        safe = select(many, target, 1.0)
        log = single(e.log, safe)
        stirling = pair(e.sub, pair(e.mul, safe, log), safe)
        rest = pair(e.mul, pair(e.add, log, math.log(2 * math.pi)), 0.5)
        loss = pair(e.add, loss, select(many, pair(e.add, stirling, rest), 0.0))
    return reduced(loss, reduction, what)
