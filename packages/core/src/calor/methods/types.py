"""Methods that convert the element type. Alone in a module, as their names hide Python's types."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from calor import dtypes
from calor.functions.conversion import astype, bits_as
from calor.tensor.tensor import Tensor, with_methods


@with_methods
class TypeMethods(Tensor):
    """``astype`` and its short forms, which return the tensor itself if it has the type."""

    __slots__ = ()

    def astype(self, dtype: Any, *, copy: builtins.bool = True) -> Tensor:
        """Return the elements converted to another dtype; see `calor.astype`.

        Parameters
        ----------
        dtype : DType or str
            The dtype of the result. Floating elements become integers by truncation toward zero.
        copy : bool, optional
            Whether the result is a new tensor even if the dtype is the same. By default True.

        Returns
        -------
        Tensor
            The shape of the tensor.
        """
        return astype(self, dtype, copy=copy)

    def view(self, *target: Any) -> Tensor:
        """Return the bits of the elements as another dtype, or the elements under another shape.

        Parameters
        ----------
        *target : DType, str, or int or sequence of int
            A dtype, as in NumPy, or a shape as for ``reshape``, as in PyTorch.

        Returns
        -------
        Tensor
            For a dtype the shape of the tensor, whose last axis is longer if the dtype is narrower
            and shorter if it is wider; no gradient flows through it. For a shape that shape.

        Raises
        ------
        DTypeError
            If a wider dtype does not fit the last axis.
        ShapeError
            If a shape has another number of elements.

        Examples
        --------
        >>> import calor
        >>> calor.asarray([1.0]).view("int32").tolist()
        [1065353216]
        >>> calor.arange(6).view(2, -1).shape
        (2, 3)
        """
        if len(target) == 1 and not isinstance(target[0], builtins.int | Sequence):
            return bits_as(self, target[0])
        if len(target) == 1 and isinstance(target[0], str):
            return bits_as(self, target[0])
        return self.reshape(*target)

    def half(self) -> Tensor:
        """Return the elements as float16.

        Returns
        -------
        Tensor
            The tensor itself if it has the dtype.
        """
        return self.to(dtypes.float16)

    def bfloat16(self) -> Tensor:
        """Return the elements as bfloat16.

        Returns
        -------
        Tensor
            The tensor itself if it has the dtype.
        """
        return self.to(dtypes.bfloat16)

    def float(self) -> Tensor:
        """Return the elements as float32.

        Returns
        -------
        Tensor
            The tensor itself if it has the dtype.
        """
        return self.to(dtypes.float32)

    def double(self) -> Tensor:
        """Return the elements as float64.

        Returns
        -------
        Tensor
            The tensor itself if it has the dtype.
        """
        return self.to(dtypes.float64)

    def int(self) -> Tensor:
        """Return the elements as int32.

        Returns
        -------
        Tensor
            The tensor itself if it has the dtype.
        """
        return self.to(dtypes.int32)

    def long(self) -> Tensor:
        """Return the elements as int64.

        Returns
        -------
        Tensor
            The tensor itself if it has the dtype.
        """
        return self.to(dtypes.int64)

    def bool(self) -> Tensor:
        """Return the elements as bool: True where they are not 0.

        Returns
        -------
        Tensor
            The tensor itself if it has the dtype.
        """
        return self.to(dtypes.bool_)
