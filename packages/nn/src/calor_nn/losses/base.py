"""What losses share: the reduction, and constant factors."""

from __future__ import annotations

from calor import Tensor
from calor_nn.functional.loss import Reduction
from calor_nn.module import Module


class Loss(Module):
    """A loss with a reduction."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = reduction

    def extra_repr(self) -> str:
        """Return the reduction."""
        return f"reduction={self.reduction!r}"


class WeightedLoss(Loss):
    """A loss with a constant factor for each class or element, held as a buffer."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None, reduction: Reduction) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
