"""Padding as a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import calor
from calor import Tensor
from calor.errors import ShapeError
from calor_nn.module import Module


class Pad(Module):
    """Elements before and after the last axes; see :func:`calor.pad`.

    Parameters
    ----------
    padding : sequence of pair of int
        (before, after) for each of the last axes, in their order.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}
        What is added: `value`, the outermost element, the elements mirrored at the outermost
        element or at the edge, or those of the other end.
    value : float
        The element for mode "constant".

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Pad([(1, 0), (0, 2)])(calor.ones((1, 3, 2, 2))).shape
    (1, 3, 3, 4)
    """

    def __init__(
        self,
        padding: Sequence[tuple[int, int]],
        mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
        value: float = 0.0,
    ) -> None:
        self.padding = tuple((before, after) for before, after in padding)
        self.mode = mode
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        """Return x with elements added.

        Parameters
        ----------
        x : Tensor
            At least as many axes as `padding` has pairs; any dtype.

        Returns
        -------
        Tensor
            The dtype of `x`.

        Raises
        ------
        ShapeError
            If `x` has fewer axes, or one has too few elements for the mode.
        ArgumentError
            If a number is negative, or `mode` is another name.
        """
        others = x.ndim - len(self.padding)
        if others < 0:
            raise ShapeError(
                f"Pad: {len(self.padding)} pairs do not fit a tensor of shape {x.shape}; leave out "
                f"those of axes that it does not have"
            )
        widths = ((0, 0),) * others + self.padding
        return calor.pad(x, widths, mode=self.mode, value=self.value)

    def extra_repr(self) -> str:
        """Return widths and mode."""
        return f"{self.padding}, mode={self.mode!r}"
