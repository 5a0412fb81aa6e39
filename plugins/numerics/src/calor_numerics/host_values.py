"""Numbers of the host that a call reads at once: levels, places, shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.errors import DTypeError, ShapeError


def host_values(values: Any, what: str) -> np.ndarray[Any, Any]:
    """Return a number, a nested sequence or an array as an array of numbers.

    Parameters
    ----------
    values : Any
        The numbers.
    what : str
        The function and its argument, with which errors begin.

    Returns
    -------
    numpy.ndarray
        Of a dtype of numbers.

    Raises
    ------
    ShapeError
        If the parts of a sequence differ in shape.
    DTypeError
        If it does not hold numbers.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{what} has parts of several shapes; give them one ({error})") from None
    if array.dtype.kind not in "biufc":
        raise DTypeError(f"{what} holds {array.dtype}; pass numbers")
    return array
