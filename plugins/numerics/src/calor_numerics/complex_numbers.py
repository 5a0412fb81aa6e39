"""Complex numbers from parts, and their parts."""

from __future__ import annotations

import math

from calor import dtypes
from calor.errors import DTypeError
from calor.functions.circular import atan2, cos, sin
from calor.functions.complex_parts import imag, real
from calor.functions.creation import ones, zeros
from calor.functions.logic import isnan, signbit
from calor.functions.manipulation import broadcast_arrays
from calor.functions.operands import as_tensor, together
from calor.functions.searching import where
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor
from calor.transforms.grad import stop_gradient


def _parts(x1: Operand, x2: Operand, what: str) -> tuple[Tensor, Tensor]:
    """Return two operands of one shape as float32 or float64."""
    a, b = broadcast_arrays(*together((x1, x2), what))
    if a.dtype.is_complex:
        raise DTypeError(f"{what}: an operand is {a.dtype.name}; both parts are real")
    work = dtypes.float64 if a.dtype is dtypes.float64 else dtypes.float32
    return a.astype(work), b.astype(work)


def complex(real: Operand, imag: Operand, /) -> Tensor:
    """Return complex numbers with the given parts.

    Parameters
    ----------
    real : Tensor, ndarray or number
        The real parts. They broadcast against the imaginary ones.
    imag : Tensor, ndarray or number
        The imaginary parts.

    Returns
    -------
    Tensor
        The broadcast shape; complex128 if a part is float64, else complex64.

    Raises
    ------
    DTypeError
        If a part is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.complex(calor.asarray(1.0), calor.asarray(2.0)).item()
    (1+2j)
    """
    made: Tensor = e.join(*_parts(real, imag, "complex"))
    return made


def polar(magnitude: Operand, angle: Operand, /) -> Tensor:
    """Return complex numbers with the given magnitudes and angles.

    Parameters
    ----------
    magnitude : Tensor, ndarray or number
        The magnitudes. They broadcast against the angles.
    angle : Tensor, ndarray or number
        The angles, in radians.

    Returns
    -------
    Tensor
        The broadcast shape; complex128 if an operand is float64, else complex64.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.polar(calor.asarray(2.0), calor.asarray(0.0)).item()
    (2+0j)
    """
    size, turn = _parts(magnitude, angle, "polar")
    made: Tensor = e.join(size * cos(turn), size * sin(turn))
    return made


def angle(x: Operand, /) -> Tensor:
    """Return the angle of each number in the complex plane.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.

    Returns
    -------
    Tensor
        The shape of ``x``, a real floating dtype; radians from −π to π. Of a real number 0 or π,
        NaN at NaN.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.angle(calor.asarray([1.0, -1.0])).round(decimals=3).tolist()
    [0.0, 3.1419999599456787]
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        return atan2(imag(x), real(x))
    if not x.dtype.is_inexact:
        x = x.astype(dtypes.default_float())
    # The angle of a real number is constant on either side of 0, so its gradient is 0.
    constant: Tensor = stop_gradient(x)
    turned = signbit(constant).astype(constant.dtype) * math.pi
    return where(isnan(constant), constant, turned)


def isreal(x: Operand, /) -> Tensor:
    """Tell for each element whether its imaginary part is 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        Dtype bool, in the shape of ``x``; True for real dtypes.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.isreal(calor.asarray([1.0, 1j])).tolist()
    [True, False]
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        return imag(x) == 0
    return ones(x.shape, dtype=dtypes.bool_, device=x.device)


def iscomplex(x: Operand, /) -> Tensor:
    """Tell for each element whether its imaginary part is not 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        Dtype bool, in the shape of ``x``; False for real dtypes.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.iscomplex(calor.asarray([1.0, 1j])).tolist()
    [False, True]
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        return imag(x) != 0
    return zeros(x.shape, dtype=dtypes.bool_, device=x.device)
