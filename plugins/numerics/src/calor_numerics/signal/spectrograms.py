"""The short-time Fourier transform and its inverse, with the options of PyTorch.

Requirements: frames are gathered and added back at places that are known when the graph is built,
so both have gradients and run as one gather, one product and one transform.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from calor.dtypes import complex64, complex128, float64
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer
from calor.functions.creation import asarray
from calor.functions.fourier import fft, ifft, irfft, rfft
from calor.functions.joining import pad
from calor.functions.operands import as_tensor
from calor.local import local
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.indexing import gather, scatter_along
from calor.ops.movement import expand, permute, reshape, slice_
from calor.tensor.tensor import Operand, Tensor

PadMode = Literal["constant", "reflect", "replicate", "circular"]
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
# An overlap of squared windows below this leaves nothing to divide.
_LEAST = 1e-11


def _window(what: str, window: Any, n_fft: int, win_length: int, like: Any) -> Any:
    """Return a window of n_fft elements in the real dtype of a signal; None for ones."""
    if not 0 < win_length <= n_fft:
        raise ArgumentError(f"{what}: win_length is {win_length}; pass 1 to n_fft = {n_fft}")
    if window is None:
        if win_length == n_fft:
            return None
        window = asarray(np.ones(win_length), dtype=like.dtype, device=like.device)
    window = as_tensor(window, like)
    if window.shape != (win_length,):
        raise ShapeError(
            f"{what}: the window has shape {window.shape}; pass {win_length} elements (win_length)"
        )
    if window.dtype is not like.dtype:
        window = e.cast(window, dtype=like.dtype)
    before = (n_fft - win_length) // 2
    return pad(window, (before, n_fft - win_length - before)) if win_length < n_fft else window


def _sizes(what: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    n = integer(n_fft, f"{what}: n_fft")
    hop = n // 4 if hop_length is None else integer(hop_length, f"{what}: hop_length")
    width = n if win_length is None else integer(win_length, f"{what}: win_length")
    if n < 1 or hop < 1:
        raise ArgumentError(f"{what}: n_fft is {n} and hop_length {hop}; both are at least 1")
    return n, hop, width


def _places(frames: int, n: int, hop: int, device: Any) -> Any:
    """Return the place in the signal of every element of every frame, int64[frames, n]."""
    return asarray(hop * np.arange(frames)[:, None] + np.arange(n), device=device)


def stft(
    x: Operand,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Operand | None = None,
    *,
    center: bool = True,
    pad_mode: PadMode = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
) -> Tensor:
    """Return the short-time Fourier transform: the transform of each window along a signal.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Signals of shape (..., L); float32, float64, complex64 or complex128.
    n_fft : int
        The length of each transform.
    hop_length : int, optional
        The distance of two frames. By default ``n_fft // 4``.
    win_length : int, optional
        The length of the window, which is centred in the frame. By default ``n_fft``.
    window : Tensor, optional
        The window, of shape (win_length,), such as one of `calor.signal.windows`. By default ones.
    center : bool, optional
        Pad the signal so that frame t is centred at ``t * hop_length``. By default True.
    pad_mode : {"reflect", "constant", "replicate", "circular"}, optional
        How it is padded. By default "reflect".
    normalized : bool, optional
        Divide by the root of ``n_fft``. By default False.
    onesided : bool, optional
        Return the first ``n_fft // 2 + 1`` bins alone. By default True for real signals and
        windows.

    Returns
    -------
    Tensor
        Shape (..., bins, frames), complex in the precision of ``x``.

    Raises
    ------
    TypeError
        If a length or a distance is no whole number.
    ArgumentError
        If a size is out of range, ``pad_mode`` is another name, or one side is asked for of a
        complex signal.
    ShapeError
        If ``x`` has no axis, is shorter than a frame, or the window has another length.
    DTypeError
        If ``x`` has a dtype without a Fourier transform.

    See Also
    --------
    istft : The inverse.

    Examples
    --------
    >>> import calor
    >>> window = calor.signal.windows.hann(16, sym=False)
    >>> calor.signal.stft(calor.ones(64), 16, window=window).shape
    (9, 17)
    """
    signal: Any = as_tensor(x)
    n, hop, width = _sizes("stft", n_fft, hop_length, win_length)
    if pad_mode not in _MODES:
        raise ArgumentError(f"stft: pad_mode {pad_mode!r} is none of {', '.join(_MODES)}")
    if not signal.ndim:
        raise ShapeError("stft: x has no axis; pass signals of shape (..., L)")
    if center:
        ends = [(0, 0)] * (signal.ndim - 1) + [(n // 2, n // 2)]
        signal = pad(signal, ends, mode=_MODES[pad_mode])  # type: ignore[arg-type]
    length = signal.shape[-1]
    if length < n:
        raise ShapeError(
            f"stft: {length} elements are no frame of n_fft = {n}; pass a longer signal"
        )
    whole = signal.dtype.is_complex or (window is not None and as_tensor(window).dtype.is_complex)
    if onesided is None:
        onesided = not whole
    if onesided and whole:
        raise ArgumentError("stft: onesided=True needs a real signal; a complex one has two sides")
    frames = (length - n) // hop + 1
    cut = gather(signal, _places(frames, n, hop, signal.device), axis=signal.ndim - 1)
    if whole and window is not None and not cut.dtype.is_complex:
        cut = e.cast(cut, dtype=complex128 if cut.dtype is float64 else complex64)
    weights = _window("stft", window, n, width, cut)
    if weights is not None:
        cut = cut * expand(weights, shape=cut.shape)
    made: Any = rfft(cut) if onesided else fft(cut)
    if normalized:
        made = made * n**-0.5
    return permute(made, axes=(*range(made.ndim - 2), made.ndim - 1, made.ndim - 2))  # type: ignore[no-any-return]


def istft(
    x: Operand,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Operand | None = None,
    *,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signal of a short-time Fourier transform, by least squares of its frames.

    Parameters
    ----------
    x : Tensor, ndarray or number
        What `stft` gave: shape (..., bins, frames), complex.
    n_fft : int
        The length of each transform.
    hop_length : int, optional
        The distance of two frames. By default ``n_fft // 4``.
    win_length : int, optional
        The length of the window. By default ``n_fft``.
    window : Tensor, optional
        The window, of shape (win_length,). By default ones.
    center : bool, optional
        Whether the frames were centred. By default True.
    normalized : bool, optional
        Whether the transform was divided by the root of ``n_fft``. By default False.
    onesided : bool, optional
        Whether it has the first ``n_fft // 2 + 1`` bins alone. By default, if it has that many.
    length : int, optional
        The length of the signal, which is cut or filled with zeros. By default what the frames
        cover.
    return_complex : bool, optional
        Return a complex signal; all bins are needed. By default False.

    Returns
    -------
    Tensor
        Shape (..., L), real unless ``return_complex``.

    Raises
    ------
    TypeError
        If a length or a distance is no whole number.
    ArgumentError
        If a size is out of range, a complex signal is asked for from one side, or the squared
        windows add up to 0 somewhere.
    ShapeError
        If ``x`` has fewer than two axes, no frame or another number of bins, or the window has
        another length.
    DTypeError
        If ``x`` is not complex.

    References
    ----------
    D. W. Griffin and J. S. Lim, "Signal estimation from modified short-time Fourier transform",
    IEEE Transactions on Acoustics, Speech, and Signal Processing 32(2), 1984.

    Examples
    --------
    >>> import calor
    >>> x = calor.linspace(0, 1, 64)
    >>> window = calor.signal.windows.hann(16, sym=False)
    >>> back = calor.signal.istft(calor.signal.stft(x, 16, window=window), 16, window=window)
    >>> calor.allclose(back, x, atol=1e-6)
    True
    """
    spectrum: Any = as_tensor(x)
    n, hop, width = _sizes("istft", n_fft, hop_length, win_length)
    length = None if length is None else integer(length, "istft: length")
    if length is not None and length < 0:
        raise ArgumentError(f"istft: length is {length}; give at least 0")
    bins = spectrum.shape[-2] if spectrum.ndim > 1 else 0
    one = n // 2 + 1
    if onesided is None:
        onesided = bins != n and not return_complex
    wanted = one if onesided else n
    if bins != wanted or not spectrum.shape[-1]:
        raise ShapeError(
            f"istft: x has shape {spectrum.shape}; pass (..., {wanted}, frames) for n_fft = {n} "
            f"and onesided={onesided}"
        )
    if onesided and return_complex:
        raise ArgumentError("istft: a complex signal needs both sides; pass onesided=False")
    frames = spectrum.shape[-1]
    ndim = spectrum.ndim
    turned = permute(spectrum, axes=(*range(ndim - 2), ndim - 1, ndim - 2))
    if normalized:
        turned = turned * n**0.5
    made: Any = irfft(turned, n=n) if onesided else ifft(turned)
    if not onesided and not return_complex:
        made = e.real(made)
    weights = _window("istft", window, n, width, made)
    if weights is None:
        weights = asarray(np.ones(n), dtype=made.dtype, device=made.device)
    total = n + hop * (frames - 1)
    summed = _added(made * expand(weights, shape=made.shape), frames, n, hop, total)
    square = expand(weights * weights, shape=(frames, n))
    envelope = _added(square, frames, n, hop, total)
    start = n // 2 if center else 0
    stop = total - start if length is None else min(start + length, total)
    summed, envelope = (_part(t, start, max(stop, start)) for t in (summed, envelope))
    if not local.jit:
        _check(envelope)
    result = summed / expand(envelope, shape=summed.shape)
    missing = 0 if length is None else length - result.shape[-1]
    if missing > 0:
        result = pad(result, [(0, 0)] * (result.ndim - 1) + [(0, missing)])
    return result  # type: ignore[no-any-return]


def _added(frames: Any, count: int, n: int, hop: int, total: int) -> Any:
    """Return frames (..., count, n) added at their places in signals (..., total)."""
    lead = frames.shape[:-2]
    flat = reshape(frames, shape=(*lead, count * n))
    places = reshape(_places(count, n, hop, frames.device), shape=(count * n,))
    zeros = asarray(np.zeros(()), dtype=frames.dtype, device=frames.device)
    zeros = expand(zeros, shape=(*lead, total))
    return scatter_along(
        zeros, expand(places, shape=flat.shape), flat, axis=flat.ndim - 1, update="add"
    )


def _part(x: Any, start: int, stop: int) -> Any:
    lead = x.shape[:-1]
    return slice_(x, starts=(*(0 for _ in lead), start), stops=(*lead, stop), steps=(1,) * x.ndim)


def _check(envelope: Any) -> None:
    """Raise unless every element of the signal is in a frame whose window is not 0 there."""
    if not envelope.size:
        return
    least = r.min(e.abs(envelope.detach()), axes=(0,)).item()
    if not least > _LEAST:
        raise ArgumentError(
            f"istft: squared windows add up to {least} somewhere; pass a window without zeros, "
            f"a smaller hop_length, or center=True"
        )
