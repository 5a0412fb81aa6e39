"""Losses of classes and of label sequences as modules."""

from __future__ import annotations

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.loss import Reduction
from calor_nn.losses.base import Loss, WeightedLoss


class NLLLoss(WeightedLoss):
    """Minus the log-probability of the target class; see :func:`functional.nll_loss`.

    Parameters
    ----------
    weight : Tensor, optional
        A factor for each class, shape (C,); 1 if left out. It is a buffer of the module.
    ignore_index : int
        Targets of this number have no loss, and do not count in the mean.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> logs = calor.log(calor.asarray([[0.5, 0.5]]))
    >>> round(nn.NLLLoss()(logs, calor.asarray([1])).item(), 4)
    0.6931
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Log-probabilities, shape (N, C, *S) or (C,).
        target : Tensor
            Class numbers, integers of shape (N, *S) or ().

        Returns
        -------
        Tensor
            A scalar, or one loss for each element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If `target` or `weight` does not fit `x`.
        DTypeError
            If class numbers are not integers, or `x` is complex or float8.
        ArgumentError
            If `reduction` is unknown.
        """
        return functional.nll_loss(
            x, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(WeightedLoss):
    """Minus the log-probability of the target under the softmax of logits.

    See :func:`functional.cross_entropy`.

    Parameters
    ----------
    weight : Tensor, optional
        A factor for each class, shape (C,); 1 if left out. It is a buffer of the module.
    ignore_index : int
        Class numbers equal to it have no loss, and do not count in the mean.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.
    label_smoothing : float
        The share of the uniform distribution that is mixed into the target, in [0, 1].

    References
    ----------
    Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2016 (label
    smoothing).

    Examples
    --------
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
        """Return the loss.

        Parameters
        ----------
        x : Tensor
            Logits, shape (N, C, *S) or (C,).
        target : Tensor
            Class numbers, integers of shape (N, *S) or (); or probabilities of the shape of `x`.

        Returns
        -------
        Tensor
            A scalar, or one loss for each element if `reduction` is "none".

        Raises
        ------
        ShapeError
            If `target` or `weight` does not fit `x`.
        DTypeError
            If class numbers are not integers, or `x` is complex or float8.
        ArgumentError
            If `reduction` is unknown, or `label_smoothing` is outside [0, 1].
        """
        return functional.cross_entropy(
            x,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )


class CTCLoss(Loss):
    """The loss of label sequences without alignment; see :func:`functional.ctc_loss`.

    Parameters
    ----------
    blank : int
        The class of the blank.
    reduction : {"mean", "sum", "none"}
        How the losses become the result: their mean, their sum, or each of them.
    zero_infinity : bool
        Give a target that is longer than its input allows a loss of 0 in place of infinity.

    References
    ----------
    Graves et al., "Connectionist Temporal Classification", 2006.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> x = calor.log_softmax(calor.zeros((2, 1, 2)))
    >>> lengths = calor.asarray([2]), calor.asarray([1])
    >>> round(nn.CTCLoss()(x, calor.asarray([[1]]), *lengths).item(), 4)
    0.2877
    """

    def __init__(
        self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        log_probs : Tensor
            Log-probabilities, shape (T, N, C).
        targets : Tensor
            Class numbers, integers of shape (N, S).
        input_lengths : Tensor
            How many of the T steps count, integers of shape (N,).
        target_lengths : Tensor
            How many of the S labels count, integers of shape (N,).

        Returns
        -------
        Tensor
            A scalar, or shape (N,) if `reduction` is "none".

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        ArgumentError
            If `blank` is not a class, T is 0, or `reduction` is unknown.
        DTypeError
            If targets or lengths are not integers.
        """
        return functional.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            blank=self.blank,
            reduction=self.reduction,
            zero_infinity=self.zero_infinity,
        )
