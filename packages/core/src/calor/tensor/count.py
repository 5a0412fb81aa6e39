"""The number of elements of a tensor: an int that says what to write where it is called."""

from __future__ import annotations

from typing import NoReturn


class Count(int):
    """An int in every respect; in PyTorch ``x.size()`` is the shape, and here it cannot be called.

    >>> Count(6) + 1
    7
    """

    __slots__ = ()

    def __call__(self, axis: int | None = None) -> NoReturn:
        wanted = "x.shape" if axis is None else f"x.shape[{axis!r}]"
        raise TypeError(f"x.size is a number, that of all elements: write {wanted}")

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)
