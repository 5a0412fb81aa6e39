"""Discrete Fourier transforms, with the n, s, axes and norm of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence

from calor.functions.fourier_record import (
    OPPOSITE,
    Norm,
    Sizes,
    check_norm,
    complex_transform,
    half_to_real,
    lengths_of,
    real_to_half,
)
from calor.functions.operands import as_tensor
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def fft(x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the discrete Fourier transform Σ x[j] exp(−2πi·jk/n) along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8. Half types and integers are computed in float32.
    n : int, optional
        The length of the transform: ``x`` is cut, or filled with zeros at the end. By default the
        size of the axis.
    axis : int, optional
        The axis to transform. By default the last.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by n: the inverse (the default), both by √n, or this one.

    Returns
    -------
    Tensor
        Dtype complex64, or complex128 for float64 and complex128; n elements along the axis.

    Raises
    ------
    ShapeError
        If the length is less than 1.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``fft.fft``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.fft(calor.asarray([1.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    return complex_transform("fft", x, lengths_of(n), axis, norm, forward=True)


def ifft(x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse discrete Fourier transform along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8.
    n : int, optional
        The length of the transform: ``x`` is cut, or filled with zeros at the end. By default the
        size of the axis.
    axis : int, optional
        The axis to transform. By default the last.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by n, as in `fft`. By default this one.

    Returns
    -------
    Tensor
        Dtype complex64, or complex128 for float64 and complex128; n elements along the axis.

    Raises
    ------
    ShapeError
        If the length is less than 1.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``fft.ifft``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.ifft(calor.asarray([3.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    return complex_transform("ifft", x, lengths_of(n), axis, norm, forward=False)


def fftn(
    x: Operand, /, *, s: Sizes = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the discrete Fourier transform over several axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8.
    s : sequence of int, optional
        The length of the transform on each axis: ``x`` is cut, or filled with zeros at the end. By
        default the sizes of the axes.
    axes : sequence of int, optional
        The axes to transform. By default the last ``len(s)``, or all.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by the product of the lengths, as in `fft`.

    Returns
    -------
    Tensor
        Dtype complex64, or complex128 for float64 and complex128.

    Raises
    ------
    ShapeError
        If a length is less than 1, or ``s`` and ``axes`` do not fit the shape.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If an axis does not exist.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``fft.fftn``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.fftn(calor.ones((2, 2))).real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    return complex_transform("fftn", x, s, axes, norm, forward=True)


def ifftn(
    x: Operand, /, *, s: Sizes = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the inverse discrete Fourier transform over several axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8.
    s : sequence of int, optional
        The length of the transform on each axis, as in `fftn`.
    axes : sequence of int, optional
        The axes to transform. By default the last ``len(s)``, or all.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by the product of the lengths, as in `fft`.

    Returns
    -------
    Tensor
        Dtype complex64, or complex128 for float64 and complex128.

    Raises
    ------
    ShapeError
        If a length is less than 1, or ``s`` and ``axes`` do not fit the shape.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If an axis does not exist.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``fft.ifftn``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.ifftn(calor.ones((2, 2))).real.tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    return complex_transform("ifftn", x, s, axes, norm, forward=False)


def rfft(x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the first n // 2 + 1 bins of the transform of a real tensor.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a real dtype.
    n : int, optional
        The length of the transform: ``x`` is cut, or filled with zeros at the end. By default the
        size of the axis.
    axis : int, optional
        The axis to transform. By default the last.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by n, as in `fft`.

    Returns
    -------
    Tensor
        Dtype complex64, or complex128 for float64; n // 2 + 1 bins along the axis. The others are
        their conjugates, mirrored.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.
    ShapeError
        If the length is less than 1.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If ``axis`` does not fit the shape of ``x``.

    References
    ----------
    Python array API standard 2024.12, ``fft.rfft``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.rfft(calor.asarray([1.0, 2.0, 3.0, 4.0])).real.tolist()
    [10.0, -2.0, -2.0]
    """
    return real_to_half("rfft", x, lengths_of(n), axis, norm)


