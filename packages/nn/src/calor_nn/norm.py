"""Normalization over features and groups of channels as layers, by PyTorch's names and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import Tensor
from calor.errors import ArgumentError
from calor_nn import functional
from calor_nn.module import Module, Parameter


def ones(shape: tuple[int, ...], dtype: Any, device: Any) -> Tensor:
    """Return a parameter of ones: what a scale begins as."""
    return Parameter(calor.ones(shape, dtype=dtype, device=device))


def zeros(shape: tuple[int, ...], dtype: Any, device: Any) -> Tensor:
    """Return a parameter of zeros: what a shift begins as."""
    return Parameter(calor.zeros(shape, dtype=dtype, device=device))


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, then a learned scale and shift.

    `weight` and `bias` have the normalized shape; they begin as ones and zeros. See
    :func:`functional.layer_norm`.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of the last axes, over which the moments are taken.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.
    elementwise_affine : bool
        Whether there are a scale and a shift.
    bias : bool
        Whether there is a shift, beside the scale.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    References
    ----------
    Ba et al., "Layer Normalization", 2016.

    Examples
    --------
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
            self.weight = ones(self.normalized_shape, dtype, device)
            if bias:
                self.bias = zeros(self.normalized_shape, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        """Return x normalized.

        Parameters
        ----------
        x : Tensor
            Shape (*N, *normalized_shape); a real dtype.

        Returns
        -------
        Tensor
            The shape and dtype of `x`.

        Raises
        ------
        ShapeError
            If `x` does not end in the normalized shape.
        DTypeError
            If `x` is complex or float8.
        """
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        """Return the shape and eps."""
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """Root mean square 1 over the last axes, then a learned scale.

    `weight` has the normalized shape and begins as ones. See :func:`functional.rms_norm`.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of the last axes, over which the moments are taken.
    eps : float, optional
        Added to the mean square before the root; the machine epsilon of the dtype that is computed
        in if left out.
    elementwise_affine : bool
        Whether there is a scale.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    References
    ----------
    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    Examples
    --------
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
            self.weight = ones(self.normalized_shape, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        """Return x normalized.

        Parameters
        ----------
        x : Tensor
            Shape (*N, *normalized_shape); a real dtype.

        Returns
        -------
        Tensor
            The shape and dtype of `x`.

        Raises
        ------
        ShapeError
            If `x` does not end in the normalized shape.
        DTypeError
            If `x` is complex or float8.
        """
        return functional.rms_norm(x, self.normalized_shape, self.weight, eps=self.eps)

    def extra_repr(self) -> str:
        """Return the shape and eps."""
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Mean 0 and variance 1 over each group of channels, then a learned scale and shift.

    `weight` and `bias` are (num_channels,); they begin as ones and zeros. See
    :func:`functional.group_norm`.

    Parameters
    ----------
    num_groups : int
        Into how many groups of equal size the channels are divided.
    num_channels : int
        The channels C of the input.
    eps : float
        Added to the variance before the square root, so that constant inputs stay finite.
    affine : bool
        Whether there are a scale and a shift.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If the channels do not divide into the groups.

    References
    ----------
    Wu and He, "Group Normalization", 2018.

    Examples
    --------
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
        self.weight = ones((num_channels,), dtype, device) if affine else None
        self.bias = zeros((num_channels,), dtype, device) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        """Return x normalized.

        Parameters
        ----------
        x : Tensor
            Shape (N, num_channels, *S); a real dtype.

        Returns
        -------
        Tensor
            The shape and dtype of `x`.

        Raises
        ------
        ShapeError
            If the channels of `x` do not fit.
        DTypeError
            If `x` is complex or float8.
        """
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        """Return groups, channels and eps."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
