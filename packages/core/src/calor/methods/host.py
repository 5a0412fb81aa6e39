"""Looking at tensors from Python: numbers, lists, host arrays.

Requirements: a look computes what is pending; what it returns never lets the outside change a
tensor, so host arrays are read-only unless they are copies. While a function is being traced a
look at a traced value raises TraceError.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calor.config import SHARED
from calor.errors import ShapeError
from calor.local import local
from calor.specs import Spec
from calor.tensor.tensor import Tensor, with_methods

# The flag of the buffer protocol with which a consumer says that it writes.
_WRITABLE: Final = 1


@with_methods
class HostAccess(Tensor):
    """Conversions that compute the value and bring it to the host."""

    __slots__ = ()

    def item(self) -> bool | int | float | complex:
        """Return the only element as a Python number.

        Returns
        -------
        bool, int, float or complex
            The element. It is computed first if it is pending.

        Raises
        ------
        ShapeError
            If the tensor has not exactly one element.
        TraceError
            If `calor.jit` traces the call.

        Examples
        --------
        >>> import calor
        >>> calor.asarray([1.5]).item()
        1.5
        """
        number: bool | int | float | complex = _single(self, "item()").item()
        return number

    def tolist(self) -> Any:
        """Return the elements as nested Python lists.

        Returns
        -------
        list, or a number for a 0-d tensor
            The elements as Python numbers.

        Raises
        ------
        TraceError
            If `calor.jit` traces the call.

        Examples
        --------
        >>> import calor
        >>> calor.asarray([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return self.numpy().tolist()

    def tobytes(self) -> bytes:
        """Return the elements as bytes, in row-major order.

        Returns
        -------
        bytes
            ``x.nbytes`` bytes, in the machine's order.

        Raises
        ------
        TraceError
            If `calor.jit` traces the call.

        Examples
        --------
        >>> import calor
        >>> list(calor.asarray([1, 2], dtype="int8").tobytes())
        [1, 2]
        """
        return self.numpy().tobytes()

    @property
    def ctypes(self) -> Any:
        """The memory of the elements for C code that reads, as NumPy's ``ndarray.ctypes``.

        It is there where the device's memory is the host's, as long as the tensor lives and is not
        written to.
        """
        device = self._value.device
        if not device.info.feature("host_views"):
            raise AttributeError(
                f"the memory of a tensor on {device.name} is not the host's; keep array = "
                f"x.numpy() and take array.ctypes"
            )
        return self.numpy().ctypes

    def __buffer__(self, flags: int) -> memoryview:
        """Return the elements to the buffer protocol (Python 3.12 on), which NumPy asks first.

        They are read-only, and BufferError for a consumer that writes, as its bytes would be lost,
        but inside `calor.shared_views`: as `__array__` says. BufferError where the device has
        memory of its own.
        """
        lent = _lent(self)
        if lent is not None:
            return memoryview(lent)  # type: ignore[arg-type]
        if flags & _WRITABLE:
            raise BufferError(
                "the memory of a tensor is read-only; write to array = x.numpy(copy=True)"
            )
        if not self._value.device.info.feature("host_views"):
            raise BufferError(
                f"the memory of a tensor on {self._value.device.name} is not the host's; take "
                f"x.numpy()"
            )
        array: Any = self.numpy()
        return memoryview(array)

    def __bool__(self) -> bool:
        return bool(_single(self, "bool()", "; x.any() and x.all() have one for all elements"))

    def __int__(self) -> int:
        return int(_single(self, "int()").item())

    def __float__(self) -> float:
        return float(_single(self, "float()").item())

    def __complex__(self) -> complex:
        return complex(_single(self, "complex()").item())

    def __index__(self) -> int:
        spec: Spec = self._value.spec
        if spec.shape or not spec.dtype.is_integer:
            raise TypeError(
                f"only a 0-d tensor of integers is an index where Python wants an int, not {spec}"
            )
        return int(self.numpy()[()])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return a host array, as ``np.asarray`` asks: read-only and shared, or a copy.

        Inside `calor.shared_views` it can be written to; what is written reaches the tensor when
        the array is gone.

        ``copy=False`` raises ValueError where the device has memory of its own or the dtype
        differs.
        """
        shares = bool(self._value.device.info.feature("host_views"))
        converts = dtype is not None and np.dtype(dtype) != self._value.spec.dtype.numpy
        if copy is False and (converts or not shares):
            wanted = self._value.spec.dtype.numpy if dtype is None else np.dtype(dtype)
            raise ValueError(
                f"a host array of {wanted} cannot share the memory of this tensor "
                f"({self._value.spec} on {self._value.device.name}); np.asarray(x) copies"
            )
        if copy is None and not converts:
            lent = _lent(self)
            if lent is not None:
                return lent
        array = self.numpy()
        if converts:
            return array.astype(dtype)
        return array.copy() if copy else array


def _lent(x: Tensor) -> np.ndarray[Any, Any] | None:
    """Return a host array whose writes reach the tensor, inside `calor.shared_views`."""
    if local.views is not SHARED or local.jit:
        return None
    # Imported where C code may write: programs of calor's own get read-only arrays.
    from calor.methods.lending import lend

    return lend(x)


def _single(x: Tensor, what: str, hint: str = "; x.tolist() gives all of them") -> Any:
    """Return the one element as a NumPy scalar; ShapeError when the tensor has not one element."""
    spec: Spec = x._value.spec
    if spec.size != 1:
        raise ShapeError(
            f"{what} needs a tensor of one element, this one has shape {spec.shape}{hint}"
        )
    return x.numpy().reshape(())[()]
