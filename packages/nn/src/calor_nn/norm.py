"""Normalization layers, by PyTorch's names and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import calor
from calor import Tensor
from calor.errors import ArgumentError, ShapeError
from calor_nn import functional
from calor_nn.module import Module, Parameter


def _ones(shape: tuple[int, ...], dtype: Any, device: Any) -> Tensor:
    return Parameter(calor.ones(shape, dtype=dtype, device=device))


def _zeros(shape: tuple[int, ...], dtype: Any, device: Any) -> Tensor:
    return Parameter(calor.zeros(shape, dtype=dtype, device=device))


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, then scale and shift.

    See :func:`functional.layer_norm`.

    >>> import calor
    >>> from calor import nn
    >>> nn.LayerNorm(4)(calor.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        shape = normalized_shape
        self.normalized_shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        self.weight = self.bias = None
        if elementwise_affine:
            self.weight = _ones(self.normalized_shape, dtype, device)
            if bias:
                self.bias = _zeros(self.normalized_shape, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        """Return the shape and eps."""
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """Root mean square 1 over the last axes, then scale; see :func:`functional.rms_norm`.

    >>> import calor
    >>> from calor import nn
    >>> nn.RMSNorm(4)(calor.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        shape = normalized_shape
        self.normalized_shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        self.weight = None
        if elementwise_affine:
            self.weight = _ones(self.normalized_shape, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, eps=self.eps)

    def extra_repr(self) -> str:
        """Return the shape and eps."""
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Mean 0 and variance 1 over each group of channels; see :func:`functional.group_norm`.

    >>> import calor
    >>> from calor import nn
    >>> nn.GroupNorm(2, 4)(calor.ones((1, 4, 3))).shape
    (1, 4, 3)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = _ones((num_channels,), dtype, device) if affine else None
        self.bias = _zeros((num_channels,), dtype, device) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x (N, C, *S)."""
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        """Return groups, channels and eps."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


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
        self.weight = _ones((features,), dtype, device) if affine else None
        self.bias = _zeros((features,), dtype, device) if affine else None
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
        """Return a tensor of the shape of x (N, C, *S); in training the statistics move."""
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
    """Mean 0 and variance 1 by channel of (N, C) or (N, C, L); see :func:`functional.batch_norm`.

    In training by the moments of the batch, towards which the running ones move by ``momentum``
    (None: to the average of all batches); in evaluation by the running ones.

    >>> import calor
    >>> from calor import nn
    >>> layer = nn.BatchNorm1d(2).eval()
    >>> layer(calor.ones((3, 2))).shape
    (3, 2)
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Mean 0 and variance 1 by channel of (N, C, H, W); see :class:`BatchNorm1d`.

    >>> import calor
    >>> from calor import nn
    >>> nn.BatchNorm2d(2)(calor.ones((1, 2, 3, 3))).shape
    (1, 2, 3, 3)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Mean 0 and variance 1 by channel of (N, C, D, H, W); see :class:`BatchNorm1d`.

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
        """Return a tensor of the shape of x (N, C, *S); the batch may be left out."""
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
    """Mean 0 and variance 1 over L of each channel; see :func:`functional.instance_norm`.

    >>> import calor
    >>> from calor import nn
    >>> nn.InstanceNorm1d(2)(calor.ones((1, 2, 3))).shape
    (1, 2, 3)
    """

    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Mean 0 and variance 1 over H and W of each channel; see :func:`functional.instance_norm`.

    >>> import calor
    >>> from calor import nn
    >>> nn.InstanceNorm2d(2)(calor.ones((1, 2, 3, 3))).shape
    (1, 2, 3, 3)
    """

    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Mean 0 and variance 1 over D, H and W of each channel; see :func:`functional.instance_norm`.

    >>> import calor
    >>> from calor import nn
    >>> nn.InstanceNorm3d(2)(calor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 3, 3, 3)
    """

    ranks = (5,)
