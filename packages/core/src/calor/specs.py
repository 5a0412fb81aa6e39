"""What is known of a value before it is computed: shape, dtype, and whether its type is weak.

Specs are interned as long as somebody holds them, so equality is identity and a memo keyed by specs
hashes in nanoseconds. A weak spec belongs to a Python number: it yields to the type of the tensor
that it meets.
"""

from __future__ import annotations

from math import prod
from typing import Final

from calor.dtypes import DType
from calor.interning import Interner
from calor.sizes import is_size

Shape = tuple[int, ...]


class Spec:
    """Shape and dtype of a value; equal ones are the same object. Obtain one with `spec`.

    Parameters
    ----------
    shape : tuple of int
        The sizes of the axes.
    dtype : DType
        The element type.
    weak : bool
        Whether it is a Python number's, which yields to the dtype of a tensor.
    """

    __slots__ = ("__weakref__", "dtype", "nbytes", "ndim", "shape", "size", "weak")

    def __init__(self, shape: Shape, dtype: DType, weak: bool) -> None:
        self.shape: Final = shape
        self.dtype: Final = dtype
        self.weak: Final = weak
        self.ndim: Final = len(shape)
        self.size: Final[int] = prod(shape)
        self.nbytes: Final[int] = self.size * dtype.itemsize

    def __repr__(self) -> str:
        return f"{'weak ' if self.weak else ''}{self.dtype.name}[{', '.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[object, ...]:
        return (spec, (self.shape, self.dtype, self.weak))

    def with_shape(self, shape: Shape) -> Spec:
        """Return the spec of the same dtype with another shape.

        Parameters
        ----------
        shape : tuple of int
            The sizes of the axes.

        Returns
        -------
        Spec
            The spec; it is not weak.
        """
        return spec(shape, self.dtype)


_INTERNED: Final[Interner[tuple[Shape, DType, bool], Spec]] = Interner()
_entries = _INTERNED.entries


def spec(shape: Shape, dtype: DType, weak: bool = False) -> Spec:
    """Return the one Spec of a shape and a dtype.

    Parameters
    ----------
    shape : tuple of int
        The sizes of the axes.
    dtype : DType
        The element type.
    weak : bool, optional
        Whether it is a Python number's, which yields to the dtype of a tensor.

    Returns
    -------
    Spec
        The same object for equal arguments, as long as somebody holds it.
    """
    reference = _entries.get((shape, dtype, weak))
    found = None if reference is None else reference()
    if found is None:
        # True and NumPy's integers equal plain ones, and the first to come is the one that stays.
        sizes = tuple([n if is_size(n) else int(n) for n in shape])
        found = _INTERNED.add((sizes, dtype, weak), lambda: Spec(sizes, dtype, weak))
    return found
