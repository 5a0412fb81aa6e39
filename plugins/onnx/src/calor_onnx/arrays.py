"""What a caller gives for an input, as a host array of the type that the input declares.

Requirements: lists and numbers, which say no type, take the declared one where no element changes
by more than rounding; arrays keep theirs. What is no array at all is told by the input's name.
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
    """Return a value as a host array; InputError where it is none, or does not fit the type.

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
            f"the input {info.name!r} is no array: {error}; give rows of one length, or an array"
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
    """Refuse objects that are no texts, which an array of mixed things has."""
    for item in array.flat:
        if not isinstance(item, str | bytes):
            raise InputError(
                f"the input {info.name!r} has an element of type {type(item).__name__}; the model "
                f"takes {info.type_name}"
            )


def _converted(info: ValueInfo, array: Array, dtype: HostType) -> Array:
    """Return numbers without a type of their own in the declared type."""
    limits = _limits(dtype)
    # NumPy sees no kinds in the types that it does not know, and a sign is no kind of its own.
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
        # A number beyond the largest of the type becomes an infinity or a NaN.
        fits = dtype.kind == "b" or _finite(made) == _finite(array)
    if not fits:
        raise InputError(
            f"the input {info.name!r} has elements that {info.type_name} cannot hold: from "
            f"{array.min()} to {array.max()}"
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
