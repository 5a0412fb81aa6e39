"""Integer powers and the exponential of square matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calor.errors import ShapeError
from calor.functions.arguments import integer
from calor.functions.linear_algebra import matmul
from calor.functions.operands import as_tensor
from calor_linalg import matrices as mx
from calor_linalg import solutions as rows
from calor_linalg.solving import inv

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


def matrix_power(x: Operand, n: int, /) -> Tensor:
    """Return square matrices to an integer power.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M), of any dtype that `matmul` takes. A negative `n` needs
        float32, float64, complex64 or complex128.
    n : int
        The exponent. 0 gives the identity, a negative number the power of the inverse.

    Returns
    -------
    Tensor
        The powers, in the shape and dtype of `x`. They take about 2 log₂ |n| products.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    TypeError
        If `n` is not an integer.
    DTypeError
        If `n` is negative and `x` has a dtype that `inv` does not take.
    LinAlgError
        If `n` is negative and a matrix is singular. It is raised when the result is computed.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.matrix_power(calor.asarray([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    base = as_tensor(x)
    count = integer(n, "matrix_power: n")
    if base.ndim < 2 or base.shape[-1] != base.shape[-2]:
        raise ShapeError(
            f"matrix_power: matrices of shape {base.shape} are not square; pass shape (..., M, M)"
        )
    if not count:
        return mx.identity(base)  # type: ignore[no-any-return]
    if count < 0:
        base, count = inv(base), -count
    power = None
    while True:
        if count % 2:
            power = base if power is None else matmul(power, base)
        count //= 2
        if not count:
            assert power is not None
            return power
        base = matmul(base, base)


def expm(x: Operand, /) -> Tensor:
    """Return the matrix exponential Σ xᵏ / k! of square matrices.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128.

    Returns
    -------
    Tensor
        The exponentials, in the shape and dtype of `x`. Matrices with NaN give NaN.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.

    References
    ----------
    N. J. Higham, "The scaling and squaring method for the matrix exponential revisited", SIAM J.
    Matrix Anal. Appl. 26(4), 2005, algorithm 2.3. The gradient follows R. Mathias, "A chain rule
    for matrix functions and applications", SIAM J. Matrix Anal. Appl. 17(3), 1996.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.expm(calor.asarray([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return rows.expm(as_tensor(x))  # type: ignore[no-any-return]
