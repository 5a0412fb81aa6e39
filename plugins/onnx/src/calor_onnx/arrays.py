"""Conversion of a caller's input to a host array of the declared type.

Requirements: lists and numbers have no dtype, so they take the declared one if no element changes
by more than rounding; arrays keep theirs. Errors name the input.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from calor_onnx.errors import InputError
from calor_onnx.graph import ValueInfo
from calor_onnx.types import STRING, HostType, name_of
from calor_onnx.values import native

Array = np.ndarray[Any, Any]
_iinfo: Any = ml_dtypes.iinfo


def array_of(info: ValueInfo, value: Any) -> Array:
    """Return a value as a host array of the declared type.

    Raises
    ------
    InputError
        If the value is not an array, or its elements do not fit the type.

    Examples
    --------
    >>> from calor_onnx.arrays import array_of
    >>> from calor_onnx.graph import ValueInfo
    >>> import numpy as np
    >>> array_of(ValueInfo("x", np.dtype(np.uint8), (2,)), [1, 255]).tolist()
    [1, 255]
    """
    plain = not isinstance(value, np.ndarray | np.generic)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(
            f"the input {info.name!r} is not an array: {error}; pass one, or rows of one length"
        ) from error
    if array.dtype.kind in "SU":
        return array.astype(np.object_)
    if array.dtype == STRING:
        _check_texts(info, array)
        return array
    array = native(array)
    if plain and info.dtype is not None and info.dtype not in (array.dtype, STRING):
        return _converted(info, array, info.dtype)
    return array


def _check_texts(info: ValueInfo, array: Array) -> None:
    """Raise InputError for objects that are not texts, as in an array of mixed objects."""
    for item in array.flat:
        if not isinstance(item, str | bytes):
            raise InputError(
                f"the input {info.name!r} has an element of type {type(item).__name__}; the model "
                f"takes {info.type_name}"
            )


def _converted(info: ValueInfo, array: Array, dtype: HostType) -> Array:
    """Return numbers without a dtype in the declared type."""
    limits = _limits(dtype)
    # NumPy knows no kind of ml_dtypes' types, and signed and unsigned integers count as one kind.
    known = np.can_cast(array.dtype, dtype, "same_kind") and array.dtype.kind != "c"
    if array.size and not (array.dtype.kind in "biu" if limits else known or dtype.kind == "c"):
        raise InputError(
            f"the input {info.name!r} is {name_of(array.dtype)}, the model takes "
            f"{info.type_name}; convert it: np.asarray(x).astype({info.type_name!r})"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        made = array.astype(dtype)
    if limits and array.size:
        fits = int(limits.min) <= int(array.min()) and int(array.max()) <= int(limits.max)
    else:
        # A number beyond the range of the type becomes an infinity or a NaN.
        fits = dtype.kind == "b" or _finite(made) == _finite(array)
    if not fits:
        raise InputError(
            f"the input {info.name!r} has elements that {info.type_name} cannot hold: from "
            f"{array.min()} to {array.max()}; scale them, or clip them"
        )
    return made


def _finite(array: Array) -> int:
    kind = np.complex128 if array.dtype.kind == "c" else np.float64
    return int(np.isfinite(array.astype(kind)).sum())


def _limits(dtype: HostType) -> Any:
    """Return the smallest and the largest number of an integer type; None for another type."""
    try:
        return _iinfo(dtype)
    except ValueError:
        return None
