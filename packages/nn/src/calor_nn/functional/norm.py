"""Normalization: over features, channels, groups and batches.

Requirements: moments of half types are computed in float32; a batch norm returns its new running
statistics instead of changing a tensor, so it works under every transform.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from calor.dtypes import float32
from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating
from calor.functions.arguments import integer, sizes_of
from calor.functions.half_types import FUNCTIONS, in_float32
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, pair, single
from calor.local import local
from calor.ops import composites as c
from calor.ops import elementwise as e
from calor.ops.contraction import window_reduce
from calor.ops.movement import number_like, pad
from calor_nn.functional.grouped_channels import grouped_channels

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


class BatchNorm(NamedTuple):
    """The result of :func:`batch_norm`.

    Attributes
    ----------
    output : Tensor
        The normalized input, of its shape and dtype.
    running_mean : Tensor or None
        The running mean after this batch, shape (C,); None if none was given.
    running_var : Tensor or None
        The running variance after this batch, shape (C,); None if none was given.
    """

    output: Tensor
    running_mean: Tensor | None
    running_var: Tensor | None


def layer_norm(
    x: Operand,
    /,
    normalized_shape: int | Sequence[int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Return x with mean 0 and variance 1 over its last axes, scaled and shifted.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (*N, *normalized_shape); real. Integers are converted to float32, and moments of half
        types are computed in float32.
    normalized_shape : int or sequence of int
        The sizes of the last axes, over which the moments are taken.
    weight : Tensor, ndarray or number, optional
        Shape normalized_shape: the scale; 1 if left out.
    bias : Tensor, ndarray or number, optional
        Shape normalized_shape: the shift; 0 if left out.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` does not end in `normalized_shape`, or `weight` or `bias` has another shape.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Ba et al., "Layer Normalization", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.layer_norm(calor.asarray([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x = floating(x, "layer_norm")
    axes = _last_axes(x, normalized_shape, "layer_norm", weight, bias)
    made = c.standardize(c.wide(x), axes=axes, eps=float(eps))[0]
    return _rounded(_affine(made, weight, bias), x)


def rms_norm(
    x: Operand,
    /,
    normalized_shape: int | Sequence[int],
    weight: Operand | None = None,
    *,
    eps: float | None = None,
) -> Tensor:
    """Return x divided by its root mean square over its last axes, scaled.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (*N, *normalized_shape); real. Integers are converted to float32, and squares of half
        types are summed in float32.
    normalized_shape : int or sequence of int
        The sizes of the last axes, over which the moments are taken.
    weight : Tensor, ndarray or number, optional
        Shape normalized_shape: the scale; 1 if left out.
    eps : float, optional
        Added to the mean square before the root; the machine epsilon of the dtype that is computed
        in if left out.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` does not end in `normalized_shape`, or `weight` has another shape.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.rms_norm(calor.asarray([[3.0, 3.0]]), 2, eps=0.0).tolist()
    [[1.0, 1.0]]
    """
    from calor.functions.data_types import finfo

    x = floating(x, "rms_norm")
    axes = _last_axes(x, normalized_shape, "rms_norm", weight, None)
    number = float(finfo(c.wide_type(x.dtype)).eps) if eps is None else float(eps)
    result: Tensor = c.like(
        _affine(c.rms_norm(c.wide(x), axes=axes, eps=number)[0], weight, None), x
    )
    return result


def group_norm(
    x: Operand,
    /,
    num_groups: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Return x with mean 0 and variance 1 over each group of channels.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S); real. Integers are converted to float32.
    num_groups : int
        Into how many groups of equal size the channels are divided.
    weight : Tensor, ndarray or number, optional
        Shape (C,): what each channel is multiplied by; 1 if left out.
    bias : Tensor, ndarray or number, optional
        Shape (C,): what is added to each channel; 0 if left out.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, C does not divide by `num_groups`, or `weight` or `bias` is
        not of shape (C,).
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Wu and He, "Group Normalization", 2018.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.group_norm(calor.asarray([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    x = floating(x, "group_norm")
    channels = _channels(x, "group_norm", weight, bias)
    if num_groups < 1 or channels % num_groups:
        raise ShapeError(
            f"group_norm: {channels} channels of shape {x.shape} do not divide into "
            f"{num_groups} groups"
        )
    # Channels have an axis in the groups, so that what follows by channel has strides there.
    shape = (x.shape[0], num_groups, channels // num_groups, math.prod(x.shape[2:]))
    if weight is not None and bias is not None and shape[2] > 1 and local.autocast is None:
        given = [reshape(as_tensor(a, x), (*shape[1:3], 1)) for a in (weight, bias)]
        if all(c.wide_type(a.dtype) is c.wide_type(x.dtype) for a in given):
            y = grouped_channels(reshape(x, shape), *given, eps=float(eps))[0]
            return reshape(y, x.shape)
    made = c.standardize(c.wide(reshape(x, shape)), axes=(2, 3), eps=float(eps))[0]
    return _rounded(_affine_channels(reshape(made, x.shape), weight, bias), x)


def instance_norm(
    x: Operand,
    /,
    weight: Operand | None = None,
    bias: Operand | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Return x with mean 0 and variance 1 over the spatial axes of each channel.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S); real. Integers are converted to float32.
    weight : Tensor, ndarray or number, optional
        Shape (C,): what each channel is multiplied by; 1 if left out.
    bias : Tensor, ndarray or number, optional
        Shape (C,): what is added to each channel; 0 if left out.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has no spatial axes, or `weight` or `bias` is not of shape (C,).
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Ulyanov et al., "Instance Normalization: The Missing Ingredient for Fast Stylization", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.instance_norm(calor.asarray([[[1.0, 3.0]]]), eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    x = floating(x, "instance_norm")
    _channels(x, "instance_norm", weight, bias)
    if x.ndim < 3:
        raise ShapeError(f"instance_norm: shape {x.shape} has no axes after batch and channels")
    made = c.standardize(c.wide(x), axes=tuple(range(2, x.ndim)), eps=float(eps))[0]
    result: Tensor = c.like(_affine_channels(made, weight, bias), x)
    return result


def batch_norm(
    x: Operand,
    /,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    *,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> BatchNorm:
    """Return x normalized by channel, and the running statistics after it.

    In training the moments are those of the batch, and the running ones move towards them; no
    gradient flows into these. Otherwise the running moments are used, and returned unchanged.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S); real. Integers are converted to float32.
    running_mean : Tensor or None
        Shape (C,). None, in training, keeps no running mean.
    running_var : Tensor or None
        Shape (C,): the unbiased variance. None, in training, keeps no running variance.
    weight : Tensor, ndarray or number, optional
        Shape (C,): what each channel is multiplied by; 1 if left out.
    bias : Tensor, ndarray or number, optional
        Shape (C,): what is added to each channel; 0 if left out.
    training : bool
        Use the moments of the batch.
    momentum : float or Tensor
        How far the running moments move towards those of the batch, in [0, 1].
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.

    Returns
    -------
    BatchNorm
        The output of the shape and dtype of `x`, and the running mean and variance.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, fewer than two values a channel in training, or `weight` or
        `bias` is not of shape (C,).
    ArgumentError
        If the running mean or variance is None outside training.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Ioffe and Szegedy, "Batch Normalization", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([[1.0], [3.0]])
    >>> y, mean, _ = functional.batch_norm(x, calor.zeros(1), calor.ones(1), training=True, eps=0.0)
    >>> y.tolist(), mean.tolist()
    ([[-1.0], [1.0]], [0.20000000298023224])
    """
    x = floating(x, "batch_norm")
    channels = _channels(x, "batch_norm", weight, bias)
    running_mean, running_var = (
        None if t is None else as_tensor(t, x) for t in (running_mean, running_var)
    )
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError(
                "batch_norm: outside training the running mean and variance are needed; "
                "pass them, or training=True to use those of the batch"
            )
        made = _normalized(x, running_mean, running_var, weight, bias, eps)
        return BatchNorm(made, running_mean, running_var)
    count = x.size // max(channels, 1)
    if count < 2:
        raise ShapeError(
            f"batch_norm: shape {x.shape} has {count} value a channel, and training needs at "
            f"least 2; use a larger batch, or training=False"
        )
    axes = (0, *range(2, x.ndim))
    made, mean, variance = c.standardize(c.wide(x), axes=axes, eps=float(eps))
    mean, variance = mean.detach(), variance.detach()
    unbiased = pair(e.mul, variance, count / (count - 1))
    return BatchNorm(
        c.like(_affine_channels(made, weight, bias), x),
        _moved(running_mean, mean, momentum),
        _moved(running_var, unbiased, momentum),
    )


@in_float32(autocast=False)
def local_response_norm(
    x: Operand, /, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Return x divided by a power of the mean square of its neighbouring channels.

    The divisor is (k + alpha · mean)^beta, where the mean goes over the squares of `size` channels
    around each one; channels beyond the ends count as 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S); real. Integers are converted to float32.
    size : int
        The number of channels, at least 1.
    alpha : float
        The factor of the mean square.
    beta : float
        The exponent.
    k : float
        The summand that keeps the divisor from 0.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    ArgumentError
        If `size` is below 1.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.local_response_norm(calor.ones((1, 1, 1)), 1, alpha=1.0, beta=1.0).tolist()
    [[[0.5]]]
    """
    x = floating(x, "local_response_norm")
    _channels(x, "local_response_norm", None, None)
    size = integer(size, "local_response_norm: size")
    if size < 1:
        raise ArgumentError(f"local_response_norm: size {size} must be at least 1")
    none = (0,) * x.ndim
    low = (0, size // 2, *none[2:])
    high = (0, (size - 1) // 2, *none[2:])
    square = pair(e.mul, x, x)
    padded = pad(square, number_like(x, 0), low=low, high=high, interior=none)
    rank = x.ndim - 1
    total = window_reduce(
        padded,
        kind="sum",
        window=(size, *(1,) * (rank - 1)),
        stride=(1,) * rank,
        padding=((0, 0),) * rank,
        dilation=(1,) * rank,
    )
    base = pair(e.add, pair(e.mul, total, alpha / size), k)
    return pair(e.div, x, pair(e.power, base, beta))


def _rounded(made: Tensor, x: Tensor) -> Tensor:
    """Return a result in the dtype of x; inside autocast float32 stays."""
    if local.autocast is not None and made.dtype is float32:
        return made
    result: Tensor = c.like(made, x)
    return result


for _function in (layer_norm, group_norm):
    FUNCTIONS[f"{__name__}.{_function.__name__}"] = "float32"


def _moved(running: Tensor | None, batch: Tensor, momentum: float | Tensor) -> Tensor | None:
    if running is None:
        return None
    kept = pair(e.mul, c.wide(running.detach()), 1 - momentum)
    moved: Tensor = c.like(pair(e.add, kept, pair(e.mul, batch, momentum)), running)
    return moved


def _normalized(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Any, bias: Any, eps: float
) -> Tensor:
    """Return x · scale + shift, two vectors that follow from the given moments."""
    mean, variance = c.wide(mean), c.wide(variance)
    scale = pair(e.div, 1.0, single(e.sqrt, pair(e.add, variance, eps)))
    if weight is not None:
        scale = pair(e.mul, scale, weight)
    shift = single(e.neg, pair(e.mul, mean, scale))
    if bias is not None:
        shift = pair(e.add, shift, bias)
    shape = (-1,) + (1,) * (x.ndim - 2)
    wide = c.wide(x)
    made = pair(e.add, pair(e.mul, wide, reshape(scale, shape)), reshape(shift, shape))
    result: Tensor = c.like(made, x)
    return result


def _affine(x: Tensor, weight: Any, bias: Any) -> Tensor:
    if weight is not None:
        x = pair(e.mul, x, weight)
    return x if bias is None else pair(e.add, x, bias)


def _affine_channels(x: Tensor, weight: Any, bias: Any) -> Tensor:
    shape = (-1,) + (1,) * (x.ndim - 2)
    return _affine(
        x,
        None if weight is None else reshape(as_tensor(weight, x), shape),
        None if bias is None else reshape(as_tensor(bias, x), shape),
    )


def _last_axes(x: Tensor, shape: Any, what: str, weight: Any, bias: Any) -> tuple[int, ...]:
    wanted = sizes_of(tuple(shape) if isinstance(shape, Sequence) else shape, what)
    if not wanted or x.shape[max(x.ndim - len(wanted), 0) :] != wanted:
        raise ShapeError(f"{what}: shape {x.shape} does not end in the normalized shape {wanted}")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and as_tensor(given).shape != wanted:
            raise ShapeError(
                f"{what}: {name} of shape {as_tensor(given).shape} must have the normalized "
                f"shape {wanted}"
            )
    return tuple(range(x.ndim - len(wanted), x.ndim))


def _channels(x: Tensor, what: str, weight: Any, bias: Any) -> int:
    if x.ndim < 2:
        raise ShapeError(f"{what}: shape {x.shape} must be (N, C, *S), batch and channels first")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and as_tensor(given).shape != (x.shape[1],):
            raise ShapeError(
                f"{what}: {name} of shape {as_tensor(given).shape} does not fit the "
                f"{x.shape[1]} channels of shape {x.shape}"
            )
    return x.shape[1]
