"""Activations as layers; each calls the function of its name in ``functional``."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import calor
from calor import Tensor
from calor_nn import functional
from calor_nn.module import Module, Parameter


class _Plain(Module):
    """An activation without arguments."""

    function: ClassVar[str]

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.
        """
        made: Tensor = getattr(functional, self.function)(x)
        return made


class ReLU(_Plain):
    """The rectified linear unit: x where it is positive, else 0.

    References
    ----------
    Nair and Hinton, "Rectified Linear Units Improve Restricted Boltzmann Machines", 2010.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.ReLU()(calor.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    function = "relu"


class ReLU6(_Plain):
    """The rectified linear unit clamped to [0, 6]; see :func:`functional.relu6`.

    References
    ----------
    Krizhevsky, "Convolutional Deep Belief Networks on CIFAR-10", 2010.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.ReLU6()(calor.asarray([-1.0, 2.0, 9.0])).tolist()
    [0.0, 2.0, 6.0]
    """

    function = "relu6"


class SELU(_Plain):
    """The scaled exponential linear unit; see :func:`functional.selu`.

    References
    ----------
    Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.SELU()(calor.zeros(2)).tolist()
    [0.0, 0.0]
    """

    function = "selu"


class SiLU(_Plain):
    """The sigmoid linear unit x · sigmoid(x), also called swish; see :func:`calor.silu`.

    References
    ----------
    Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> round(nn.SiLU()(calor.asarray(1.0)).item(), 4)
    0.7311
    """

    function = "silu"


class Mish(_Plain):
    """The function x · tanh(softplus(x)); see :func:`functional.mish`.

    References
    ----------
    Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> round(nn.Mish()(calor.asarray(1.0)).item(), 4)
    0.8651
    """

    function = "mish"


class Sigmoid(_Plain):
    """The logistic function 1 / (1 + exp(−x)); see :func:`calor.sigmoid`.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Sigmoid()(calor.zeros(1)).tolist()
    [0.5]
    """

    function = "sigmoid"


class LogSigmoid(_Plain):
    """The logarithm of the logistic function; see :func:`functional.log_sigmoid`.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.LogSigmoid()(calor.asarray(-1000.0)).item()
    -1000.0
    """

    function = "log_sigmoid"


class Tanh(_Plain):
    """The hyperbolic tangent; see :func:`calor.tanh`.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Tanh()(calor.zeros(2)).tolist()
    [0.0, 0.0]
    """

    function = "tanh"


class Softsign(_Plain):
    """The function x / (1 + |x|); see :func:`functional.softsign`.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Softsign()(calor.asarray([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """

    function = "softsign"


class Hardsigmoid(_Plain):
    """The function (x + 3) / 6 clamped to [0, 1]; see :func:`functional.hard_sigmoid`.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Hardsigmoid()(calor.asarray([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """

    function = "hard_sigmoid"


class Hardswish(_Plain):
    """The function x · hard_sigmoid(x); see :func:`functional.hard_swish`.

    References
    ----------
    Howard et al., "Searching for MobileNetV3", 2019.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Hardswish()(calor.asarray([1.5, 4.0])).tolist()
    [1.125, 4.0]
    """

    function = "hard_swish"


class LeakyReLU(Module):
    """The rectified linear unit with a slope for negative numbers; see :func:`calor.leaky_relu`.

    Parameters
    ----------
    negative_slope : float
        What negative numbers are multiplied by.

    References
    ----------
    Maas et al., "Rectifier Nonlinearities Improve Neural Network Acoustic Models", 2013.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.LeakyReLU(0.5)(calor.asarray([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        DTypeError
            If `x` is complex or float8.
        """
        return calor.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        """Return the slope."""
        return f"negative_slope={self.negative_slope}"


class PReLU(Module):
    """The rectified linear unit with a learned slope for negative numbers.

    See :func:`functional.prelu`. The slopes are the parameter `weight` (num_parameters,).

    Parameters
    ----------
    num_parameters : int
        1 for one slope, or the number of channels C.
    init : float
        What the slopes begin at.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    References
    ----------
    He et al., "Delving Deep into Rectifiers", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.PReLU()(calor.asarray([-2.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        known = calor.float32 if dtype is None else dtype
        self.weight = Parameter(calor.full((num_parameters,), init, dtype=known, device=device))

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S) or (L,); real.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ShapeError
            If there are several slopes, and not one for each channel.
        DTypeError
            If `x` is complex or float8.
        """
        return functional.prelu(x, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes."""
        return f"num_parameters={self.weight.size}"


class ELU(Module):
    """The exponential linear unit; see :func:`calor.elu`.

    It is x where x is positive, and alpha · (exp(x) − 1) elsewhere.

    Parameters
    ----------
    alpha : float
        Scale of the negative part, which tends to −alpha.

    References
    ----------
    Clevert et al., "Fast and Accurate Deep Network Learning by Exponential Linear Units", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.ELU()(calor.asarray([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        DTypeError
            If `x` is complex or float8.
        """
        return calor.elu(x, self.alpha)

    def extra_repr(self) -> str:
        """Return alpha."""
        return f"alpha={self.alpha}"


class CELU(ELU):
    """The continuously differentiable exponential linear unit; see :func:`functional.celu`.

    It is x where x is positive, and alpha · (exp(x / alpha) − 1) elsewhere.

    Parameters
    ----------
    alpha : float
        Scale of the negative part, which tends to −alpha; not 0.

    References
    ----------
    Barron, "Continuously Differentiable Exponential Linear Units", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.CELU(2.0)(calor.asarray([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ArgumentError
            If `alpha` is 0.
        DTypeError
            If `x` is complex or float8.
        """
        return functional.celu(x, self.alpha)


class GELU(Module):
    """The Gaussian error linear unit x · Φ(x); see :func:`calor.gelu`.

    Parameters
    ----------
    approximate : {"none", "tanh"}
        Φ is the normal distribution function, or its approximation by tanh.

    References
    ----------
    Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.GELU("tanh")(calor.zeros(1)).tolist()
    [0.0]
    """

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ArgumentError
            If `approximate` is neither "none" nor "tanh".
        DTypeError
            If `x` is complex or float8.
        """
        return calor.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation."""
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """The function log(1 + exp(beta · x)) / beta; see :func:`calor.softplus`.

    Parameters
    ----------
    beta : float
        How sharp the bend at 0 is, in the inverse unit of x; not 0.

    References
    ----------
    Dugas et al., "Incorporating Second-Order Functional Knowledge for Better Option Pricing", 2000.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> round(nn.Softplus()(calor.asarray(0.0)).item(), 4)
    0.6931
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        DTypeError
            If `x` is complex or float8.
        """
        return calor.softplus(x, self.beta)

    def extra_repr(self) -> str:
        """Return beta."""
        return f"beta={self.beta}"


class Hardtanh(Module):
    """The identity clamped to an interval; see :func:`functional.hard_tanh`.

    Parameters
    ----------
    min_val : float
        The lower bound.
    max_val : float
        The upper bound.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Hardtanh()(calor.asarray([-3.0, 0.5, 3.0])).tolist()
    [-1.0, 0.5, 1.0]
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of each element.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.
        """
        return functional.hard_tanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """Return the bounds."""
        return f"{self.min_val}, {self.max_val}"
