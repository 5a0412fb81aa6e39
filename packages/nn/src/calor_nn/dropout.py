"""Dropout layers."""

from __future__ import annotations

from typing import ClassVar

from calor import Tensor
from calor.errors import ShapeError
from calor_nn import functional
from calor_nn.module import Module


class Dropout(Module):
    """A layer that sets elements to 0 at random in training, and divides the others by 1 − p.

    It draws from the global generator (`calor.random.seed`); see :func:`functional.dropout`. In
    evaluation it returns its input.

    Parameters
    ----------
    p : float
        Probability with which an element is set to 0, in [0, 1].

    Raises
    ------
    ArgumentError
        If `p` is outside [0, 1].

    References
    ----------
    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Dropout(0.5).eval()(calor.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return x with elements set to 0.

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
        return functional.dropout(x, self.p, training=self.training)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"


class _ChannelDropout(Dropout):
    rank: ClassVar[int]

    def forward(self, x: Tensor) -> Tensor:
        """Return x with whole channels set to 0.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S), with as many spatial axes as the class name says.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ShapeError
            If `x` has another number of axes.
        DTypeError
            If `x` is complex or float8.
        """
        if x.ndim != self.rank + 2:
            raise ShapeError(
                f"{type(self).__name__} takes batch, channels and {self.rank} spatial axes, not "
                f"shape {x.shape}"
            )
        return functional.channel_dropout(x, self.p, training=self.training)


class Dropout1d(_ChannelDropout):
    """A layer that sets whole channels of (N, C, L) to 0 at random in training.

    The other channels are divided by 1 − p; see :func:`functional.channel_dropout`. In evaluation
    it returns its input.

    Parameters
    ----------
    p : float
        Probability with which a channel is set to 0, in [0, 1].

    Raises
    ------
    ArgumentError
        If `p` is outside [0, 1].

    References
    ----------
    Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Dropout1d(0.5).eval()(calor.ones((1, 2, 3))).shape
    (1, 2, 3)
    """

    rank = 1


class Dropout2d(_ChannelDropout):
    """A layer that sets whole channels of (N, C, H, W) to 0 at random in training.

    The other channels are divided by 1 − p; see :func:`functional.channel_dropout`. In evaluation
    it returns its input.

    Parameters
    ----------
    p : float
        Probability with which a channel is set to 0, in [0, 1].

    Raises
    ------
    ArgumentError
        If `p` is outside [0, 1].

    References
    ----------
    Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Dropout2d(0.5).eval()(calor.ones((1, 2, 3, 3))).shape
    (1, 2, 3, 3)
    """

    rank = 2


class Dropout3d(_ChannelDropout):
    """A layer that sets whole channels of (N, C, D, H, W) to 0 at random in training.

    The other channels are divided by 1 − p; see :func:`functional.channel_dropout`. In evaluation
    it returns its input.

    Parameters
    ----------
    p : float
        Probability with which a channel is set to 0, in [0, 1].

    Raises
    ------
    ArgumentError
        If `p` is outside [0, 1].

    References
    ----------
    Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Dropout3d(0.5).eval()(calor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 3, 3, 3)
    """

    rank = 3
