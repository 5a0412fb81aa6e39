"""How exactly products and convolutions of float32 are computed.

Requirements: float32 stays float32 unless somebody says otherwise; what was said when a product was
recorded holds for it and for its gradients, wherever and whenever they are computed; it is an
attribute of the op, so that plans of one precision are never taken for another, and a device
without such units computes more exactly than it was asked to.
"""

from __future__ import annotations

from typing import Self

from calor.config import PRECISIONS
from calor.errors import ArgumentError
from calor.graph.trace import local


def level_of(name: str) -> str:
    """Return the level that a name stands for; ArgumentError for another name."""
    found = PRECISIONS.get(name)
    if found is None:
        raise ArgumentError(
            f"matmul_precision: {name!r} is none of {', '.join(PRECISIONS)}; highest computes "
            f"products of float32 as they are, high may round factors to TF32, of 10 bits"
        )
    return found


class matmul_precision:
    """Context in which products and convolutions of float32 are computed so exactly.

    ``"highest"``, the default: as float32. ``"high"``, also called ``"tf32"``: a device may round
    the factors to TF32 (10 bits of mantissa instead of 23, relative errors up to 2**-10), and sums
    in float32, where its matrix units are quicker so; other devices compute as float32. Of factors
    of float8 (``calor.matmul`` with ``dtype``) the sums may have fewer bits, about 14 on Hopper.
    CALOR_MATMUL_PRECISION sets it for a whole process. Attention and other types are not touched.
    ArgumentError for other names.

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
