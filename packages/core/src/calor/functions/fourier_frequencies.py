"""The frequencies of a Fourier transform's bins, and their order."""

from __future__ import annotations

from typing import Any

from calor import dtypes
from calor.device_selection import as_device, current_device
from calor.dtypes import as_dtype, int64, real_of
from calor.errors import DTypeError
from calor.functions.arguments import many_axes
from calor.functions.fourier_record import checked_length
from calor.functions.operands import as_tensor
from calor.functions.repeating import roll
from calor.ops import elementwise as e
from calor.ops.sources import iota
from calor.tensor.tensor import Axis, Operand, Tensor


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the bins of `fft`, in cycles per unit of the sample distance.

    Parameters
    ----------
    n : int
        The length of the transform, at least 1.
    d : float, optional
        The distance between samples. By default 1.
    dtype : DType or str, optional
        A real floating dtype. By default float32.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.

    Returns
    -------
    Tensor
        Shape (n,): 0 and the positive frequencies, then the negative ones.

    Raises
    ------
    ShapeError
        If ``n`` is less than 1.
    DTypeError
        If ``dtype`` is not real floating.

    References
    ----------
    Python array API standard 2024.12, ``fft.fftfreq``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    count = checked_length("fftfreq", n)
    places = _ramp(count, device)
    wrapped = e.where(places > (count - 1) // 2, places - count, places)
    return _frequencies("fftfreq", wrapped, count, d, dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the bins of `rfft`, in cycles per unit of the sample distance.

    Parameters
    ----------
    n : int
        The length of the transform, at least 1.
    d : float, optional
        The distance between samples. By default 1.
    dtype : DType or str, optional
        A real floating dtype. By default float32.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.

    Returns
    -------
    Tensor
        Shape (n // 2 + 1,), ascending from 0.

    Raises
    ------
    ShapeError
        If ``n`` is less than 1.
    DTypeError
        If ``dtype`` is not real floating.

    References
    ----------
    Python array API standard 2024.12, ``fft.rfftfreq``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    count = checked_length("rfftfreq", n)
    return _frequencies("rfftfreq", _ramp(count // 2 + 1, device), count, d, dtype)


def fftshift(x: Operand, /, axes: Axis = None) -> Tensor:  # numpydoc ignore=RS01
    """Return the tensor rolled so that frequency 0 is in the middle.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    axes : int or tuple of int, optional
        The axes to roll along. By default all.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    AxisError
        If an axis does not exist.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``fft.fftshift``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.fftshift(calor.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _rolled("fftshift", x, axes, 1)


def ifftshift(x: Operand, /, axes: Axis = None) -> Tensor:  # numpydoc ignore=RS01
    """Return the tensor rolled back from `fftshift`.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    axes : int or tuple of int, optional
        The axes to roll along. By default all.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    AxisError
        If an axis does not exist.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``fft.ifftshift``.

    Examples
    --------
    >>> import calor
    >>> calor.fft.ifftshift(calor.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    return _rolled("ifftshift", x, axes, -1)


def _ramp(count: int, device: Any) -> Any:
    with current_device() if device is None else as_device(device):
        return iota(length=count, dtype=int64)


def _frequencies(what: str, places: Any, count: int, d: float, dtype: Any) -> Tensor:
    wanted = dtypes.default_float() if dtype is None else as_dtype(dtype)
    if real_of(wanted) is not wanted or wanted.kind != "float":
        raise DTypeError(f"{what}: frequencies are real floating numbers, not {wanted.name}")
    made: Tensor = e.cast(places, dtype=wanted) / (count * d)
    return made


def _rolled(what: str, x: Any, axes: Any, direction: int) -> Tensor:
    x = as_tensor(x)
    chosen = many_axes(axes, x.shape, what)
    half = [n // 2 if direction > 0 else -(n // 2) for n in (x.shape[a] for a in chosen)]
    return roll(x, tuple(half), axis=chosen)
