"""Looking at tensors from Python: numbers, lists, host arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calor.errors import ShapeError
from calor.graph.trace import Handle

if TYPE_CHECKING:
    from calor.specs import Spec


class HostAccess(Handle):
    """Conversions that compute the value and bring it to the host."""

    __slots__ = ()

    if TYPE_CHECKING:

        def numpy(self, *, copy: bool = False) -> np.ndarray[Any, Any]: ...

    def item(self) -> Any:
        """Return the one element as a Python number; ShapeError when there are more."""
        spec: Spec = self._value.spec
        if spec.size != 1:
            raise ShapeError(f"item() needs one element, the tensor has shape {spec.shape}")
        return self.numpy().reshape(())[()].item()

    def tolist(self) -> Any:
        """Return the elements as nested Python lists."""
        return self.numpy().tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __len__(self) -> int:
        shape = self._value.spec.shape
        if not shape:
            raise TypeError("a 0-d tensor has no length")
        return shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != np.dtype(dtype):
            return array.astype(dtype)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        return f"tensor({np.array2string(self.numpy(), separator=', ', prefix='tensor(')})"
