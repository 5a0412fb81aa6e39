"""Methods that neural networks are written with; each calls the function of its name."""

from __future__ import annotations

from typing import Literal

from calor.functions import activation as functions
from calor.tensor.tensor import Tensor, with_methods


@with_methods
class NeuralMethods(Tensor):
    """Activations and what turns scores into probabilities."""

    __slots__ = ()

    def relu(self) -> Tensor:
        """Return the elements where they are positive and 0 elsewhere; see `calor.relu`.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return functions.relu(self)

    def leaky_relu(self, negative_slope: float = 0.01) -> Tensor:
        """Return the elements, negative ones multiplied by a slope; see `calor.leaky_relu`.

        Parameters
        ----------
        negative_slope : float, optional
            The factor of negative elements. By default 0.01.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating dtype.
        """
        return functions.leaky_relu(self, negative_slope)

    def elu(self, alpha: float = 1.0) -> Tensor:
        """Return the elements, ``alpha * (exp(x) - 1)`` for negative ones; see `calor.elu`.

        Parameters
        ----------
        alpha : float, optional
            The negative of the limit for x → −∞. By default 1.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating dtype.
        """
        return functions.elu(self, alpha)

    def sigmoid(self) -> Tensor:
        """Return ``1 / (1 + exp(-x))``, without overflow; see `calor.sigmoid`.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating dtype.
        """
        return functions.sigmoid(self)

    def silu(self) -> Tensor:
        """Return ``x * sigmoid(x)``; see `calor.silu`.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating dtype.
        """
        return functions.silu(self)

    def gelu(self, approximate: Literal["none", "tanh"] = "none") -> Tensor:
        """Return ``x`` times the standard normal distribution function; see `calor.gelu`.

        Parameters
        ----------
        approximate : {"none", "tanh"}, optional
            "tanh" approximates the error function. By default "none".

        Returns
        -------
        Tensor
            The shape of the tensor, a floating dtype.

        Raises
        ------
        ArgumentError
            If ``approximate`` is another name.
        """
        return functions.gelu(self, approximate)

    def softplus(self, beta: float = 1.0) -> Tensor:
        """Return ``log(1 + exp(beta * x)) / beta``, without overflow; see `calor.softplus`.

        Parameters
        ----------
        beta : float, optional
            The sharpness. By default 1.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating dtype.
        """
        return functions.softplus(self, beta)

    def softmax(self, axis: int = -1) -> Tensor:
        """Return ``exp(x)`` divided by its sum along an axis; see `calor.softmax`.

        Parameters
        ----------
        axis : int, optional
            The axis along which the results add up to 1. By default the last.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating dtype.

        Raises
        ------
        AxisError
            If ``axis`` does not fit the shape.
        """
        return functions.softmax(self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Tensor:
        """Return the logarithm of `softmax`, without overflow; see `calor.log_softmax`.

        Parameters
        ----------
        axis : int, optional
            The axis of the softmax. By default the last.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating dtype.

        Raises
        ------
        AxisError
            If ``axis`` does not fit the shape.
        """
        return functions.log_softmax(self, axis=axis)
