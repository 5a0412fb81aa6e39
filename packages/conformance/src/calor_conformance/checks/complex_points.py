"""Complex functions at drawn points: beside cuts and zeros, of any size, of parts of unlike sizes.

A formula of a complex function is right at ordinary points and loses its digits where parts cancel,
where a square overflows or vanishes, and where a part decides on which side of a cut a number lies.
Points are drawn where that happens, for each function alike. Results are compared with those of
twice the digits, in units of the last place of the whole number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, complex64, complex128, real_of

from .base import Array, Check, Place, packed

CONTRACT: Final = "a complex function is near its value at every point, beside cuts and zeros too"
_UNITS: Final = 8.0
_COUNT: Final = 64
# Zeros, poles and branch points of the functions below, and numbers between them.
_PLACES: Final = (0, 1, -1, 1j, -1j, np.pi, -np.pi / 2, np.pi * 1j, -np.pi / 2 * 1j, 2, 0.5j, np.e)
Rng = np.random.Generator
Meaning = Callable[..., Array]


def _log1p(z: Array) -> Array:
    """Return log(1 + z), whose real part NumPy computes of the rounded sum."""
    a, b = z.real, z.imag
    near = np.maximum(np.abs(a), np.abs(b)) < 0.5
    size = np.where(near, np.log1p(np.where(near, a * (2 + a) + b * b, 0)) / 2,
                    np.log(np.abs(1 + z)))  # fmt: skip
    return _joined(size, np.arctan2(b, 1 + a))


def _joined(a: Any, b: Any) -> Array:
    real, imag = np.broadcast_arrays(a, b)
    made = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    made.real, made.imag = real, imag
    return made


# Functions with what they mean.
_FUNCTIONS: Final[dict[str, Meaning]] = {
    "abs": np.abs, "sqrt": np.sqrt, "square": np.square, "reciprocal": np.reciprocal,
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": _log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
# Those that grow or turn, and how far the parts of their points may be from 0.
_BOUNDED: Final = frozenset(("exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh"))
_REACH: Final = 60.0
_PAIRS: Final[dict[str, Meaning]] = {"multiply": np.multiply, "divide": np.divide}
# Functions that are ops under another name, or made of them.
_OPS: Final = {"multiply": "mul", "divide": "div", "square": "mul", "reciprocal": "div"}


def _sized(rng: Rng, low: int, high: int) -> Array:
    """Return real numbers of either sign whose exponents are evenly drawn."""
    sizes = np.ldexp(rng.uniform(1, 2, _COUNT), rng.integers(low, high, _COUNT))
    return np.asarray(sizes * rng.choice((-1.0, 1.0), _COUNT))


def _beside(rng: Rng, digits: int) -> Array:
    """Return points at distances of every octave from the places, in any direction or along one."""
    far = np.ldexp(rng.uniform(1, 2, _COUNT), -rng.integers(1, digits + 2, _COUNT))
    turns = rng.choice((*(1j ** np.arange(4)), *np.exp(1j * rng.uniform(0, 2 * np.pi, 4))), _COUNT)
    return np.asarray(rng.choice(np.array(_PLACES, complex), _COUNT) + far * turns)


def points(rng: Rng, dtype: DType, bounded: bool) -> Array:
    """Return points of a dtype, some of each kind: sizes, cuts, and places with their surroundings.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the points.
    dtype : DType
        A complex dtype.
    bounded : bool
        Whether parts stay where an exponential function of them has a finite value.

    Returns
    -------
    numpy.ndarray
        The points.
    """
    info = np.finfo(real_of(dtype).numpy)
    digits, most = int(info.nmant), 5 if bounded else int(info.maxexp) - 3
    zeros = rng.choice((0.0, -0.0), _COUNT)
    middle, tiny = partial(_sized, rng, -5, 4), partial(_sized, rng, -2 * digits, -4)
    turned = np.exp(1j * rng.uniform(0, 2 * np.pi, _COUNT))
    kinds = [
        np.abs(_sized(rng, -int(info.maxexp) + 3, most)) * turned,
        _joined(_sized(rng, -most, most), _sized(rng, -most, most)),
        _joined(_sized(rng, -20, 5), _sized(rng, -20, 5)),
        _joined(middle(), zeros), _joined(zeros, middle()),
        _joined(middle(), tiny()), _joined(tiny(), middle()), _joined(middle(), middle()),
        _beside(rng, digits),
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        made = np.concatenate(kinds).astype(dtype.numpy)
    if bounded:
        made = made[(np.abs(made.real) < _REACH) & (np.abs(made.imag) < _REACH)]
    return np.asarray(made)


def _operands(place: Place, dtype: DType, name: str) -> list[Array]:
    rng = np.random.default_rng([place.seed, crc32(name.encode()), dtype.itemsize])
    made = points(rng, dtype, name in _BOUNDED)
    if name not in _PAIRS:
        return [made]
    # The other operand keeps the result in range, mostly.
    return [made, rng.permutation(points(rng, dtype, True))[: made.size // 2].repeat(2)]


def _fitting(arrays: list[Array]) -> list[Array]:
    size = min(a.size for a in arrays)
    return [a[:size] for a in arrays]


def _record(name: str, dtype: DType, place: Place) -> list[Any]:
    arrays = _fitting(_operands(place, dtype, name))
    return [place.call(getattr(calor, name), *map(calor.asarray, arrays))]


def _judge(name: str, dtype: DType, place: Place, found: Any) -> None:
    arrays = _fitting(_operands(place, dtype, name))
    wide = np.complex128 if dtype is complex64 else np.clongdouble
    meaning = {**_FUNCTIONS, **_PAIRS}[name]
    info = np.finfo(real_of(dtype).numpy)
    with np.errstate(all="ignore"):
        want = np.asarray(meaning(*(a.astype(wide) for a in arrays)))
        size = np.abs(want)
        # What overflows on the way of a division by two parts is asked elsewhere, and so is what
        # has too few digits because it is small.
        asked = (size < float(info.max) / 8) & (size > float(info.tiny) / float(info.eps))
        for a in arrays:
            small, large = np.abs(a.real), np.abs(a.imag)
            asked &= np.hypot(small, large) >= float(info.tiny) * (
                # Beside a number of this size a part that becomes 0 is less than a unit.
                1 / float(info.eps) if real_of(dtype) in place.flushes else 1
            )
        got = np.asarray(found[0]).astype(want.dtype)
        off = np.abs(got - want) / size / float(info.eps)
        wrong = np.flatnonzero(asked & ~(off <= _UNITS))
    assert found[0].shape == want.shape, f"{name}: {found[0].shape}, not {want.shape}"
    assert not wrong.size, (
        f"{name} of {', '.join(repr(a[wrong[0]]) for a in arrays)}: {found[0][wrong[0]]!r}, not "
        f"{want[wrong[0]]!r}, {float(off[wrong[0]]):.3g} units off; {wrong.size} are"
    )


def complex_points() -> Iterator[Check]:
    """Yield a check of each complex function in each complex dtype that an oracle is wider than."""
    wider = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant
    for name in (*_FUNCTIONS, *_PAIRS):
        for dtype in (complex64, complex128) if wider else (complex64,):
            run, steps = packed(partial(_record, name, dtype), partial(_judge, name, dtype))
            yield Check(
                kind="accuracy",
                subject=f"complex-points-{name}",
                tier="full" if dtype is complex64 else "dtypes",
                contract=CONTRACT,
                run=run,
                text=partial(inspect.getsource, points),
                op=_OPS.get(name, name),
                dtype=dtype,
                dtypes=(dtype, real_of(dtype)),
                steps=steps,
            )
