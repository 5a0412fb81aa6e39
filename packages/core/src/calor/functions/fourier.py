"""Discrete Fourier transforms and their frequencies.

Requirements: the standard's n, s, axes and norm; a transform is one op, scaled where the norm asks
for it. Real and integer input is taken where the mathematics allows: integers and half types are
computed in float32, so their transforms are complex64.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, Literal

from calor import dtypes
from calor.backends.selection import as_device, current_device, on_device
from calor.dtypes import as_dtype, complex_of, int64, real_of
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.manipulation import roll
from calor.functions.operands import as_tensor, integer, many_axes, one_axis
from calor.ops import elementwise as e
from calor.ops.movement import number_like, pad, slice_
from calor.ops.sources import iota
from calor.ops.spectral import fft as row

if TYPE_CHECKING:
    from calor.functions.operands import Axis, Operand
    from calor.tensor.tensor import Tensor

Norm = Literal["backward", "ortho", "forward"]
Sizes = Sequence[int] | None

# The norm of the opposite direction: where a forward transform is scaled, its inverse is not.
_OPPOSITE: dict[str, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def fft(x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the discrete Fourier transform Σ x[j] exp(−2πi·jk/n) along an axis; complex.

    x is cut, or filled up with zeros, to ``n`` elements. ``norm`` says which direction is divided
    by n: "backward" the inverse, "forward" this one, "ortho" both by √n. Raises ShapeError for a
    length below 1.

    >>> import calor
    >>> calor.fft.fft(calor.asarray([1.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    return _complex("fft", x, _one(n), axis, norm, forward=True)


def ifft(x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse discrete Fourier transform along an axis; arguments as for ``fft``.

    >>> import calor
    >>> calor.fft.ifft(calor.asarray([3.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    return _complex("ifft", x, _one(n), axis, norm, forward=False)


def fftn(
    x: Operand, /, *, s: Sizes = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the discrete Fourier transform over several axes, all by default.

    ``s`` has the length of each axis; without ``axes`` these are the last ones. ``norm`` is that of
    ``fft``, with the product of the lengths.

    >>> import calor
    >>> calor.fft.fftn(calor.ones((2, 2))).real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    return _complex("fftn", x, s, axes, norm, forward=True)


def ifftn(
    x: Operand, /, *, s: Sizes = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the inverse discrete Fourier transform over several axes; arguments as for ``fftn``.

    >>> import calor
    >>> calor.fft.ifftn(calor.ones((2, 2))).real.tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    return _complex("ifftn", x, s, axes, norm, forward=False)


def rfft(x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the first n // 2 + 1 bins of the transform of a real tensor; the others mirror them.

    Arguments as for ``fft``. Raises DTypeError for a complex tensor.

    >>> import calor
    >>> calor.fft.rfft(calor.asarray([1.0, 2.0, 3.0, 4.0])).real.tolist()
    [10.0, -2.0, -2.0]
    """
    return _to_half("rfft", x, _one(n), axis, norm)


