"""Recording a Fourier transform: its axes, lengths and norm settled, then one op.

Requirements: integers and half types are computed in float32, so their transforms are complex64;
the result is scaled only where the norm asks for it, or the operand of a transform of real numbers:
a product of complex numbers would make NaN of the zero beside what is not finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any, Literal

from calor import dtypes
from calor.dtypes import complex_of
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.arguments import integer, one_axis
from calor.functions.operands import as_tensor
from calor.ops import elementwise as e
from calor.ops.movement import number_like, pad, slice_
from calor.ops.spectral import fft as row
from calor.tensor.tensor import Tensor

Norm = Literal["backward", "ortho", "forward"]
Sizes = Sequence[int] | None

# The norm of the opposite direction: where a forward transform is scaled, its inverse is not.
OPPOSITE: dict[str, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def lengths_of(n: Any) -> Sizes:
    """Return the lengths that a transform over one axis is given."""
    return None if n is None else (n,)


def checked_length(what: str, n: Any) -> int:
    """Return the length of a transform; ShapeError if it is less than 1."""
    count = integer(n, f"{what}: n")
    if count < 1:
        raise ShapeError(f"{what}: a transform of length {count}; the length is at least 1")
    return count


def check_norm(what: str, norm: Any) -> None:
    """Raise ArgumentError for a norm that the standard does not have."""
    if norm not in OPPOSITE:
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
    return chosen, [None if n in (None, -1) else checked_length(what, n) for n in lengths]


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
        checked_length(what, x.shape[a]) if n is None else n
        for a, n in zip(axes, lengths, strict=True)
    ]


def _scaled(y: Any, sizes: Sequence[int], norm: str, forward: bool) -> Tensor:
    """Return a result, or an operand of real numbers, by the factor of a norm."""
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


def complex_transform(what: str, x: Any, s: Any, axes: Any, norm: str, *, forward: bool) -> Tensor:
    """Record a complex transform, forward or inverse."""
    check_norm(what, norm)
    x = _as_complex(x)
    chosen, lengths = _axes(what, x, s, axes)
    sizes = _whole(what, x, chosen, lengths)
    kind = "forward" if forward else "inverse"
    y = row(_fitted(x, chosen, sizes), kind=kind, axes=chosen, length=sizes[-1])
    return _scaled(y, sizes, norm, forward)


def real_to_half(what: str, x: Any, s: Any, axes: Any, norm: str) -> Tensor:
    """Record the transform of a real tensor, of which half the bins of the last axis are kept."""
    check_norm(what, norm)
    x = as_tensor(x)
    if x.dtype.is_complex:
        raise DTypeError(f"{what} takes real tensors, not {x.dtype.name}; use calor.fft.fft")
    x = _wide(x)
    chosen, lengths = _axes(what, x, s, axes)
    sizes = _whole(what, x, chosen, lengths)
    x = _scaled(_fitted(x, chosen, sizes), sizes, norm, True)
    made: Tensor = row(x, kind="r2c", axes=chosen, length=sizes[-1])
    return made


def half_to_real(what: str, x: Any, s: Any, axes: Any, norm: str) -> Tensor:
    """Record the inverse transform to a real tensor of half the bins of the last axis."""
    check_norm(what, norm)
    x = _as_complex(x)
    chosen, lengths = _axes(what, x, s, axes)
    if lengths[-1] is None:
        lengths[-1] = checked_length(what, 2 * (x.shape[chosen[-1]] - 1))
    sizes = _whole(what, x, chosen, lengths)
    bins = [*sizes[:-1], sizes[-1] // 2 + 1]
    y = row(_fitted(x, chosen, bins), kind="c2r", axes=chosen, length=sizes[-1])
    return _scaled(y, sizes, norm, False)
