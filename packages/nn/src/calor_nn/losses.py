"""Losses as modules; each calls the function of its name in ``functional``."""

from __future__ import annotations

from typing import Any

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.loss import Reduction
from calor_nn.module import Module


class _Loss(Module):
    def __init__(self, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = reduction

    def extra_repr(self) -> str:
        """Return the reduction."""
        return f"reduction={self.reduction!r}"


class MSELoss(_Loss):
    """Squared difference; see :func:`functional.mse_loss`.

    >>> import calor
    >>> from calor import nn
    >>> nn.MSELoss()(calor.zeros(2), calor.ones(2)).item()
    1.0
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.mse_loss(x, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute difference; see :func:`functional.l1_loss`."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.l1_loss(x, target, reduction=self.reduction)


class HuberLoss(_Loss):
    """Squared below ``delta``, linear above; see :func:`functional.huber_loss`."""

    def __init__(self, reduction: Reduction = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.huber_loss(x, target, delta=self.delta, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared below ``beta``, linear above; see :func:`functional.smooth_l1_loss`."""

    def __init__(self, reduction: Reduction = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.smooth_l1_loss(x, target, beta=self.beta, reduction=self.reduction)


class _Weighted(_Loss):
    """A loss with a constant factor for each class or element, held as a buffer."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None, reduction: Reduction) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class NLLLoss(_Weighted):
    """Minus the log-probability of the target class; see :func:`functional.nll_loss`."""

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss of log-probabilities (N, C, *S) and class numbers (N, *S)."""
        return functional.nll_loss(
            x, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(_Weighted):
    """Minus the log-probability of the target under the softmax.

    See :func:`functional.cross_entropy`.

    >>> import calor
    >>> from calor import nn
    >>> loss = nn.CrossEntropyLoss()(calor.zeros((1, 4)), calor.asarray([2]))
    >>> round(loss.item(), 4)
    1.3863
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss of logits (N, C, *S) and class numbers (N, *S) or probabilities."""
        return functional.cross_entropy(
            x,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )


class BCELoss(_Weighted):
    """Binary cross-entropy of probabilities; see :func:`functional.binary_cross_entropy`."""

    def __init__(self, weight: Tensor | None = None, reduction: Reduction = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.binary_cross_entropy(x, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Weighted):
    """Binary cross-entropy of logits; see :func:`functional.binary_cross_entropy_with_logits`."""

    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: Reduction = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.binary_cross_entropy_with_logits(
            x, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(Module):
    """Divergence of a distribution from log-probabilities; see :func:`functional.kl_div`."""

    def __init__(self, reduction: Any = "mean", log_target: bool = False) -> None:
        self.reduction = reduction
        self.log_target = log_target

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.kl_div(x, target, log_target=self.log_target, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the reduction."""
        return f"reduction={self.reduction!r}"


class CTCLoss(_Loss):
    """Loss of label sequences without alignment; see :func:`functional.ctc_loss`."""

    def __init__(
        self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """Return the loss of log-probabilities (T, N, C) and targets (N, S)."""
        return functional.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            blank=self.blank,
            reduction=self.reduction,
            zero_infinity=self.zero_infinity,
        )


class CosineEmbeddingLoss(_Loss):
    """1 − cos of pairs that belong together, cos beyond a margin of others."""

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x1: Tensor, x2: Tensor, target: Tensor) -> Tensor:
        """Return the loss; targets are 1 and −1."""
        return functional.cosine_embedding_loss(
            x1, x2, target, margin=self.margin, reduction=self.reduction
        )


class HingeEmbeddingLoss(_Loss):
    """x of pairs that belong together, margin − x of others.

    See :func:`functional.hinge_embedding_loss`.
    """

    def __init__(self, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; targets are 1 and −1."""
        return functional.hinge_embedding_loss(
            x, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_Loss):
    """How far pairs are from the wanted order; see :func:`functional.margin_ranking_loss`."""

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x1: Tensor, x2: Tensor, target: Tensor) -> Tensor:
        """Return the loss; targets are 1 (x1 above x2) and −1."""
        return functional.margin_ranking_loss(
            x1, x2, target, margin=self.margin, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """log(1 + exp(−target · x)); see :func:`functional.soft_margin_loss`."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss; targets are 1 and −1."""
        return functional.soft_margin_loss(x, target, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """How much farther the negative should be than the positive.

    See :func:`functional.triplet_margin_loss`.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss."""
        return functional.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class CosineSimilarity(Module):
    """Cosine of the angle between vectors; see :func:`functional.cosine_similarity`."""

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        self.axis = axis
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the similarity."""
        return functional.cosine_similarity(x1, x2, axis=self.axis, eps=self.eps)


class PairwiseDistance(Module):
    """p-norm of the difference of vectors; see :func:`functional.pairwise_distance`."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> None:
        self.p = p
        self.eps = eps
        self.keepdims = keepdims

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distance."""
        return functional.pairwise_distance(x1, x2, p=self.p, eps=self.eps, keepdims=self.keepdims)
