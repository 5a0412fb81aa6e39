"""Methods that neural networks are written with; each calls the function of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from calor.functions import activation as functions
from calor.graph.trace import Handle

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


class NeuralMethods(Handle):
    """Activations and what turns scores into probabilities."""

    __slots__ = ()

    def relu(self) -> Tensor:
        """The elements, and 0 for negative ones."""
        return functions.relu(self)

    def leaky_relu(self, negative_slope: float = 0.01) -> Tensor:
        """The elements, and ``negative_slope`` times the negative ones."""
        return functions.leaky_relu(self, negative_slope)

    def elu(self, alpha: float = 1.0) -> Tensor:
        """The elements, and ``alpha * (exp(x) - 1)`` for negative ones."""
        return functions.elu(self, alpha)

    def sigmoid(self) -> Tensor:
        """``1 / (1 + exp(-x))``, without overflow."""
        return functions.sigmoid(self)

    def silu(self) -> Tensor:
        """``x * sigmoid(x)``."""
        return functions.silu(self)

    def gelu(self, approximate: Literal["none", "tanh"] = "none") -> Tensor:
        """``x`` times the probability that a standard normal number is smaller."""
        return functions.gelu(self, approximate)

    def softplus(self, beta: float = 1.0) -> Tensor:
        """``log(1 + exp(beta * x)) / beta``, without overflow."""
        return functions.softplus(self, beta)

    def softmax(self, axis: int = -1) -> Tensor:
        """``exp(x)`` divided by its sum along an axis, without overflow."""
        return functions.softmax(self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Tensor:
        """The logarithm of ``softmax``, without overflow."""
        return functions.log_softmax(self, axis=axis)