def irfft(
    x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """Return the real tensor of ``n`` elements whose first n // 2 + 1 bins are x.

    ``n`` is 2·(bins − 1) by default, which is even: give it where the length was odd. The imaginary
    part of a bin that mirrors itself is not read. Otherwise as ``ifft``.

    >>> import calor
    >>> calor.fft.irfft(calor.asarray([10.0, -2.0, -2.0])).tolist()
    [1.0, 3.0, 3.0, 3.0]
    """
    return _from_half("irfft", x, _one(n), axis, norm)


def rfftn(
    x: Operand, /, *, s: Sizes = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the transform of a real tensor over several axes; the last one is that of ``rfft``.

    >>> import calor
    >>> calor.fft.rfftn(calor.ones((2, 4))).shape
    (2, 3)
    """
    return _to_half("rfftn", x, s, axes, norm)


def irfftn(
    x: Operand, /, *, s: Sizes = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the inverse of ``rfftn``; the last of ``s`` is 2·(bins − 1) by default.

    >>> import calor
    >>> calor.fft.irfftn(calor.fft.rfftn(calor.ones((2, 4)))).shape
    (2, 4)
    """
    return _from_half("irfftn", x, s, axes, norm)


def hfft(x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the real transform of a signal that mirrors its conjugate, given by its first half.

    ``n`` is the length of the result, 2·(elements − 1) by default.

    >>> import calor
    >>> calor.fft.hfft(calor.asarray([1.0, 2.0, 1.0])).tolist()
    [6.0, 0.0, -2.0, 0.0]
    """
    _check_norm("hfft", norm)
    return _from_half("hfft", e.conjugate(as_tensor(x)), _one(n), axis, _OPPOSITE[norm])


def ihfft(
    x: Operand, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """Return the first half of the signal whose transform is the real tensor x.

    >>> import calor
    >>> calor.fft.ihfft(calor.asarray([6.0, 0.0, -2.0, 0.0])).real.tolist()
    [1.0, 2.0, 1.0]
    """
    _check_norm("ihfft", norm)
    made: Tensor = e.conj(_to_half("ihfft", x, _one(n), axis, _OPPOSITE[norm]))
    return made


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the bins of ``fft`` for samples ``d`` apart, in cycles per unit.

    >>> import calor
    >>> calor.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    count = _length("fftfreq", n)
    places = _ramp(count, device)
    wrapped = e.where(places > (count - 1) // 2, places - count, places)
    return _frequencies("fftfreq", wrapped, count, d, dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the n // 2 + 1 bins of ``rfft`` for samples ``d`` apart.

    >>> import calor
    >>> calor.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    count = _length("rfftfreq", n)
    return _frequencies("rfftfreq", _ramp(count // 2 + 1, device), count, d, dtype)


def fftshift(x: Operand, /, *, axes: Axis = None) -> Tensor:
    """Return the tensor rolled so that frequency 0 stands in the middle, along all axes by default.

    >>> import calor
    >>> calor.fft.fftshift(calor.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _rolled("fftshift", x, axes, 1)


def ifftshift(x: Operand, /, *, axes: Axis = None) -> Tensor:
    """Return what ``fftshift`` gave rolled back.

    >>> import calor
    >>> calor.fft.ifftshift(calor.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    return _rolled("ifftshift", x, axes, -1)


def _one(n: Any) -> Sizes:
    return None if n is None else (n,)


def _length(what: str, n: Any) -> int:
    count = integer(n, f"{what}: n")
    if count < 1:
        raise ShapeError(f"{what}: a transform of length {count}; the length is at least 1")
    return count


def _check_norm(what: str, norm: Any) -> None:
    if norm not in _OPPOSITE:
        raise ArgumentError(f"{what}: norm {norm!r} is none of 'backward', 'ortho', 'forward'")


def _axes(what: str, x: Any, s: Any, axes: Any) -> tuple[tuple[int, ...], list[int | None]]:
    """Return the transformed axes, in the order given, and the length that is asked for on each."""
    given = None if s is None else list(s)
    if axes is None:
        count = x.ndim if given is None else len(given)
        if count > x.ndim:
            raise ShapeError(f"{what}: s {s} has more lengths than shape {x.shape} has axes")
        chosen = tuple(range(x.ndim - count, x.ndim))
    else:
        several = axes if isinstance(axes, Sequence) else (axes,)
        chosen = tuple(one_axis(a, x.shape, what) for a in several)
    if not chosen:
        raise ShapeError(f"{what}: there is no axis to transform for shape {x.shape}")
    if len(set(chosen)) != len(chosen):
        raise ShapeError(f"{what}: axes {axes} name an axis of shape {x.shape} twice")
    lengths: list[Any] = [None] * len(chosen) if given is None else given
    if len(lengths) != len(chosen):
        raise ShapeError(f"{what}: s {s} and axes {axes} have different numbers of entries")
    return chosen, [None if n in (None, -1) else _length(what, n) for n in lengths]


def _fitted(x: Any, axes: Sequence[int], lengths: Sequence[int]) -> Any:
    """Return x cut, or filled up with zeros at the end, to a length on each of the axes."""
    stops, high = list(x.shape), [0] * x.ndim
    for a, n in zip(axes, lengths, strict=True):
        stops[a] = min(n, x.shape[a])
        high[a] = max(0, n - x.shape[a])
    none = (0,) * x.ndim
    if tuple(stops) != x.shape:
        x = slice_(x, starts=none, stops=tuple(stops), steps=(1,) * x.ndim)
    if any(high):
        x = pad(x, number_like(x, 0), low=none, high=tuple(high), interior=none)
    return x


def _whole(what: str, x: Any, axes: Sequence[int], lengths: Sequence[int | None]) -> list[int]:
    """Return the length of each axis: the one asked for, else that of x."""
    return [
        _length(what, x.shape[a]) if n is None else n for a, n in zip(axes, lengths, strict=True)
    ]


def _scaled(y: Any, sizes: Sequence[int], norm: str, forward: bool) -> Tensor:
    made: Tensor = y
    if norm == "ortho":
        made = y * (1 / sqrt(prod(sizes)))
    elif (norm == "forward") is forward:
        made = y * (1 / prod(sizes))
    return made


def _wide(x: Any) -> Any:
    """Return a tensor in a dtype that transforms compute in: integers and half types as float32."""
    dtype = dtypes.float_of(x.dtype)
    if dtype.itemsize == 2:
        dtype = dtypes.float32
    return x if x.dtype is dtype else e.cast(x, dtype=dtype)


def _as_complex(x: Any) -> Any:
    x = _wide(as_tensor(x))
    return x if x.dtype.is_complex else e.cast(x, dtype=complex_of(x.dtype))


def _complex(what: str, x: Any, s: Any, axes: Any, norm: str, *, forward: bool) -> Tensor:
    _check_norm(what, norm)
    x = _as_complex(x)
    chosen, lengths = _axes(what, x, s, axes)
    sizes = _whole(what, x, chosen, lengths)
    kind = "forward" if forward else "inverse"
    y = row(_fitted(x, chosen, sizes), kind=kind, axes=chosen, length=sizes[-1])
    return _scaled(y, sizes, norm, forward)


def _to_half(what: str, x: Any, s: Any, axes: Any, norm: str) -> Tensor:
    _check_norm(what, norm)
    x = as_tensor(x)
    if x.dtype.is_complex:
        raise DTypeError(f"{what} takes real tensors, not {x.dtype.name}; use calor.fft.fft")
    x = _wide(x)
    chosen, lengths = _axes(what, x, s, axes)
    sizes = _whole(what, x, chosen, lengths)
    y = row(_fitted(x, chosen, sizes), kind="r2c", axes=chosen, length=sizes[-1])
    return _scaled(y, sizes, norm, True)


def _from_half(what: str, x: Any, s: Any, axes: Any, norm: str) -> Tensor:
    _check_norm(what, norm)
    x = _as_complex(x)
    chosen, lengths = _axes(what, x, s, axes)
    if lengths[-1] is None:
        lengths[-1] = _length(what, 2 * (x.shape[chosen[-1]] - 1))
    sizes = _whole(what, x, chosen, lengths)
    bins = [*sizes[:-1], sizes[-1] // 2 + 1]
    y = row(_fitted(x, chosen, bins), kind="c2r", axes=chosen, length=sizes[-1])
    return _scaled(y, sizes, norm, False)


def _ramp(count: int, device: Any) -> Any:
    with on_device(current_device() if device is None else as_device(device)):
        return iota(length=count, dtype=int64)


def _frequencies(what: str, places: Any, count: int, d: float, dtype: Any) -> Tensor:
    wanted = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if real_of(wanted) is not wanted or wanted.kind != "float":
        raise DTypeError(f"{what}: frequencies are real floating numbers, not {wanted.name}")
    made: Tensor = e.cast(places, dtype=wanted) / (count * d)
    return made


def _rolled(what: str, x: Any, axes: Any, direction: int) -> Tensor:
    x = as_tensor(x)
    chosen = many_axes(axes, x.shape, what)
    half = [n // 2 if direction > 0 else -(n // 2) for n in (x.shape[a] for a in chosen)]
    return roll(x, tuple(half), axis=chosen)
