"""Affine layers, and layers that only reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import calor
from calor import Tensor
from calor_nn import functional, init
from calor_nn.module import Module, Parameter


class Linear(Module):
    """y = x · weightᵀ + bias over the last axis of x.

    ``weight`` is (out_features, in_features), ``bias`` (out_features,); both uniform within
    ±1 / √in_features.

    >>> import calor
    >>> from calor import nn
    >>> nn.Linear(3, 2)(calor.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        options = {"dtype": dtype, "device": device}
        shape = (out_features, in_features)
        self.weight = Parameter(init.kaiming_uniform(shape, math.sqrt(5.0), **options))
        self.bias = None
        if bias:
            bound = 1 / math.sqrt(max(in_features, 1))
            self.bias = Parameter(init.uniform((out_features,), -bound, bound, **options))

    def forward(self, x: Tensor) -> Tensor:
        """Return (*N, out_features) for x (*N, in_features)."""
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """y[o] = x1 · weight[o] · x2 + bias[o] over the last axes of two inputs.

    >>> import calor
    >>> from calor import nn
    >>> nn.Bilinear(2, 3, 4)(calor.ones((5, 2)), calor.ones((5, 3))).shape
    (5, 4)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        bound = 1 / math.sqrt(max(in1_features, 1))
        options = {"dtype": dtype, "device": device}
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(init.uniform(shape, -bound, bound, **options))
        self.bias = None
        if bias:
            self.bias = Parameter(init.uniform((out_features,), -bound, bound, **options))

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return (*N, out) for x1 (*N, in1) and x2 (*N, in2)."""
        return functional.bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        out, first, second = self.weight.shape
        return f"{first}, {second}, {out}, bias={self.bias is not None}"


class Identity(Module):
    """Returns its input."""

    def forward(self, x: Any) -> Any:
        """Return x."""
        return x


class Flatten(Module):
    """Makes the axes from ``start_axis`` to ``end_axis`` one; by default all but the batch.

    >>> import calor
    >>> from calor import nn
    >>> nn.Flatten()(calor.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis = start_axis
        self.end_axis = end_axis

    def forward(self, x: Tensor) -> Tensor:
        """Return x with fewer axes."""
        return calor.flatten(x, start_axis=self.start_axis, end_axis=self.end_axis)

    def extra_repr(self) -> str:
        """Return the axes."""
        return f"start_axis={self.start_axis}, end_axis={self.end_axis}"


class Unflatten(Module):
    """Makes one axis several of the given sizes, one of which may be −1.

    >>> import calor
    >>> from calor import nn
    >>> nn.Unflatten(1, (3, -1))(calor.ones((2, 12))).shape
    (2, 3, 4)
    """

    def __init__(self, axis: int, sizes: Sequence[int]) -> None:
        self.axis = axis
        self.sizes = tuple(sizes)

    def forward(self, x: Tensor) -> Tensor:
        """Return x with more axes."""
        axis = self.axis % x.ndim
        sizes = list(self.sizes)
        if -1 in sizes:
            known = math.prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = x.shape[axis] // max(known, 1)
        return calor.reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))

    def extra_repr(self) -> str:
        """Return the axis and its sizes."""
        return f"axis={self.axis}, sizes={self.sizes}"
