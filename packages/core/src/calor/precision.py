"""The precision of float32 matrix products and convolutions.

Requirements: float32 stays float32 unless the program asks for less. The precision at which a
product was recorded holds for it and its gradients, wherever and whenever they are computed. It is
an attribute of the op, so that plans of different precision are never mixed up. A device without
such units computes more accurately than it was asked to.
"""

from __future__ import annotations

from typing import Self

from calor.config import HIGHEST, PRECISIONS
from calor.dtypes import DType, float32
from calor.errors import ArgumentError
from calor.local import local


def level_of(name: str) -> str:
    """Return the level that a name stands for; ArgumentError for another name."""
    found = PRECISIONS.get(name)
    if found is None:
        raise ArgumentError(
            f"matmul_precision: {name!r} is none of {', '.join(PRECISIONS)}; highest computes "
            f"products of float32 as they are, high may round factors to TF32, of 10 bits"
        )
    return found


def permitted(dtype: DType) -> dict[str, str]:
    """Return the attributes of a product of a dtype that is recorded now: its precision.

    Every function that records products or convolutions for a user asks this. Gradients and
    decompositions do not: a gradient has the precision of its product, and a decomposition the
    highest, since what it defines is no product.
    """
    exact = local.precision is HIGHEST or dtype is not float32
    return {} if exact else {"precision": local.precision}


class matmul_precision:
    """Context that sets the precision of float32 matrix products and convolutions.

    Parameters
    ----------
    level : {"highest", "high", "tf32"}
        "highest", the default outside any context, computes in float32. With "high", or "tf32", a
        device may round the factors to TF32 (10 bits of mantissa instead of 23, relative errors up
        to 2⁻¹⁰) and add in float32, if its matrix units are faster so; other devices compute in
        float32. With it the sums of float8 products (``calor.matmul`` with ``dtype``) may have
        fewer bits too, about 14 on Hopper.

    Raises
    ------
    ArgumentError
        If ``level`` is another name.

    Notes
    -----
    It holds for the gradients of the products recorded inside it, whenever they are computed.
    Attention and other dtypes are not affected. ``CALOR_MATMUL_PRECISION`` sets the level for a
    whole process.

    Examples
    --------
    >>> import calor
    >>> x = calor.ones((2, 2))
    >>> with calor.matmul_precision("high"):
    ...     y = x @ x
    >>> y.tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    def __init__(self, level: str) -> None:
        self.level = level_of(level)
        self.before: list[str] = []

    def __enter__(self) -> Self:
        self.before.append(local.precision)
        local.precision = self.level
        return self

    def __exit__(self, *error: object) -> None:
        local.precision = self.before.pop()
