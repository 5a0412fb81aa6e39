"""Losses by likelihoods and by margins of several classes, as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.loss import Reduction
from calor_nn.losses.base import Loss


class GaussianNLLLoss(Loss):
    """Minus the logarithm of the normal density of targets.

    See :func:`functional.gaussian_nll_loss`.

    Parameters
    ----------
    full : bool
        Add the constant ½ · log(2π).
    eps : float
        The least variance.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> one = calor.ones(1)
    >>> nn.GaussianNLLLoss()(one, one * 3, one).item()
    2.0
    """

    def __init__(
        self, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps

    def forward(self, x: Tensor, target: Tensor, var: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Predicted means.
        target : Tensor
            Samples, of the shape of `x`.
        var : Tensor
            Predicted variances: the shape of `x`, or with a last axis of size 1, or without it.

        Returns
        -------
        Tensor
            A scalar, or one loss for each sample or element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.gaussian_nll_loss(
            x, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class PoissonNLLLoss(Loss):
    """Minus the logarithm of the Poisson probability of targets.

    See :func:`functional.poisson_nll_loss`.

    Parameters
    ----------
    log_input : bool
        Whether predictions are logarithms of rates.
    full : bool
        Add Stirling's approximation of log(target!).
    eps : float
        Keeps the logarithm of a rate of 0 finite.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.PoissonNLLLoss()(calor.zeros(1), calor.ones(1)).item()
    1.0
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        eps: float = 1e-8,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Predicted rates, or their logarithms.
        target : Tensor
            Counts, of the shape of `x`.

        Returns
        -------
        Tensor
            A scalar, or one loss for each sample or element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.poisson_nll_loss(
            x,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class MultiMarginLoss(Loss):
    """The margin by which other classes score higher than the target.

    See :func:`functional.multi_margin_loss`.

    Parameters
    ----------
    p : {1, 2}
        The power, 1 or 2.
    margin : float
        How much larger the score of the target should be.
    weight : Tensor, optional
        A factor for each target class, shape (C,); 1 if left out.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.MultiMarginLoss()(calor.asarray([0.0, 0.5]), calor.asarray(0)).item()
    0.75
    """

    weight: Tensor | None

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.p = p
        self.margin = margin
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Scores, shape (N, C) or (C,).
        target : Tensor
            Class numbers, shape (N,) or ().

        Returns
        -------
        Tensor
            A scalar, or one loss for each sample or element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.multi_margin_loss(
            x, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(Loss):
    """The margin by which other classes score higher than several targets.

    See :func:`functional.multilabel_margin_loss`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> x = calor.asarray([0.0, 0.5])
    >>> nn.MultiLabelMarginLoss()(x, calor.asarray([0, -1])).item()
    0.75
    """

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Scores, shape (N, C) or (C,).
        target : Tensor
            Class numbers filled up with −1, of the shape of `x`.

        Returns
        -------
        Tensor
            A scalar, or one loss for each sample or element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.multilabel_margin_loss(x, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(Loss):
    """The mean over classes of the binary cross-entropy of logits.

    See :func:`functional.multilabel_soft_margin_loss`.

    Parameters
    ----------
    weight : Tensor, optional
        A factor for each class; 1 if left out.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> x, y = calor.asarray([[0.0, 0.0]]), calor.asarray([[1.0, 0.0]])
    >>> round(nn.MultiLabelSoftMarginLoss()(x, y).item(), 4)
    0.6931
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Logits, shape (*N, C).
        target : Tensor
            0 or 1 for each class, of the shape of `x`.

        Returns
        -------
        Tensor
            A scalar, or one loss for each sample or element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.multilabel_soft_margin_loss(
            x, target, weight=self.weight, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(Loss):
    """The margin between two distances of any kind.

    See :func:`functional.triplet_margin_with_distance_loss`.

    Parameters
    ----------
    distance_function : callable, optional
        Two tensors of vectors to their distances; their Euclidean distance if left out.
    margin : float
        How much farther the negative should be.
    swap : bool
        Take the smaller of the negative's two distances.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> a, b = calor.asarray([[0.0, 0.0]]), calor.asarray([[3.0, 4.0]])
    >>> round(nn.TripletMarginWithDistanceLoss()(a, b, a).item(), 4)
    6.0
    """

    def __init__(
        self,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distance_function = distance_function
        self.margin = margin
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
            A scalar, or one loss for each sample or element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
