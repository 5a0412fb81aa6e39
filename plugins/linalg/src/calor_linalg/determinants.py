"""Determinants of square matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from calor.functions.operands import as_tensor
from calor_linalg import solutions as rows

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


class SlogdetResult(NamedTuple):
    """Sign and logarithm of determinants.

    Attributes
    ----------
    sign : Tensor
        Shape (...). 1, -1 or 0; a number of magnitude 1, or 0, for complex matrices.
    logabsdet : Tensor
        Shape (...). Natural logarithm of the magnitude, real; -inf for a singular matrix.
    """

    sign: Tensor
    logabsdet: Tensor


def det(x: Operand, /) -> Tensor:
    """Return the determinants of square matrices.

    The gradient is defined for singular matrices too: it is computed from the adjugate.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128.

    Returns
    -------
    Tensor
        The determinants, of shape (...) in the dtype of `x`: 0 for a singular matrix, 1 for an
        empty one. Use `slogdet` where they leave the range of the dtype.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.det(calor.asarray([[2.0, 1.0], [0.0, 3.0]])).item()
    6.0
    """
    return rows.det(as_tensor(x))  # type: ignore[no-any-return]


def slogdet(x: Operand, /) -> SlogdetResult:
    """Return the sign and the logarithm of the magnitude of determinants.

    The logarithm stays in range where the determinant itself overflows or underflows.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128.

    Returns
    -------
    SlogdetResult
        `sign` in the dtype of `x` and `logabsdet` in its real dtype, both of shape (...). A
        singular matrix gives 0 and -inf. The sign of a complex determinant is its phase, of
        magnitude 1.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.

    Examples
    --------
    >>> import calor
    >>> sign, size = calor.linalg.slogdet(calor.asarray([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign.item(), size.item()
    (-1.0, 0.0)
    """
    return SlogdetResult(*rows.slogdet(as_tensor(x)))
