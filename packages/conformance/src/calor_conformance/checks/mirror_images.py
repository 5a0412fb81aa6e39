"""Bins of real numbers that are their own mirror images: their imaginary part is not read.

The first bin of a transform to real numbers, and the middle one of an even length, stand for no
other bin, so only their real parts count, as in NumPy. A device that multiplies the others by zero
gives NaN where those are not finite. Lengths are short, where a device may multiply by a matrix of
turns, with large primes, where it may convolve, and long; the operand may be longer or shorter than
the bins of a length, or padded to them, and the result scaled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, complex64, complex128, float32, float64

from .base import Array, Check, Place, packed

CONTRACT: Final = (
    "the imaginary part of a bin that is its own mirror image is not read by transforms to real "
    "numbers; a device that computes them as products leaves it out, since 0 · NaN is NaN"
)
LENGTHS: Final = (1, 2, 3, 4, 5, 8, 9, 13, 16, 17, 30, 34, 37, 48, 60, 64, 97, 100, 128, 255, 256)
NORMS: Final = ("backward", "ortho", "forward")
_ODD: Final = (np.nan, np.inf, -np.inf, 3e30)
# Lengths that a check draws, beside each of which others have the same bins or some of them.
_DRAWN: Final = 6


@dataclass(frozen=True)
class _Example:
    """A transform of bins along an axis to ``length`` numbers, or to those that belong to them.

    ``low``: the zeros before and behind the bins, which a padding puts there.
    """

    x: Array
    axis: int
    length: int | None
    norm: str
    around: tuple[int, int]
    scale: float

    def given(self, x: Any, pad: Callable[..., Any]) -> Any:
        """Return the operand of the transform."""
        widths = [self.around if a == self.axis else (0, 0) for a in range(self.x.ndim)]
        return pad(x, widths) if any(self.around) else x


def _examples(place: Place, name: str, dtype: DType) -> Iterator[_Example]:
    rng = np.random.default_rng([place.seed, *name.encode(), dtype.itemsize])
    for k, length in enumerate(rng.choice(LENGTHS, _DRAWN, replace=False).tolist()):
        bins = length // 2 + 1
        # As many bins as the length has, fewer or more of them, and some between zeros.
        count = bins if k % 3 == 0 else int(rng.integers(1, bins + 4))
        whole = k % 3 == 0 and length % 2 == 0
        low = int(rng.integers(0, bins)) if k % 3 == 1 else 0
        high = max(0, bins - low - count) if k % 3 == 1 else 0
        shape = [int(n) for n in rng.integers(1, 5, 2)] + [int(rng.choice((17, 3)))]
        axis = int(rng.integers(0, 3))
        if k % 2 == 0:
            axis = 2
        shape[axis] = count
        x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        norm, scale = str(rng.choice(NORMS)), float(rng.choice((1.0, 0.5)))
        given = None if whole and rng.random() < 0.5 else length
        yield _Example(x.astype(dtype.numpy), axis, given, norm, (low, high), scale)


def _lone(e: _Example) -> list[int]:
    """Return the bins of the operand that are their own mirror images in the transform."""
    n = 2 * (e.x.shape[e.axis] + sum(e.around) - 1) if e.length is None else e.length
    places = range(e.around[0], e.around[0] + e.x.shape[e.axis])
    return [i for i, k in enumerate(places) if k == 0 or 2 * k == n]


def _broken(e: _Example, rng: np.random.Generator) -> Array:
    """Return the operand with odd imaginary parts in such bins."""
    x = np.moveaxis(e.x.copy(), e.axis, -1)
    lone = _lone(e)
    parts = rng.choice(_ODD, (*x.shape[:-1], len(lone)))
    x[..., lone] = x[..., lone].real + np.zeros((), x.dtype)
    x.imag[..., lone] = parts
    return np.moveaxis(x, -1, e.axis)


def _operands(place: Place, name: str, dtype: DType) -> list[tuple[_Example, Array]]:
    rng = np.random.default_rng([place.seed, 1])
    return [(e, _broken(e, rng)) for e in _examples(place, name, dtype)]


def _record(name: str, dtype: DType, place: Place) -> list[Any]:
    made = []
    for e, x in _operands(place, name, dtype):

        def run(t: Any, e: _Example = e) -> Any:
            transform = getattr(calor.fft, name)
            made = transform(e.given(t, calor.pad), n=e.length, axis=e.axis, norm=e.norm)
            return made * e.scale if e.scale != 1 else made

        made.append(place.call(run, calor.asarray(np.ascontiguousarray(x))))
    return made


def _judge(name: str, dtype: DType, place: Place, found: Sequence[Array]) -> None:
    eps = float(np.finfo(dtype.numpy).eps)
    for (e, _), got in zip(_operands(place, name, dtype), found, strict=True):
        x = np.moveaxis(e.x.astype(np.complex128), e.axis, -1)
        x.imag[..., _lone(e)] = 0
        given = e.given(np.moveaxis(x, -1, e.axis), np.pad)
        want = getattr(np.fft, name)(given, e.length, e.axis, e.norm) * e.scale
        assert got.shape == want.shape, f"{name}: shape {got.shape}, not {want.shape}"
        within = 64 * eps * (float(np.abs(want).max()) + float(np.finfo(dtype.numpy).tiny))
        wrong = np.argwhere(~(np.abs(got - want) <= within))
        assert not wrong.size, (
            f"{name} of {e.x.shape} bins along axis {e.axis} to {e.length} with {e.norm} reads "
            f"imaginary parts of bins {_lone(e)}: {got[tuple(wrong[0])]} at {wrong[0].tolist()}, "
            f"not {want[tuple(wrong[0])]}"
        )


def mirror_images() -> Iterator[Check]:
    """Yield a check of each transform to real numbers in each complex dtype."""
    for name in ("irfft", "hfft"):
        for dtype, real in ((complex64, float32), (complex128, float64)):
            run, steps = packed(partial(_record, name, dtype), partial(_judge, name, dtype))
            yield Check(
                kind="special",
                subject=f"mirror-images-{name}",
                tier="full" if dtype is complex64 else "dtypes",
                contract=CONTRACT,
                run=run,
                text=partial(inspect.getsource, _examples),
                op="fft",
                dtype=dtype,
                dtypes=(dtype, real),
                steps=steps,
            )
