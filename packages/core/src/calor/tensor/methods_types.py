"""Methods that convert the element type. Alone in a module, as their names hide Python's types."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from calor import dtypes
from calor.functions.conversion import astype
from calor.graph.trace import Handle

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


class TypeMethods(Handle):
    """``astype`` and its short forms, which return the tensor itself if it has the type."""

    __slots__ = ()

    if TYPE_CHECKING:

        def to(self, target: Any = None, *, device: Any = None, dtype: Any = None) -> Tensor: ...

    def astype(self, dtype: Any, *, copy: builtins.bool = True) -> Tensor:
        """The elements as another type: floats to integers truncate and saturate."""
        return astype(self, dtype, copy=copy)  # type: ignore[arg-type]

    def half(self) -> Tensor:
        """The elements as float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Tensor:
        """The elements as bfloat16."""
        return self.to(dtypes.bfloat16)

    def float(self) -> Tensor:
        """The elements as float32."""
        return self.to(dtypes.float32)

    def double(self) -> Tensor:
        """The elements as float64."""
        return self.to(dtypes.float64)

    def int(self) -> Tensor:
        """The elements as int32."""
        return self.to(dtypes.int32)

    def long(self) -> Tensor:
        """The elements as int64."""
        return self.to(dtypes.int64)

    def bool(self) -> Tensor:
        """True where an element is not 0."""
        return self.to(dtypes.bool_)
