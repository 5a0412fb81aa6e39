"""Affine layers, and layers that only reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import calor
from calor import Tensor
from calor.functions.arguments import one_axis
from calor_nn import functional
from calor_nn.init import Init, drawn, kaiming_uniform, uniform
from calor_nn.module import Module, Parameter


class Linear(Module):
    """An affine map x · weightᵀ + bias over the last axis.

    `weight` is (out_features, in_features) and `bias` (out_features,), both drawn uniformly from ±1
    / √in_features.

    Parameters
    ----------
    in_features : int
        The size of the last axis of the input.
    out_features : int
        The size of the last axis of the output.
    bias : bool
        Whether there is a bias.
    init : str or callable, optional
        How the weight is drawn: a name of `nn.init` such as "xavier_normal", or a function of a
        shape, `dtype` and `device`; as above if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Examples
    --------
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
        init: Init = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        options = {"dtype": dtype, "device": device}
        shape = (out_features, in_features)
        default = partial(kaiming_uniform, slope=math.sqrt(5.0))
        self.weight = Parameter(drawn(init, default, shape, **options))
        self.bias = None
        if bias:
            bound = 1 / math.sqrt(max(in_features, 1))
            self.bias = Parameter(uniform((out_features,), -bound, bound, **options))

    def forward(self, x: Tensor) -> Tensor:
        """Return x · weightᵀ + bias.

        Parameters
        ----------
        x : Tensor
            Shape (*N, in_features).

        Returns
        -------
        Tensor
            Shape (*N, out_features).

        Raises
        ------
        ShapeError
            If the last axis of `x` does not have `in_features` elements.
        """
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """A bilinear map x1 · weight[o] · x2 + bias[o] over the last axes of two inputs.

    `weight` is (out_features, in1_features, in2_features) and `bias` (out_features,), both drawn
    uniformly from ±1 / √in1_features.

    Parameters
    ----------
    in1_features : int
        The size of the last axis of the first input.
    in2_features : int
        The size of the last axis of the second input.
    out_features : int
        The size of the last axis of the output.
    bias : bool
        Whether there is a bias.
    init : str or callable, optional
        How the weight is drawn: a name of `nn.init` such as "xavier_normal", or a function of a
        shape, `dtype` and `device`; as above if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Examples
    --------
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
        init: Init = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        bound = 1 / math.sqrt(max(in1_features, 1))
        options = {"dtype": dtype, "device": device}
        shape = (out_features, in1_features, in2_features)
        default = partial(uniform, low=-bound, high=bound)
        self.weight = Parameter(drawn(init, default, shape, **options))
        self.bias = None
        if bias:
            self.bias = Parameter(uniform((out_features,), -bound, bound, **options))

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return x1 · weight[o] · x2 + bias[o].

        Parameters
        ----------
        x1 : Tensor
            Shape (*N, in1_features).
        x2 : Tensor
            Shape (*N, in2_features).

        Returns
        -------
        Tensor
            Shape (*N, out_features).

        Raises
        ------
        ShapeError
            If the inputs do not fit each other or the weight.
        """
        return functional.bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        out, first, second = self.weight.shape
        return f"{first}, {second}, {out}, bias={self.bias is not None}"


class Identity(Module):
    """A layer that returns its input.

    Parameters
    ----------
    *args, **kwargs : Any
        Whatever the layer takes in whose place it is; ignored.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Identity()(calor.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, x: Any) -> Any:
        """Return x.

        Parameters
        ----------
        x : Any
            Anything.

        Returns
        -------
        Any
            `x` itself.
        """
        return x


class Flatten(Module):
    """A layer that merges neighbouring axes into one.

    Parameters
    ----------
    start_axis : int
        The first of these axes; 1 keeps the batch.
    end_axis : int
        The last of these axes; negative numbers count from the end.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Flatten()(calor.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis = start_axis
        self.end_axis = end_axis

    def forward(self, x: Tensor) -> Tensor:
        """Return x with the axes merged.

        Parameters
        ----------
        x : Tensor
            Any shape with these axes.

        Returns
        -------
        Tensor
            The elements of `x` in their order, with fewer axes.

        Raises
        ------
        AxisError
            If `x` does not have one of the axes.
        ShapeError
            If the first axis comes after the last.
        """
        return calor.flatten(x, start_axis=self.start_axis, end_axis=self.end_axis)

    def extra_repr(self) -> str:
        """Return the axes."""
        return f"start_axis={self.start_axis}, end_axis={self.end_axis}"


class Unflatten(Module):
    """A layer that splits one axis into several.

    Parameters
    ----------
    axis : int
        The axis to split; negative numbers count from the end.
    sizes : sequence of int
        The sizes of the new axes. One of them may be −1, and follows from the others.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Unflatten(1, (3, -1))(calor.ones((2, 12))).shape
    (2, 3, 4)
    """

    def __init__(self, axis: int, sizes: Sequence[int]) -> None:
        self.axis = axis
        self.sizes = tuple(sizes)

    def forward(self, x: Tensor) -> Tensor:
        """Return x with the axis split.

        Parameters
        ----------
        x : Tensor
            Any shape with this axis.

        Returns
        -------
        Tensor
            The elements of `x` in their order, with more axes.

        Raises
        ------
        AxisError
            If `x` has no such axis.
        ShapeError
            If the sizes do not multiply to that of the axis.
        """
        axis = one_axis(self.axis, x.shape, "Unflatten")
        sizes = list(self.sizes)
        if -1 in sizes:
            known = math.prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = x.shape[axis] // max(known, 1)
        return calor.reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))

    def extra_repr(self) -> str:
        """Return the axis and its sizes."""
        return f"axis={self.axis}, sizes={self.sizes}"
