"""Activations along one axis as layers; each calls the function of its name in ``functional``."""

from __future__ import annotations

from typing import ClassVar

from calor import Tensor
from calor_nn import functional
from calor_nn.module import Module


class _AlongAxis(Module):
    """A function along one axis."""

    function: ClassVar[str]

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Return the function along the axis.

        Parameters
        ----------
        x : Tensor
            Any shape with the axis; a real dtype.

        Returns
        -------
        Tensor
            The shape of `x`; :class:`GLU` halves the axis.
        """
        made: Tensor = getattr(functional, self.function)(x, axis=self.axis)
        return made

    def extra_repr(self) -> str:
        """Return the axis."""
        return f"axis={self.axis}"


class Softmax(_AlongAxis):
    """The exponential divided by its sum along an axis; see :func:`calor.softmax`.

    Parameters
    ----------
    axis : int
        The axis that sums to 1; negative numbers count from the end.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Softmax()(calor.zeros(2)).tolist()
    [0.5, 0.5]
    """

    function = "softmax"


class LogSoftmax(_AlongAxis):
    """The logarithm of the softmax along an axis; see :func:`calor.log_softmax`.

    Parameters
    ----------
    axis : int
        The axis of the softmax; negative numbers count from the end.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.LogSoftmax()(calor.asarray([1000.0, 0.0])).tolist()
    [0.0, -1000.0]
    """

    function = "log_softmax"


class GLU(_AlongAxis):
    """The gated linear unit; see :func:`functional.glu`.

    It is the first half of an axis times the sigmoid of the second half.

    Parameters
    ----------
    axis : int
        The axis that is halved, of even size; negative numbers count from the end.

    References
    ----------
    Dauphin et al., "Language Modeling with Gated Convolutional Networks", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.GLU()(calor.asarray([3.0, 0.0])).tolist()
    [1.5]
    """

    function = "glu"
