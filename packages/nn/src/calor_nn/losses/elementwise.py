"""Losses of each element as modules; each calls the function of its name in ``functional``."""

from __future__ import annotations

from typing import Any

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.loss import Reduction
from calor_nn.losses.base import Loss, WeightedLoss
from calor_nn.module import Module


class MSELoss(Loss):
    """The squared difference; see :func:`functional.mse_loss`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.MSELoss()(calor.zeros(2), calor.ones(2)).item()
    1.0
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Predictions of any shape; a real dtype.
        target : Tensor
            What the predictions should be, of the shape of `x`.

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
        return functional.mse_loss(x, target, reduction=self.reduction)


class L1Loss(Loss):
    """The absolute difference; see :func:`functional.l1_loss`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.L1Loss()(calor.zeros(2), calor.asarray([1.0, 3.0])).item()
    2.0
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Predictions of any shape; a real dtype.
        target : Tensor
            What the predictions should be, of the shape of `x`.

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
        return functional.l1_loss(x, target, reduction=self.reduction)


class HuberLoss(Loss):
    """A quadratic loss that is linear for large differences; see :func:`functional.huber_loss`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.
    delta : float
        Where the loss becomes linear, in the unit of the predictions; above 0.

    References
    ----------
    Huber, "Robust Estimation of a Location Parameter", 1964.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.HuberLoss()(calor.zeros(2), calor.asarray([1.0, 3.0])).item()
    1.5
    """

    def __init__(self, reduction: Reduction = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Predictions of any shape; a real dtype.
        target : Tensor
            What the predictions should be, of the shape of `x`.

        Returns
        -------
        Tensor
            A scalar, or one loss for each element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes differ; losses do not broadcast.
        ArgumentError
            If `reduction` is unknown, or `delta` is not above 0.
        """
        return functional.huber_loss(x, target, delta=self.delta, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """The absolute difference, rounded off near 0; see :func:`functional.smooth_l1_loss`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.
    beta : float
        Where the loss becomes linear, in the unit of the predictions; not negative.

    References
    ----------
    Girshick, "Fast R-CNN", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.SmoothL1Loss()(calor.zeros(2), calor.asarray([1.0, 3.0])).item()
    1.5
    """

    def __init__(self, reduction: Reduction = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Predictions of any shape; a real dtype.
        target : Tensor
            What the predictions should be, of the shape of `x`.

        Returns
        -------
        Tensor
            A scalar, or one loss for each element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes differ; losses do not broadcast.
        ArgumentError
            If `reduction` is unknown, or `beta` is negative.
        """
        return functional.smooth_l1_loss(x, target, beta=self.beta, reduction=self.reduction)


class BCELoss(WeightedLoss):
    """The cross-entropy of probabilities; see :func:`functional.binary_cross_entropy`.

    Parameters
    ----------
    weight : Tensor, optional
        A factor for each loss, which broadcasts to the predictions; 1 if left out. It is a buffer
        of the module.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> round(nn.BCELoss()(calor.asarray([0.5]), calor.asarray([1.0])).item(), 4)
    0.6931
    """

    def __init__(self, weight: Tensor | None = None, reduction: Reduction = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Probabilities of any shape, in [0, 1].
        target : Tensor
            Targets in [0, 1], of the shape of `x`.

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
        return functional.binary_cross_entropy(x, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(WeightedLoss):
    """The binary cross-entropy of sigmoid(x), which does not overflow.

    See :func:`functional.binary_cross_entropy_with_logits`.

    Parameters
    ----------
    weight : Tensor, optional
        A factor for each loss, which broadcasts to the predictions; 1 if left out. It is a buffer
        of the module.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.
    pos_weight : Tensor, optional
        A factor for the losses of positive targets; 1 if left out. It is a buffer of the module.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.BCEWithLogitsLoss()(calor.asarray([1000.0]), calor.asarray([0.0])).item()
    1000.0
    """

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
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Logits of any shape; a real dtype.
        target : Tensor
            Targets in [0, 1], of the shape of `x`.

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
        return functional.binary_cross_entropy_with_logits(
            x, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(Module):
    """The divergence of targets from log-probabilities; see :func:`functional.kl_div`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none", "batchmean"}
        How the losses become the result; "batchmean" divides their sum by the first size.
    log_target : bool
        Whether the targets are log-probabilities.

    References
    ----------
    Kullback and Leibler, "On Information and Sufficiency", 1951.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> p = calor.asarray([[0.5, 0.5]])
    >>> nn.KLDivLoss("batchmean")(calor.log(p), p).item()
    0.0
    """

    def __init__(self, reduction: Any = "mean", log_target: bool = False) -> None:
        self.reduction = reduction
        self.log_target = log_target

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Log-probabilities of any shape.
        target : Tensor
            Probabilities, or log-probabilities with `log_target`, of the shape of `x`.

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
        return functional.kl_div(x, target, log_target=self.log_target, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the reduction."""
        return f"reduction={self.reduction!r}"
