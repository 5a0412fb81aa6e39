"""The precision of float32 matrix products and convolutions.

Requirements: float32 stays float32 unless the program asks for less. The precision at which a
product was recorded holds for it and its gradients, wherever and whenever they are computed. It is
an attribute of the op, so that plans of different precision are never mixed up. A device without
such units computes more accurately than it was asked to.
"""

from __future__ import annotations

from typing import Self

from calor.config import DIRECT, EXACT, HIGHEST, PRECISIONS
from calor.dtypes import DType, float32
from calor.errors import ArgumentError
from calor.local import local


def level_of(name: str) -> str:
    """Return the level that a name stands for; ArgumentError for another name."""
    found = PRECISIONS.get(name)
    if found is None:
        raise ArgumentError(
            f"matmul_precision: {name!r} is none of {', '.join(PRECISIONS)}; highest computes "
            f"products of float32 as they are, direct adds those of convolutions one by one, high "
            f"may round factors to TF32, of 10 bits"
        )
    return found


def permitted(dtype: DType, convolution: bool = False) -> dict[str, str]:
    """Return the attributes of a product of a dtype that is recorded now: its precision.

    Every function that records products or convolutions for a user asks this. Gradients and
    decompositions do not: a gradient has the precision of its product, and a decomposition the
    highest, since what it defines is no product. ``convolution``: whether it is one; "direct" is
    said of those alone.
    """
    level = local.precision
    usual = level is HIGHEST or (level is DIRECT and not convolution)
    return {} if usual or dtype is not float32 else {"precision": level}


def rounds(level: str) -> bool:
    """Return whether factors of float32 may be rounded at a level."""
    return level not in EXACT


class matmul_precision:
    """Context that sets the precision of float32 matrix products and convolutions.

    Parameters
    ----------
    level : {"highest", "direct", "high", "tf32"}
        "highest", the default outside any context, computes in float32. A GPU may then compute a
        convolution by transformed tiles (Winograd), as cuDNN does: it takes fewer operations, and
        the root of the mean square of its rounding errors is up to eight times that of a sum in
        float32. A processor with tile registers for bfloat16 may compute it by sums of parts, whose
        errors are those of a sum in float32. With "direct" the products of convolutions are added
        one by one; other products are as with "highest". With "high", or "tf32", a
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
    It holds for the products of attention too, and for the gradients of what is recorded inside it,
    whenever they are computed. Other dtypes are not affected. ``CALOR_MATMUL_PRECISION`` sets the
    level for a whole process.

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
