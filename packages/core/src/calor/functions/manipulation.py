"""Changing shapes and the order of axes; joining and splitting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor.ops import movement as m

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


def reshape(x: Tensor, shape: tuple[int, ...] | int, /, *, copy: bool | None = None) -> Tensor:
    """Return the elements in row-major order under another shape; one size may be −1."""
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if -1 in wanted:
        known = 1
        for n in wanted:
            known *= n if n != -1 else 1
        wanted = tuple(x.size // known if n == -1 and known else n for n in wanted)
    made: Tensor = m.reshape(x, shape=wanted)
    return made


def identity(x: Tensor) -> Tensor:
    """Return a new tensor of the same value, with the gradient passed through."""
    made: Tensor = m.reshape(x, shape=x.shape)
    return made


def broadcast_to(x: Tensor, shape: tuple[int, ...], /) -> Tensor:
    """Return the tensor repeated along new and size-1 axes to a shape."""
    made: Any = x if x.shape == tuple(shape) else m.expand(x, shape=tuple(shape))
    return made  # type: ignore[no-any-return]
