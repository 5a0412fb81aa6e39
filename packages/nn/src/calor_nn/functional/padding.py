"""Padding and cropping of the last axes, with PyTorch's order of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import calor
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer
from calor.functions.operands import as_tensor

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

# PyTorch's names beside those of `calor.pad`.
_MODES = {"replicate": "edge", "circular": "wrap"}


def pad(
    x: Operand,
    pad: Sequence[int],
    mode: Literal["constant", "reflect", "replicate", "circular"] = "constant",
    value: float | Tensor | None = None,
) -> Tensor:
    """Return the tensor with elements added, or cropped, at the ends of its last axes.

    :func:`calor.pad` takes a pair for each axis, in their order, as NumPy does.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    pad : sequence of int
        How many elements to add before and after the last axis, then before and after the axis in
        front of it, and so on. A negative number crops so many.
    mode : {"constant", "reflect", "replicate", "circular"}
        What is added: ``value``, the elements mirrored at the outermost one, the outermost element,
        or those of the other end. The names of :func:`calor.pad` are taken, too.
    value : float or Tensor, optional
        The element for mode "constant", converted to the dtype of ``x``. By default 0.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    ArgumentError
        If ``mode`` is another name.
    ShapeError
        If the numbers are no pairs or more than two for each axis, an axis has too few elements for
        the mode, or more than all of them are cropped.
    TypeError
        If a number is not whole.

    References
    ----------
    ``torch.nn.functional.pad``.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.pad(calor.asarray([[1, 2], [3, 4]]), (2, 0)).tolist()
    [[0, 0, 1, 2], [0, 0, 3, 4]]
    >>> functional.pad(calor.asarray([[1, 2, 3]]), (-1, 2), mode="replicate").tolist()
    [[2, 3, 3, 3]]
    """
    x = as_tensor(x)
    widths = _widths(pad, x)
    if mode == "circular":
        # What is left after cropping is repeated; other modes read beyond a cropped end.
        x = _cropped(x, widths)
        widths = [(max(low, 0), max(high, 0)) for low, high in widths]
    added = [(max(low, 0), max(high, 0)) for low, high in widths]
    if mode != "constant" and value is not None:
        raise ArgumentError(f'pad: mode {mode!r} adds elements of x; value is for mode "constant"')
    fill = 0 if value is None else value
    return _cropped(calor.pad(x, added, mode=_MODES.get(mode, mode), value=fill), widths)  # type: ignore[arg-type]


def _widths(pad: Any, x: Tensor) -> list[tuple[int, int]]:
    """Return a pair for each axis, in their order."""
    if not isinstance(pad, Sequence) or any(isinstance(n, Sequence) for n in pad):
        raise ShapeError(
            f"pad: {pad} is no sequence of numbers, such as (left, right, top, bottom); calor.pad "
            f"takes a pair for each axis"
        )
    ends = [integer(n, "pad: pad") for n in pad]
    if len(ends) % 2 or len(ends) > 2 * x.ndim:
        raise ShapeError(
            f"pad: {len(ends)} numbers do not fit shape {x.shape}; give two for each of the last "
            f"axes, the last one first"
        )
    pairs = list(zip(ends[::2], ends[1::2], strict=True))[::-1]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    for axis, (low, high) in enumerate(widths):
        if x.shape[axis] + min(low, 0) + min(high, 0) < 0:
            raise ShapeError(
                f"pad: ({low}, {high}) crops more than the {x.shape[axis]} elements of axis {axis} "
                f"of shape {x.shape}"
            )
    return widths


def _cropped(x: Tensor, widths: Sequence[tuple[int, int]]) -> Tensor:
    if all(low >= 0 and high >= 0 for low, high in widths):
        return x
    ends = zip(widths, x.shape, strict=True)
    return x[tuple(slice(max(-low, 0), n - max(-high, 0)) for (low, high), n in ends)]
