"""Numbers of JSON as an array of the type that a model takes, without a silent change."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from calor_http.model.datatypes import HostType
from calor_http.model.errors import Refused
from calor_http.model.programs import Array


def numbers_of(data: Any, dtype: HostType, shape: tuple[int, ...], where: str) -> Array:
    """Return numbers of JSON, flat or nested like the shape, as an array.

    Parameters
    ----------
    data : list
        The numbers.
    dtype : numpy.dtype
        The element type.
    shape : tuple of int
        The shape.
    where : str
        How errors name the tensor.

    Returns
    -------
    array
        The elements; floating ones are rounded to the type.

    Raises
    ------
    Refused
        If there are more or fewer elements, or some that the type cannot hold.

    Examples
    --------
    >>> import numpy as np
    >>> from calor_http.model.elements import numbers_of
    >>> numbers_of([1, 2, 3, 4], np.dtype(np.int8), (2, 2), "x").tolist()
    [[1, 2], [3, 4]]
    """
    if not isinstance(data, list):
        raise Refused(400, f"the data of {where} are a list")
    try:
        array = np.asarray(data)
    except (ValueError, OverflowError):
        raise Refused(400, f"the data of {where} are no numbers in rows of one length") from None
    if array.size != prod(shape):
        raise Refused(400, f"{where} has {array.size} elements, its shape {list(shape)} is another")
    if array.ndim != 1 and array.shape != shape:
        raise Refused(400, f"{where} is nested as {list(array.shape)}, its shape is {list(shape)}")
    if not array.size:
        return np.zeros(shape, dtype)
    return _converted(array, data, dtype, where).reshape(shape)


def _converted(array: Array, data: Any, dtype: HostType, where: str) -> Array:
    if dtype.kind == "b":
        if array.dtype.kind == "b" or (array.dtype.kind in "iu" and _within(array, 0, 1)):
            return array.astype(dtype)
        raise Refused(400, f"{where} is BOOL; its data are true, false, 0 and 1")
    if dtype.kind in "iu":
        return _integers(array, data, dtype, where)
    if array.dtype.kind == "O" and all(type(n) in (int, float) for n in array.flat):
        # Integers beyond those of 64 bits.
        array = array.astype(np.float64)
    if array.dtype.kind not in "iuf":
        raise Refused(400, f"the data of {where} are not numbers")
    with np.errstate(over="ignore"):
        made = array.astype(dtype)
    if not np.isfinite(made).all():
        raise Refused(400, f"{where} has numbers that its datatype cannot hold")
    return made


def _integers(array: Array, data: Any, dtype: HostType, where: str) -> Array:
    limits = np.iinfo(dtype)
    if array.dtype.kind in "fO":
        # NumPy makes floating numbers of integers beyond and below the range of int64.
        exact = np.asarray(data, np.object_).reshape(-1)
        if not all(type(item) is int for item in exact):
            raise Refused(400, f"{where} takes integers")
        array = exact
    elif array.dtype.kind not in "iu":
        raise Refused(400, f"{where} takes integers")
    if not _within(array, int(limits.min), int(limits.max)):
        raise Refused(400, f"{where} has integers beyond {limits.min} to {limits.max}")
    return array.astype(dtype)


def _within(array: Array, least: int, most: int) -> bool:
    return least <= int(array.min()) and int(array.max()) <= most
