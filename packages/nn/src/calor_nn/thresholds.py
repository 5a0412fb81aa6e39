"""Activations that cut off at a threshold, and layers that shuffle or damp channels."""

from __future__ import annotations

from calor import Tensor
from calor_nn import functional
from calor_nn.module import Module


class Hardshrink(Module):
    """The identity outside an interval around 0, and 0 inside.

    See :func:`functional.hard_shrink`.

    Parameters
    ----------
    lambd : float
        The threshold, at least 0.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Hardshrink()(calor.asarray([0.25, 2.0])).tolist()
    [0.0, 2.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.
        """
        return functional.hard_shrink(x, self.lambd)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.lambd}"


class Softshrink(Module):
    """The identity moved towards 0 by a threshold.

    See :func:`functional.soft_shrink`.

    Parameters
    ----------
    lambd : float
        The threshold, at least 0.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Softshrink()(calor.asarray([0.25, 2.0])).tolist()
    [0.0, 1.5]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

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
        ArgumentError
            If `lambd` is negative.
        """
        return functional.soft_shrink(x, self.lambd)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.lambd}"


class Tanhshrink(Module):
    """The difference x − tanh(x).

    See :func:`functional.tanh_shrink`.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Tanhshrink()(calor.zeros(1)).tolist()
    [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.
        """
        return functional.tanh_shrink(x)


class Threshold(Module):
    """The identity above a threshold, and a value elsewhere.

    See :func:`functional.threshold`.

    Parameters
    ----------
    threshold : float
        The bound.
    value : float
        What elements up to the bound become.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Threshold(1.0, -1.0)(calor.asarray([0.5, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold = threshold
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.
        """
        return functional.threshold(x, self.threshold, self.value)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.threshold}, {self.value}"


class Softmin(Module):
    """The softmax of −x along an axis.

    See :func:`functional.softmin`.

    Parameters
    ----------
    axis : int
        The axis that sums to 1.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Softmin()(calor.zeros(2)).tolist()
    [0.5, 0.5]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.
        """
        return functional.softmin(x, axis=self.axis)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.axis}"


class RReLU(Module):
    """The identity for positive elements, others times a slope drawn in training.

    See :func:`functional.rrelu`.

    Parameters
    ----------
    lower : float
        The smallest slope.
    upper : float
        The largest slope.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.RReLU(0.25, 0.75).eval()(calor.asarray([-2.0])).tolist()
    [-1.0]
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3) -> None:
        self.lower = lower
        self.upper = upper

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

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
        ArgumentError
            If `lower` is above `upper`.
        """
        return functional.rrelu(x, self.lower, self.upper, training=self.training)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.lower}, {self.upper}"


class AlphaDropout(Module):
    """A layer that sets elements to the lower end of SELU at random in training.

    See :func:`functional.alpha_dropout`.

    Parameters
    ----------
    p : float
        Probability with which an element is set, in [0, 1].

    References
    ----------
    Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AlphaDropout().eval()(calor.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

        Parameters
        ----------
        x : Tensor
            Any shape; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.
        """
        return functional.alpha_dropout(x, self.p, training=self.training)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.p}"


class FeatureAlphaDropout(Module):
    """A layer that sets channels to the lower end of SELU at random in training.

    See :func:`functional.feature_alpha_dropout`.

    Parameters
    ----------
    p : float
        Probability with which an element is set, in [0, 1].

    References
    ----------
    Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.FeatureAlphaDropout().eval()(calor.ones((1, 2))).tolist()
    [[1.0, 1.0]]
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S); a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ShapeError
            If `x` has fewer than two axes.
        """
        return functional.feature_alpha_dropout(x, self.p, training=self.training)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.p}"


class ChannelShuffle(Module):
    """A layer that takes the channels of its groups in turn.

    See :func:`functional.channel_shuffle`.

    Parameters
    ----------
    groups : int
        Into how many groups the channels are divided.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.ChannelShuffle(2)(calor.asarray([[0, 1, 2, 3]])).tolist()
    [[0, 2, 1, 3]]
    """

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S).

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ShapeError
            If the channels do not divide into the groups.
        """
        return functional.channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.groups}"


class LocalResponseNorm(Module):
    """A layer that divides by a power of the mean square of neighbouring channels.

    See :func:`functional.local_response_norm`.

    Parameters
    ----------
    size : int
        The number of channels.
    alpha : float
        The factor of the mean square.
    beta : float
        The exponent.
    k : float
        The summand that keeps the divisor from 0.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.LocalResponseNorm(1, alpha=1.0, beta=1.0)(calor.ones((1, 1, 1))).tolist()
    [[[0.5]]]
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of x.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S); a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ArgumentError
            If `size` is below 1.
        """
        return functional.local_response_norm(
            x, self.size, alpha=self.alpha, beta=self.beta, k=self.k
        )

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.size}, {self.alpha}, {self.beta}, {self.k}"
