"""Bins of real numbers that are real whatever the numbers are: their imaginary part is zero.

The first bin of a transform of real numbers, and the middle one of an even length, are sums of real
numbers, in NumPy also where some are not finite. A device that computes them as products with a
matrix of turns, or as those of complex numbers, gives NaN there. Lengths, axes, norms, and the bins
that are kept are drawn.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, complex64, complex128, float32, float64

from .base import Array, Check, Place, packed
from .mirror_images import LENGTHS, NORMS

CONTRACT: Final = (
    "a bin of real numbers that is its own mirror image has the imaginary part zero, also where "
    "numbers are NaN or infinite: no weight of zero is multiplied by those"
)
_ODD: Final = (np.nan, np.inf, -np.inf)
# Lengths that a check draws.
_DRAWN: Final = 6


@dataclass(frozen=True)
class _Example:
    """A transform of real numbers along an axis, of which the bins ``kept`` are looked at."""

    x: Array
    axis: int
    length: int
    norm: str
    kept: tuple[int, int]

    @property
    def lone(self) -> list[int]:
        """The places among the kept bins of those that are their own mirror images."""
        return [i for i, k in enumerate(range(*self.kept)) if k == 0 or 2 * k == self.length]


def _examples(place: Place, name: str, dtype: DType) -> Iterator[_Example]:
    rng = np.random.default_rng([place.seed, 2, *name.encode(), dtype.itemsize])
    for number, length in enumerate(rng.choice(LENGTHS, _DRAWN, replace=False).tolist()):
        bins = length // 2 + 1
        shape = [int(n) for n in rng.integers(1, 5, 2)] + [int(rng.choice((17, 3)))]
        axis = 2 if number % 2 == 0 else int(rng.integers(0, 2))
        shape[axis] = max(1, length + int(rng.integers(-2, 3)) * (number % 3 == 1))
        x = rng.standard_normal(shape).astype(dtype.numpy)
        # Some lines are finite, and some have several numbers that are not.
        moved = np.moveaxis(x, axis, -1)
        odd = rng.random(moved.shape[:-1]) < 0.7
        for _ in range(2):
            at = int(rng.integers(min(length, shape[axis])))
            moved[odd, at] = rng.choice(_ODD, int(odd.sum()))
        kept = (0, bins)
        if number % 3 == 2:
            low = int(rng.integers(0, bins))
            kept = low, int(rng.integers(low, bins)) + 1
        yield _Example(x, axis, length, str(rng.choice(NORMS)), kept)


def _record(name: str, dtype: DType, place: Place) -> list[Any]:
    made = []
    for e in _examples(place, name, dtype):

        def run(t: Any, e: _Example = e) -> Any:
            bins = getattr(calor.fft, name)(t, n=e.length, axis=e.axis, norm=e.norm)
            key: list[Any] = [slice(None)] * bins.ndim
            key[e.axis] = slice(*e.kept)
            return bins if e.kept == (0, bins.shape[e.axis]) else bins[tuple(key)]

        made.append(place.call(run, calor.asarray(e.x)))
    return made


def _judge(name: str, dtype: DType, place: Place, found: Sequence[Array]) -> None:
    for e, got in zip(_examples(place, name, dtype), found, strict=True):
        wide = e.x.astype(np.float64)
        with np.errstate(all="ignore"):
            want = getattr(np.fft, name)(wide, e.length, e.axis, e.norm)
        want = want.take(range(*e.kept), e.axis)
        assert got.shape == want.shape, f"{name}: shape {got.shape}, not {want.shape}"
        told = f"{name} of {e.x.shape} numbers along axis {e.axis} to {e.length} with {e.norm}"
        lone = got.take(e.lone, e.axis)
        wrong = np.argwhere(lone.imag != 0)
        assert not wrong.size, (
            f"{told}: bin {e.kept[0] + e.lone[wrong[0][e.axis]]} is {lone[tuple(wrong[0])]}, whose "
            f"imaginary part is zero; bins {[e.kept[0] + i for i in e.lone]} are real"
        )
        # What is finite stays so, and what is not is seen in each bin that has no other part.
        finite = np.isfinite(want.take(e.lone, e.axis).real)
        assert (np.isfinite(lone.real) == finite).all(), f"{told}: lines see each other"


def real_bins() -> Iterator[Check]:
    """Yield a check of each transform of real numbers in each of their dtypes."""
    for name in ("rfft", "ihfft"):
        for dtype, whole in ((float32, complex64), (float64, complex128)):
            run, steps = packed(partial(_record, name, dtype), partial(_judge, name, dtype))
            yield Check(
                kind="special",
                subject=f"real-bins-{name}",
                tier="full" if dtype is float32 else "dtypes",
                contract=CONTRACT,
                run=run,
                text=partial(inspect.getsource, _examples),
                op="fft",
                dtype=dtype,
                dtypes=(dtype, whole),
                steps=steps,
            )
