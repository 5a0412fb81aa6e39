"""The dtype of floating numbers that no operand decides.

Requirements: Python's floats, functions that make tensors, random numbers, and operations that turn
integers into real numbers have one default, which is float32. Programs written for NumPy expect
float64. It is a mode of the thread like the precision of products: a jitted function is traced
again where it changed.
"""

from __future__ import annotations

from typing import Any, Self

from calor.config import FLOATS, config
from calor.dtypes import as_dtype
from calor.errors import DTypeError
from calor.local import local


def _name_of(dtype: Any) -> str:
    found = FLOATS.get(as_dtype(dtype).name)
    if found is None:
        raise DTypeError(
            f"the default dtype is one of {', '.join(FLOATS)}, not {as_dtype(dtype).name}"
        )
    return found


class default_dtype:
    """Context that sets the dtype of floating numbers where nothing else decides it.

    Parameters
    ----------
    dtype : DType or str
        One of float32 (the default outside any context), float64, bfloat16 and float16. Complex
        numbers become complex128 with float64, else complex64.

    Raises
    ------
    DTypeError
        If ``dtype`` is another one.

    See Also
    --------
    set_default_dtype : Set it for the rest of the program.

    Notes
    -----
    It holds in the thread that enters it: for Python's floats, ``calor.zeros``, ``linspace``,
    random numbers and parameters of modules without a ``dtype``, and for results of integers such
    as ``calor.sqrt(2)``. The dtype of a floating tensor is never changed.
    ``CALOR_DEFAULT_DTYPE`` sets it for a whole process.

    Examples
    --------
    >>> import calor
    >>> with calor.default_dtype("float64"):
    ...     calor.asarray([0.5]).dtype, calor.arange(3).mean().dtype
    (calor.float64, calor.float64)
    """

    def __init__(self, dtype: Any) -> None:
        self.name = _name_of(dtype)
        self.before: list[str] = []

    def __enter__(self) -> Self:
        self.before.append(local.floating)
        local.floating = self.name
        return self

    def __exit__(self, *error: object) -> None:
        local.floating = self.before.pop()


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of floating numbers where nothing else decides it.

    Parameters
    ----------
    dtype : DType or str
        As in `default_dtype`, which is the context.

    Raises
    ------
    DTypeError
        If ``dtype`` is no floating dtype with arithmetic.

    Notes
    -----
    It holds in this thread, and in threads that begin afterwards.

    Examples
    --------
    >>> import calor
    >>> calor.set_default_dtype("float64")
    >>> calor.ones(2).dtype
    calor.float64
    >>> calor.set_default_dtype("float32")
    """
    config.default_dtype = local.floating = _name_of(dtype)
