"""Real and imaginary parts, and the complex conjugate."""

from __future__ import annotations

from calor.functions.operands import as_tensor, single
from calor.ops import elementwise as e
from calor.ops.sources import zeros_of
from calor.tensor.tensor import Operand, Tensor


def real(x: Operand, /) -> Tensor:
    """Return the real part.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; float32 of complex64, float64 of complex128. Of a real tensor a copy.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``real``.

    Examples
    --------
    >>> import calor
    >>> calor.real(calor.asarray([1 + 2j])).tolist()
    [1.0]
    """
    x = as_tensor(x)
    return single(e.real, x) if x.dtype.is_complex else x.copy()


def imag(x: Operand, /) -> Tensor:
    """Return the imaginary part.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; float32 of complex64, float64 of complex128. Of a real tensor zeros of
        its dtype.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``imag``.

    Examples
    --------
    >>> import calor
    >>> calor.imag(calor.asarray([1 + 2j])).tolist()
    [2.0]
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        return single(e.imag, x)
    made: Tensor = zeros_of(x._value.spec, x.device)
    return made


def conj(x: Operand, /) -> Tensor:
    """Return the complex conjugate.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. Of a real tensor a copy.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``conj``.

    Examples
    --------
    >>> import calor
    >>> calor.conj(calor.asarray([1 + 2j])).tolist()
    [(1-2j)]
    """
    x = as_tensor(x)
    return single(e.conj, x) if x.dtype.is_complex else x.copy()
