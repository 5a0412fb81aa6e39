"""Methods that convert the element type. Alone in a module, as their names hide Python's types."""

from __future__ import annotations

import builtins
from typing import Any

from calor import dtypes
from calor.functions.conversion import astype
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
