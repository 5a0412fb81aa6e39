"""Losses of pairs and triplets of vectors as modules, and the distances behind them."""

from __future__ import annotations

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.loss import Reduction
from calor_nn.losses.base import Loss
from calor_nn.module import Module


class CosineEmbeddingLoss(Loss):
    """The loss 1 − cos of pairs that belong together, and cos − margin of others.

    See :func:`functional.cosine_embedding_loss`.

    Parameters
    ----------
    margin : float
        The cosine up to which pairs that do not belong together have no loss.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> x = calor.asarray([[1.0, 0.0]])
    >>> nn.CosineEmbeddingLoss()(x, x, calor.asarray([-1.0])).item()
    1.0
    """

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x1: Tensor, x2: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x1 : Tensor
            Shape (N, D) or (D,).
        x2 : Tensor
            The shape of `x1`.
        target : Tensor
            1 for pairs that belong together, −1 for others; shape (N,) or ().

        Returns
        -------
        Tensor
            A scalar, or one loss for each element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.cosine_embedding_loss(
            x1, x2, target, margin=self.margin, reduction=self.reduction
        )


class HingeEmbeddingLoss(Loss):
    """The distance x of pairs that belong together, and margin − x of others.

    See :func:`functional.hinge_embedding_loss`.

    Parameters
    ----------
    margin : float
        The distance from which pairs that do not belong together have no loss.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.HingeEmbeddingLoss()(calor.asarray([0.25]), calor.asarray([-1.0])).item()
    0.75
    """

    def __init__(self, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Distances of any shape.
        target : Tensor
            1 or −1, of the shape of `x`.

        Returns
        -------
        Tensor
            A scalar, or one loss for each element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes differ; losses do not broadcast.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.hinge_embedding_loss(
            x, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(Loss):
    """How far pairs are from the wanted order; see :func:`functional.margin_ranking_loss`.

    Parameters
    ----------
    margin : float
        The difference from which a pair in the right order has no loss.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> x1, x2 = calor.asarray([1.0]), calor.asarray([3.0])
    >>> nn.MarginRankingLoss()(x1, x2, calor.asarray([1.0])).item()
    2.0
    """

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x1: Tensor, x2: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x1 : Tensor
            Scores of any shape.
        x2 : Tensor
            Scores of the shape of `x1`.
        target : Tensor
            1 if x1 should rank above x2, −1 if below; the shape of `x1`.

        Returns
        -------
        Tensor
            A scalar, or one loss for each element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes differ; losses do not broadcast.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.margin_ranking_loss(
            x1, x2, target, margin=self.margin, reduction=self.reduction
        )


class SoftMarginLoss(Loss):
    """The loss log(1 + exp(−target · x)); see :func:`functional.soft_margin_loss`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.SoftMarginLoss()(calor.asarray([-1000.0]), calor.asarray([1.0])).item()
    1000.0
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Scores of any shape.
        target : Tensor
            1 or −1, of the shape of `x`.

        Returns
        -------
        Tensor
            A scalar, or one loss for each element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes differ; losses do not broadcast.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.soft_margin_loss(x, target, reduction=self.reduction)


class TripletMarginLoss(Loss):
    """How much farther the negative should be from the anchor than the positive is.

    See :func:`functional.triplet_margin_loss`.

    Parameters
    ----------
    margin : float
        How much farther the negative should be.
    p : float
        The norm of the distance; above 0.
    eps : float
        Added to the differences, which keeps the gradient of equal vectors finite.
    swap : bool
        Take the smaller of the negative's distances to the anchor and to the positive.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    References
    ----------
    Balntas et al., "Learning Local Feature Descriptors with Triplets and Shallow Convolutional
    Neural Networks", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> a = calor.zeros((1, 2))
    >>> round(nn.TripletMarginLoss()(a, a, a).item(), 4)
    1.0
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
        """Return the loss.

        Parameters
        ----------
        anchor : Tensor
            Shape (*N, D).
        positive : Tensor
            The shape of `anchor`: vectors that should be near.
        negative : Tensor
            The shape of `anchor`: vectors that should be far.

        Returns
        -------
        Tensor
            A scalar, or shape (*N,) if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes differ; losses do not broadcast.
        ArgumentError
            If `reduction` is unknown, or `p` is not above 0.
        """
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
    """The cosine of the angle between vectors; see :func:`functional.cosine_similarity`.

    Parameters
    ----------
    axis : int
        The axis of the vectors.
    eps : float
        Norms below it count as `eps`, so a vector of zeros has similarity 0.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> x = calor.asarray([[3.0, 4.0]])
    >>> round(nn.CosineSimilarity()(x, calor.asarray([[4.0, 3.0]])).item(), 4)
    0.96
    """

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        self.axis = axis
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the similarity.

        Parameters
        ----------
        x1 : Tensor
            Shape (*N, D, *M).
        x2 : Tensor
            A shape that broadcasts with that of `x1`.

        Returns
        -------
        Tensor
            The broadcast shape without the axis.

        Raises
        ------
        AxisError
            If `x1` does not have the axis.
        """
        return functional.cosine_similarity(x1, x2, axis=self.axis, eps=self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference of vectors; see :func:`functional.pairwise_distance`.

    Parameters
    ----------
    p : float
        Which norm; above 0, also infinity.
    eps : float
        Added to the difference, which keeps the gradient of equal vectors finite.
    keepdims : bool
        Keep the last axis, with size 1.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> x = calor.asarray([[3.0, 4.0]])
    >>> nn.PairwiseDistance(eps=0.0)(x, calor.zeros((1, 2))).tolist()
    [5.0]
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> None:
        self.p = p
        self.eps = eps
        self.keepdims = keepdims

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distance.

        Parameters
        ----------
        x1 : Tensor
            Shape (*N, D).
        x2 : Tensor
            A shape that broadcasts with that of `x1`.

        Returns
        -------
        Tensor
            The broadcast shape without the last axis.

        Raises
        ------
        ArgumentError
            If `p` is not above 0.
        """
        return functional.pairwise_distance(x1, x2, p=self.p, eps=self.eps, keepdims=self.keepdims)
