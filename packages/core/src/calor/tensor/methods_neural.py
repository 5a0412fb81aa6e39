"""Methods that neural networks are written with; each calls the function of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import calor
from calor.graph.trace import Handle

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


class NeuralMethods(Handle):
    """Activations and what turns scores into probabilities."""

    __slots__ = ()

    def relu(self) -> Tensor:
        """The elements, and 0 for negative ones."""
        return calor.relu(self)

    def sigmoid(self) -> Tensor:
        """``1 / (1 + exp(-x))``, without overflow."""
        return calor.sigmoid(self)

    def silu(self) -> Tensor:
        """``x * sigmoid(x)``."""
        return calor.silu(self)

    def gelu(self) -> Tensor:
        """``x`` times the normal distribution's probability of a smaller number."""
        return calor.gelu(self)

    def softplus(self) -> Tensor:
        """``log(1 + exp(x))``, without overflow."""
        return calor.softplus(self)

    def softmax(self, axis: int = -1) -> Tensor:
        """``exp(x)`` divided by its sum along an axis, without overflow."""
        return calor.softmax(self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Tensor:
        """The logarithm of ``softmax``, without overflow."""
        return calor.log_softmax(self, axis=axis)
