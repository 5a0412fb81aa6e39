"""Windows of a length, equal to those of PyTorch and SciPy.

Requirements: a window depends on numbers alone, so it is computed once on the host, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calor import dtypes
from calor.dtypes import as_dtype
from calor.errors import ArgumentError, DTypeError
from calor.functions.arguments import integer
from calor.functions.creation import asarray
from calor.tensor.tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(
    name: str,
    length: Any,
    sym: bool,
    dtype: Any,
    device: Any,
    function: Callable[[Any, int], Any],
) -> Tensor:
    """Return function(places, span) of a window; the places are 0 … length − 1."""
    count = integer(length, f"{name}: length")
    if count < 0:
        raise ArgumentError(f"{name}: length is {count}; pass a length of at least 0")
    known = dtypes.default_float() if dtype is None else as_dtype(dtype)
    if not known.is_floating or known.is_complex:
        raise DTypeError(f"{name}: a window is real floating, not {known.name}")
    span = count - 1 if sym else count
    values = np.ones(count) if count <= 1 else function(np.arange(count), span)
    return asarray(values, dtype=known, device=device)


def _cosines(coefficients: Sequence[float]) -> Callable[[Any, int], Any]:
    def values(k: Any, span: int) -> Any:
        terms = [
            (-1) ** i * a * np.cos(2 * np.pi * i * k / span) for i, a in enumerate(coefficients)
        ]
        return sum(terms, np.zeros(len(k)))

    return values


def _positive(name: str, what: str, value: float) -> None:
    if not value > 0:
        raise ArgumentError(f"{name}: {what} is {value}; pass a positive number")


def bartlett(
    length: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return a triangle that is 0 at its ends.

    Parameters
    ----------
    length : int
        The number of elements.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.bartlett(5)[2].item()
    1.0
    """
    return _window("bartlett", length, sym, dtype, device, lambda k, n: 1 - np.abs(2 * k / n - 1))


def blackman(
    length: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return Blackman's window, of three cosines.

    Parameters
    ----------
    length : int
        The number of elements.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.blackman(5)[2].item()
    1.0
    """
    return _window("blackman", length, sym, dtype, device, _cosines((0.42, 0.5, 0.08)))


def cosine(
    length: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return half a period of a sine, which is not 0 at its ends.

    Parameters
    ----------
    length : int
        The number of elements.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.cosine(5)[2].item()
    1.0
    """
    return _window(
        "cosine", length, sym, dtype, device, lambda k, n: np.sin(np.pi * (k + 0.5) / (n + 1))
    )


def exponential(
    length: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return a window that decays exponentially from its peak.

    Parameters
    ----------
    length : int
        The number of elements.
    center : float, optional
        The place of the peak; with ``sym`` only the middle. By default the middle.
    tau : float, optional
        The distance in which it falls to 1/e. By default 1.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative, ``tau`` is not positive, or a symmetric window gets a
        ``center``.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.exponential(5)[2].item()
    1.0
    """
    _positive("exponential", "tau", tau)
    if sym and center is not None:
        raise ArgumentError("exponential: a symmetric window has its center in the middle")
    return _window(
        "exponential", length, sym, dtype, device,
        lambda k, n: np.exp(-np.abs(k - (n / 2 if center is None else center)) / tau),
    )  # fmt: skip


def gaussian(
    length: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return a normal density with the value 1 in the middle.

    Parameters
    ----------
    length : int
        The number of elements.
    std : float, optional
        The standard deviation, in elements. By default 1.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative or ``std`` is not positive.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.gaussian(5)[2].item()
    1.0
    """
    _positive("gaussian", "std", std)
    return _window(
        "gaussian", length, sym, dtype, device, lambda k, n: np.exp(-(((k - n / 2) / std) ** 2) / 2)
    )


def general_cosine(
    length: int,
    a: Sequence[float],
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return a sum of cosines, a₀ − a₁ cos t + a₂ cos 2t ….

    Parameters
    ----------
    length : int
        The number of elements.
    a : sequence of float
        The factors of the cosines; their signs alternate.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative or there is no factor.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.general_cosine(5, [0.5, 0.5])[2].item()
    1.0
    """
    if not len(a):
        raise ArgumentError("general_cosine: there is no factor; pass at least one")
    return _window("general_cosine", length, sym, dtype, device, _cosines(tuple(map(float, a))))


def general_hamming(
    length: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return a window of a constant and a cosine.

    Parameters
    ----------
    length : int
        The number of elements.
    alpha : float, optional
        The factor of the constant; 1 − alpha is that of the cosine. By default 0.54.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.general_hamming(5)[2].item()
    1.0
    """
    return _window("general_hamming", length, sym, dtype, device, _cosines((alpha, 1 - alpha)))


def hamming(
    length: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return Hamming's window, with the smallest nearest side lobe.

    Parameters
    ----------
    length : int
        The number of elements.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.hamming(5)[2].item()
    1.0
    """
    return _window("hamming", length, sym, dtype, device, _cosines((0.54, 0.46)))


def hann(
    length: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return Hann's window, a raised cosine that is 0 at its ends.

    Parameters
    ----------
    length : int
        The number of elements.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.hann(5)[2].item()
    1.0
    """
    return _window("hann", length, sym, dtype, device, _cosines((0.5, 0.5)))


def kaiser(
    length: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return Kaiser's window, made of the Bessel function I₀.

    Parameters
    ----------
    length : int
        The number of elements.
    beta : float, optional
        The shape: 0 is a rectangle; larger values have lower side lobes. By default 12.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative or ``beta`` is.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.kaiser(5, beta=2.0)[2].item()
    1.0
    """
    if not beta >= 0:
        raise ArgumentError(f"kaiser: beta is {beta}; pass a number of at least 0")

    def values(k: Any, span: int) -> Any:
        inside = np.maximum(1 - (2 * k / span - 1) ** 2, 0)
        return np.i0(beta * np.sqrt(inside)) / np.i0(beta)

    return _window("kaiser", length, sym, dtype, device, values)


def nuttall(
    length: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return Nuttall's window, of four cosines, with low side lobes.

    Parameters
    ----------
    length : int
        The number of elements.
    sym : bool, optional
        Return a symmetric window, for filters; with False a period of a longer one, for spectra. By
        default True.
    dtype : DType or str, optional
        A real floating dtype. By default the default floating dtype.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (length,).

    Raises
    ------
    TypeError
        If ``length`` is no whole number.
    ArgumentError
        If ``length`` is negative.
    DTypeError
        If ``dtype`` is not real floating.

    Examples
    --------
    >>> import calor
    >>> calor.signal.windows.nuttall(5)[2].item()
    1.0
    """
    return _window(
        "nuttall",
        length,
        sym,
        dtype,
        device,
        _cosines((0.3635819, 0.4891775, 0.1365995, 0.0106411)),
    )
