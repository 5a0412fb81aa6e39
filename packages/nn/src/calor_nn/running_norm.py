"""Batch and instance normalization as layers, by PyTorch's names and shapes.

Requirements: running moments are buffers that change in place, so jitted training keeps them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import calor
from calor import Tensor
from calor.errors import ShapeError
from calor_nn import functional
from calor_nn.module import Module
from calor_nn.norm import ones, zeros


class _RunningNorm(Module):
    """Parameters, running statistics and checks of batch and instance norms."""

    ranks: ClassVar[tuple[int, ...]]
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def _build(
        self,
        features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        dtype: Any,
        device: Any,
    ) -> None:
        self.num_features = features
        self.eps = eps
        self.momentum = momentum
        self.weight = ones((features,), dtype, device) if affine else None
        self.bias = zeros((features,), dtype, device) if affine else None
        self.running_mean = self.running_var = self.num_batches_tracked = None
        if track_running_stats:
            options = {"dtype": dtype, "device": device}
            self.register_buffer("running_mean", calor.zeros((features,), **options))
            self.register_buffer("running_var", calor.ones((features,), **options))
            count = calor.zeros((), dtype=calor.int64, device=device)
            self.register_buffer("num_batches_tracked", count)

    def _momentum(self) -> Any:
        """Return how far the running statistics move: a number, or 1 / batches for an average."""
        if self.momentum is not None or self.num_batches_tracked is None:
            return self.momentum or 0.0
        return 1.0 / calor.astype(self.num_batches_tracked + 1, calor.float32)

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        held = (self.running_mean, self.running_var, self.num_batches_tracked)
        if held[0] is not None and held[1] is not None and held[2] is not None:
            with calor.no_grad():
                held[0][...] = mean
                held[1][...] = variance
                held[2][...] = held[2] + 1

    def extra_repr(self) -> str:
        """Return the features, eps and momentum."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class _BatchNorm(_RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self._build(num_features, eps, momentum, affine, track_running_stats, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        """Return x normalized by channel; in training the running moments move.

        Parameters
        ----------
        x : Tensor
            Shape (N, num_features, *S); a real dtype.

        Returns
        -------
        Tensor
            The shape and dtype of `x`.

        Raises
        ------
        ShapeError
            If `x` has another number of axes or channels, or fewer than two values a channel in
            training.
        ArgumentError
            If one of the running moments was removed.
        DTypeError
            If `x` is complex or float8.
        """
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            wanted = " or ".join(f"{r} axes" for r in self.ranks)
            raise ShapeError(
                f"{type(self).__name__} takes (N, {self.num_features}, *S) of {wanted}, not "
                f"{x.shape}"
            )
        learns = self.training or self.running_mean is None
        made = functional.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=learns,
            momentum=self._momentum() if learns else 0.0,
            eps=self.eps,
        )
        if self.training and made.running_mean is not None and made.running_var is not None:
            self._track(made.running_mean, made.running_var)
        return made.output


class BatchNorm1d(_BatchNorm):
    """Mean 0 and variance 1 by channel of (N, C) or (N, C, L), then a learned scale and shift.

    In training it uses the moments of the batch, and the buffers `running_mean` and `running_var`
    (num_features,) move towards them. In evaluation it uses the buffers. See
    :func:`functional.batch_norm`.

    Parameters
    ----------
    num_features : int
        The channels C of the input.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.
    momentum : float or None
        How far the running moments move towards those of a batch, in [0, 1]; None averages all
        batches.
    affine : bool
        Whether there are a scale and a shift, (num_features,).
    track_running_stats : bool
        Keep running moments; without them evaluation uses those of the batch too.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    References
    ----------
    Ioffe and Szegedy, "Batch Normalization", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> layer = nn.BatchNorm1d(2).eval()
    >>> layer(calor.ones((3, 2))).shape
    (3, 2)
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Mean 0 and variance 1 by channel of (N, C, H, W), then a learned scale and shift.

    In training it uses the moments of the batch, and the buffers `running_mean` and `running_var`
    (num_features,) move towards them. In evaluation it uses the buffers. See
    :func:`functional.batch_norm`.

    Parameters
    ----------
    num_features : int
        The channels C of the input.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.
    momentum : float or None
        How far the running moments move towards those of a batch, in [0, 1]; None averages all
        batches.
    affine : bool
        Whether there are a scale and a shift, (num_features,).
    track_running_stats : bool
        Keep running moments; without them evaluation uses those of the batch too.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    References
    ----------
    Ioffe and Szegedy, "Batch Normalization", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.BatchNorm2d(2)(calor.ones((1, 2, 3, 3))).shape
    (1, 2, 3, 3)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Mean 0 and variance 1 by channel of (N, C, D, H, W), then a learned scale and shift.

    In training it uses the moments of the batch, and the buffers `running_mean` and `running_var`
    (num_features,) move towards them. In evaluation it uses the buffers. See
    :func:`functional.batch_norm`.

    Parameters
    ----------
    num_features : int
        The channels C of the input.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.
    momentum : float or None
        How far the running moments move towards those of a batch, in [0, 1]; None averages all
        batches.
    affine : bool
        Whether there are a scale and a shift, (num_features,).
    track_running_stats : bool
        Keep running moments; without them evaluation uses those of the batch too.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    References
    ----------
    Ioffe and Szegedy, "Batch Normalization", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.BatchNorm3d(2)(calor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 3, 3, 3)
    """

    ranks = (5,)


class _InstanceNorm(_RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self._build(num_features, eps, momentum, affine, track_running_stats, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        """Return x with every channel of every sample normalized.

        Parameters
        ----------
        x : Tensor
            Shape (N, num_features, *S), or without N; a real dtype.

        Returns
        -------
        Tensor
            The shape and dtype of `x`.

        Raises
        ------
        ShapeError
            If `x` has another number of axes or channels.
        ArgumentError
            If one of the running moments was removed.
        DTypeError
            If `x` is complex or float8.
        """
        (rank,) = self.ranks
        if x.ndim not in (rank, rank - 1) or x.shape[1 - rank] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__} takes (N, {self.num_features}, *S) of {rank} axes, or the "
                f"same without N, not {x.shape}"
            )
        whole = x if x.ndim == rank else calor.expand_dims(x, 0)
        if self.running_mean is not None and not self.training:
            made = functional.batch_norm(
                whole, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            ).output
        else:
            self._learn(whole)
            made = functional.instance_norm(whole, self.weight, self.bias, eps=self.eps)
        return made if x.ndim == rank else calor.squeeze(made, axis=0)

    def _learn(self, x: Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        axes = tuple(range(2, x.ndim))
        rate: Any = self._momentum()
        with calor.no_grad():
            mean = calor.mean(calor.mean(x, axis=axes), axis=0)
            variance = calor.mean(calor.var(x, axis=axes, correction=1.0), axis=0)
            self._track(
                self.running_mean * (1 - rate) + mean * rate,
                self.running_var * (1 - rate) + variance * rate,
            )


class InstanceNorm1d(_InstanceNorm):
    """Mean 0 and variance 1 over L of each channel and sample.

    See :func:`functional.instance_norm`.

    Parameters
    ----------
    num_features : int
        The channels C of the input.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.
    momentum : float or None
        How far the running moments move towards those of a batch, in [0, 1]; None averages all
        batches.
    affine : bool
        Whether there are a learned scale and shift, (num_features,).
    track_running_stats : bool
        Keep running moments, which evaluation then uses.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    References
    ----------
    Ulyanov et al., "Instance Normalization: The Missing Ingredient for Fast Stylization", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.InstanceNorm1d(2)(calor.ones((1, 2, 3))).shape
    (1, 2, 3)
    """

    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Mean 0 and variance 1 over H, W of each channel and sample.

    See :func:`functional.instance_norm`.

    Parameters
    ----------
    num_features : int
        The channels C of the input.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.
    momentum : float or None
        How far the running moments move towards those of a batch, in [0, 1]; None averages all
        batches.
    affine : bool
        Whether there are a learned scale and shift, (num_features,).
    track_running_stats : bool
        Keep running moments, which evaluation then uses.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    References
    ----------
    Ulyanov et al., "Instance Normalization: The Missing Ingredient for Fast Stylization", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.InstanceNorm2d(2)(calor.ones((1, 2, 3, 3))).shape
    (1, 2, 3, 3)
    """

    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Mean 0 and variance 1 over D, H, W of each channel and sample.

    See :func:`functional.instance_norm`.

    Parameters
    ----------
    num_features : int
        The channels C of the input.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.
    momentum : float or None
        How far the running moments move towards those of a batch, in [0, 1]; None averages all
        batches.
    affine : bool
        Whether there are a learned scale and shift, (num_features,).
    track_running_stats : bool
        Keep running moments, which evaluation then uses.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    References
    ----------
    Ulyanov et al., "Instance Normalization: The Missing Ingredient for Fast Stylization", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.InstanceNorm3d(2)(calor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 3, 3, 3)
    """

    ranks = (5,)