def irfft(
    x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """Return the real tensor whose first n // 2 + 1 bins are given.

    Parameters
    ----------
    x : Tensor, ndarray or number
        The bins. The imaginary part of a bin that is its own mirror image counts as 0; only where
        it is infinite or NaN may a device lose the whole line, which NumPy does not.
    n : int, optional
        The length of the result. By default 2·(bins − 1), which is even: give it if the length was
        odd.
    axis : int, optional
        The axis to transform. By default the last.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by n, as in `fft`.

    Returns
    -------
    Tensor
        Dtype float32, or float64 for float64 and complex128; n elements along the axis.

    Raises
    ------
    ShapeError
        If the length is less than 1.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``fft.irfft``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.irfft(calor.asarray([10.0, -2.0, -2.0])).tolist()
    [1.0, 3.0, 3.0, 3.0]
    """
    return half_to_real("irfft", x, lengths_of(n), axis, norm)


def rfftn(
    x: Operand, /, *, s: Sizes = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the transform of a real tensor over several axes, half of it along the last.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a real dtype.
    s : sequence of int, optional
        The length of the transform on each axis, as in `fftn`.
    axes : sequence of int, optional
        The axes to transform; the last of them has n // 2 + 1 bins, as in `rfft`. By default the
        last ``len(s)``, or all.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by the product of the lengths, as in `fft`.

    Returns
    -------
    Tensor
        Dtype complex64, or complex128 for float64.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.
    ShapeError
        If a length is less than 1, or ``s`` and ``axes`` do not fit the shape.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If an axis does not exist.

    References
    ----------
    Python array API standard 2024.12, ``fft.rfftn``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.rfftn(calor.ones((2, 4))).shape
    (2, 3)
    """
    return real_to_half("rfftn", x, s, axes, norm)


def irfftn(
    x: Operand, /, *, s: Sizes = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the inverse of `rfftn`, a real tensor.

    Parameters
    ----------
    x : Tensor, ndarray or number
        The bins; along the last of ``axes`` the first half of them.
    s : sequence of int, optional
        The length of the result on each axis. By default the sizes of ``x``, and 2·(bins − 1) for
        the last axis.
    axes : sequence of int, optional
        The axes to transform. By default the last ``len(s)``, or all.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by the product of the lengths, as in `fft`.

    Returns
    -------
    Tensor
        Dtype float32, or float64 for float64 and complex128.

    Raises
    ------
    ShapeError
        If a length is less than 1, or ``s`` and ``axes`` do not fit the shape.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If an axis does not exist.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``fft.irfftn``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.irfftn(calor.fft.rfftn(calor.ones((2, 4)))).shape
    (2, 4)
    """
    return half_to_real("irfftn", x, s, axes, norm)


def hfft(x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the real transform of a Hermitian signal, given by its first half.

    Parameters
    ----------
    x : Tensor, ndarray or number
        The first n // 2 + 1 elements of a signal whose other half is their mirrored conjugate.
    n : int, optional
        The length of the result. By default 2·(elements − 1).
    axis : int, optional
        The axis to transform. By default the last.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by n, as in `fft`.

    Returns
    -------
    Tensor
        Dtype float32, or float64 for float64 and complex128; n elements along the axis.

    Raises
    ------
    ShapeError
        If the length is less than 1.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``fft.hfft``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.hfft(calor.asarray([1.0, 2.0, 1.0])).tolist()
    [6.0, 0.0, -2.0, 0.0]
    """
    check_norm("hfft", norm)
    return half_to_real("hfft", e.conjugate(as_tensor(x)), lengths_of(n), axis, OPPOSITE[norm])


def ihfft(
    x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """Return the first half of the Hermitian signal whose transform is a real tensor.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a real dtype.
    n : int, optional
        The length of the transform: ``x`` is cut, or filled with zeros at the end. By default the
        size of the axis.
    axis : int, optional
        The axis to transform. By default the last.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction is divided by n, as in `fft`.

    Returns
    -------
    Tensor
        Dtype complex64, or complex128 for float64; n // 2 + 1 elements along the axis.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.
    ShapeError
        If the length is less than 1.
    ArgumentError
        If ``norm`` is another name.
    AxisError
        If ``axis`` does not fit the shape of ``x``.

    References
    ----------
    Python array API standard 2024.12, ``fft.ihfft``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.ihfft(calor.asarray([6.0, 0.0, -2.0, 0.0])).real.tolist()
    [1.0, 2.0, 1.0]
    """
    check_norm("ihfft", norm)
    made: Tensor = e.conj(real_to_half("ihfft", x, lengths_of(n), axis, OPPOSITE[norm]))
    return made
