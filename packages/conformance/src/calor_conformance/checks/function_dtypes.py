"""Functions in the other dtypes: as precise as the dtype, and of that dtype.

Operands are drawn as for float32, and converted. A constant, a table or a conversion of one dtype
in a function shows in another: float64 loses its digits, a half type overflows or becomes wider.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final
from zlib import crc32

import numpy as np

from calor.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int32,
    int64,
)
from calor.errors import DTypeError

from ..rows.functions import ways
from ..rows.functions.comparing import (
    Call,
    compare,
    narrow,
    parts,
    quiet,
    results,
    slack,
    tensors,
    widened,
)
from ..rows.functions.drawing import Arguments, Rng, source
from ..rows.functions.layers import installed
from .base import Check, Place

CONTRACT: Final = "a function has its meaning in every floating dtype, and its results that dtype"
# The largest error beside the number, or beside 1 if that is more, and the rounding of a dtype
# beside that of float32.
_NEAR: Final = {float64: 5e-9, float16: 6e-3, bfloat16: 5e-2, complex64: 5e-5, int32: 3e-5}
_ROUNDS: Final = {
    float64: 2.0**-29,
    float16: 2.0**13,
    bfloat16: 2.0**16,
    complex64: 2.0,
    int32: 1.0,
}


_HOLDING: Final = frozenset(("calor_nn", "calor_nn.init"))
# Rows whose meaning is that of float32, or which leave half of the digits.
_OF_ONE: Final = frozenset((
    "nan_to_num-to others", "nextafter", "quantile", "calor_numerics.histogramdd", "linspace-whole",
    "calor_linalg.svd_lowrank", "calor_linalg.pca_lowrank",
))  # fmt: skip
# What has no half type: linear algebra, results of another dtype by definition, complex numbers.
_WIDE: Final = frozenset((
    "calor_nn.functional.ctc_loss", "calor_numerics.complex", "calor_numerics.polar",
    "calor_numerics.float_power", "calor_numerics.signal.stft", "calor_numerics.signal.istft",
))  # fmt: skip
_WIDE_PACKAGES: Final = ("calor_linalg.",)
# Rows whose call or meaning takes real numbers alone; functions of networks are real.
_REAL: Final = frozenset((
    *(f"calor_linalg.{name}" for name in (
        "cholesky_ex", "cholesky_inverse", "cholesky_solve", "eigh", "geqrf", "svd_lowrank",
        "householder_product", "logdet", "lu", "lu_solve-from both sides", "lu_unpack", "ormqr",
        "qr", "svd", "pca_lowrank", "eig", "ldl_solve", "cholesky", "eigvals", "eigvalsh")),
    "calor_numerics.cdist", "calor_numerics.pdist", "calor_numerics.nanargmedian",
    "calor_numerics.cov", "erfcx", "log_ndtr", "quantile-by method",
))  # fmt: skip
_REAL_PACKAGES: Final = ("calor_nn.", "calor_numerics.signal.", "calor_special.")
# Of whole numbers NumPy gives whole numbers, or other floating ones, where calor gives float32; or
# places and weights that are rounded come together.
_NOT_WHOLE: Final = frozenset((
    "bincount-weighted", "calor_numerics.complex", "calor_numerics.float_power", "lerp",
    "reciprocal", "scatter_along_axis", *(f"calor_numerics.{name}" for name in (
        "average", "gradient", "histogram", "interp", "polyint", "trapezoid", "cov",
        "cumulative_trapezoid", "histogram_bin_edges", "cdist", "pdist")),
))  # fmt: skip
_NOT_WHOLE_PACKAGES: Final = (
    "calor_nn.", "calor_linalg.", "calor_special.", "calor_numerics.signal.",
)  # fmt: skip


@dataclass(frozen=True)
class Called:
    """A way to call a function: how its arguments are drawn, what it is and what it means."""

    label: str
    draw: Callable[[Rng], Arguments]
    call: Callable[..., Any]
    meaning: Callable[..., Any]
    near: float
    moves: bool


def every() -> list[Called]:
    """Return all ways to call functions of calor and of the packages that are installed."""
    made = [Called(way.label, way.draw, way.call, way.meaning, 1.0, False) for way in ways()
            if way.label not in _OF_ONE]  # fmt: skip
    for name, rows in installed().items():
        # Modules hold weights of a dtype of their own, and random numbers have rows elsewhere.
        asked = () if name in _HOLDING else (row for row in rows if row.near < 0.01)
        for row in asked:
            if f"{name}.{row.label}" in _OF_ONE:
                continue
            made.append(
                Called(f"{name}.{row.label}", row.draw, partial(_called, name, row), row.meaning,
                       max(row.near / 2e-5, 1.0), row.moves)
            )  # fmt: skip
    return made


def _called(name: str, row: Any, *given: Any, **options: Any) -> Any:
    package = import_module(name)
    if row.call is None:
        return getattr(package, row.name)(*given, **options)
    return row.call(package, *given, **options)


def _cast(given: Any, dtype: DType, rng: Rng) -> Any:
    """Return arguments with floating arrays in a dtype."""
    if isinstance(given, list | tuple):
        return type(given)(_cast(one, dtype, rng) for one in given)
    if isinstance(given, dict):
        return {name: _cast(one, dtype, rng) for name, one in given.items()}
    if not narrow(given):
        return given
    if dtype is complex64:
        return (given + 1j * rng.normal(size=given.shape)).astype(np.complex64)
    if dtype is int32:
        return np.round(np.clip(np.nan_to_num(given), -99, 99)).astype(np.int32)
    return given.astype(dtype.numpy)


def _floats(given: Any) -> int:
    if isinstance(given, list | tuple):
        return sum(map(_floats, given))
    if isinstance(given, dict):
        return sum(map(_floats, given.values()))
    return int(narrow(given))


def _run(called: Called, dtype: DType, place: Place) -> None:
    rng = source([place.seed, crc32(called.label.encode()), 64])
    given, options = called.draw(rng)
    if not _floats([*given, *options.values()]):
        return
    given, options = _cast(list(given), dtype, rng), _cast(options, dtype, rng)
    with quiet():
        wide, more = widened(given), {k: widened(v) for k, v in options.items()}
        try:
            wants = parts(called.meaning(*wide, **more))
        except (TypeError, ValueError, OverflowError):
            if dtype in (complex64, int32):
                return  # NumPy, too, has no meaning of it.
            raise
        slacks = slack(called.meaning, _wide32(given), more, wants) if called.moves else ()
    kept = {k: tensors(v) for k, v in options.items()}
    try:
        got = results(called.call(*map(tensors, given), **kept))
    except DTypeError:
        # What a function documents to refuse is asked for elsewhere.
        if dtype in (complex64, int32):
            return
        raise
    what = Call(called.label, given, options)
    for n, (a, b) in enumerate(zip(got, wants, strict=True)):
        # bfloat16 is read as float32, which has its numbers.
        narrow_too = dtype in (bfloat16, complex64, int32)
        kind = np.float32 if narrow_too else dtype.numpy
        assert a.dtype.kind != "f" or a.dtype == kind, f"{what}: dtype {a.dtype}, not {kind}"
        off = slacks[n] * _ROUNDS[dtype] if slacks else 0.0
        compare(a, b, what, _NEAR[dtype] * (1.0 if dtype is float64 else called.near), off)


def _wide32(given: Any) -> Any:
    """Return arguments whose floating arrays are moved as those of float32 are."""
    if isinstance(given, list | tuple):
        return type(given)(_wide32(one) for one in given)
    floats = isinstance(given, np.ndarray) and (narrow(given) or given.dtype == np.float64)
    return given.astype(np.float32) if floats else given


def kinds(label: str, number: int) -> Iterator[DType]:
    """Yield the dtypes in which a function is called."""
    yield float64
    # What a half type shows in one of a package's functions, it shows in the next.
    if number % 3 == 1 and label not in _WIDE and not label.startswith(_WIDE_PACKAGES):
        yield (float16, bfloat16)[number // 3 % 2]
    if label not in _REAL and not label.startswith(_REAL_PACKAGES):
        yield complex64
    if label not in _NOT_WHOLE and not label.startswith(_NOT_WHOLE_PACKAGES):
        yield int32


def function_dtypes() -> Iterator[Check]:
    """Yield checks of each way to call a function, in float64 and in a half type."""
    for number, called in enumerate(every()):
        for dtype in kinds(called.label, number):
            yield Check(
                kind="functions",
                subject=called.label,
                tier="dtypes",
                contract=CONTRACT,
                run=partial(_run, called, dtype),
                text=partial(inspect.getsource, called.draw),
                dtype=dtype,
                dtypes=(dtype, float32, int32, int64, bool_),
                looks=True,
            )
