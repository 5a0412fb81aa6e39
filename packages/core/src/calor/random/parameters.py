"""What parameters of distributions may be, where they are numbers: tensors are not read."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from calor.errors import ArgumentError


def within(
    what: str, value: Any, least: float = 0.0, most: float = inf, *, above: bool = False
) -> None:
    """Check a parameter that is a number of Python or NumPy.

    Parameters
    ----------
    what : str
        The function and its parameter, with which the error begins.
    value : Any
        The parameter; what is no number is not checked.
    least : float, optional
        The least that it may be. By default 0.
    most : float, optional
        The most that it may be. By default infinity.
    above : bool, optional
        Whether it must be above the least. By default False.

    Raises
    ------
    ArgumentError
        If it is not, or not a number at all (NaN).
    """
    if not isinstance(value, int | float | np.number) or isinstance(value, np.complexfloating):
        return
    if (least < value if above else least <= value) and value <= most:
        return
    limit = f"above {least:g}" if above else f"at least {least:g}"
    end = "" if most == inf else f" and at most {most:g}"
    raise ArgumentError(f"{what} is {value}; it must be {limit}{end}")
