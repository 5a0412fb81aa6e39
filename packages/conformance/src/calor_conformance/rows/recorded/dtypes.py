"""Calls about dtypes: casts at ends and ties, promotion of pairs and of numbers, creation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL, DType, as_dtype

from ..functions.drawing import Arguments, Rng
from ..language import Array

_COUNT: Final = 40
_DIGITS: Final = {
    "float16": 11, "bfloat16": 8, "float32": 24, "float8_e4m3fn": 4, "float8_e5m2": 3,
}  # fmt: skip
_PAIRS: Final = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow", "maximum", "less",
    "equal", "bitwise_and", "bitwise_left_shift", "where", "matmul", "atan2", "hypot", "logical_or",
    "concat", "copysign", "clip", "lerp", "minimum", "nextafter", "logaddexp",
)  # fmt: skip
_NUMBERS: Final[tuple[Any, ...]] = (
    0, 1, -1, 2, 3, 300, -129, 70000, 2**31, 2**53 + 1, -(2**63), 2**63, 2**64, True, 0.5, -0.0,
    1e40,
    float("inf"), float("nan"), 2.5, 1j, 1 - 2j,
)  # fmt: skip

_Named = tuple[str, Callable[[Rng], Arguments], Callable[..., Any], None]

# The package that the labels begin with; the arguments are drawn by label.
_CORE = "calor"


def of_dtypes() -> Iterator[_Named]:
    """Yield a label, what draws arguments and what is called, for each dtype."""
    for dtype in ALL:
        yield f"calor.astype-of {dtype.name}", partial(_cast_from, dtype), _cast, None
        yield f"{_CORE}.promotion-of {dtype.name}", partial(_pair, dtype), _promoted, None
        yield f"{_CORE}.creation-of {dtype.name}", partial(_creation, dtype), _created, None


def _cast_from(dtype: DType, rng: Rng) -> Arguments:
    """Return numbers of a dtype at its ends, and about the middles of narrower dtypes' numbers."""
    targets = [ALL[int(n)] for n in rng.permutation(len(ALL))[:5]]
    with np.errstate(all="ignore"):
        return [_ends(dtype, target, rng) for target in targets], {
            "targets": [target.name for target in targets]
        }


def _ends(dtype: DType, target: DType, rng: Rng) -> Array:
    if dtype.kind in ("int", "uint", "bool"):
        bits = rng.integers(1, 8 * dtype.itemsize + 1, _COUNT).astype(np.uint64)
        made: Array = rng.integers(0, 2**64, _COUNT, np.uint64) >> (np.uint64(64) - bits)
        return (made % np.uint64(2) if dtype.kind == "bool" else made).astype(dtype.numpy)
    digits = _DIGITS.get(target.name, 9)
    whole = np.round(rng.normal(size=_COUNT) * 2.0**digits) + rng.choice((0.0, 0.5), _COUNT)
    tied = whole * 2.0 ** rng.integers(-24, 20, _COUNT)
    tied = tied * (1 + rng.choice((0.0, 2.0**-22, -(2.0**-22)), _COUNT))
    ends = rng.choice((0.0, -0.0, np.inf, -np.inf, np.nan, 65519.0, 65520.0, 3.39e38), _COUNT)
    tied = np.where(rng.random(_COUNT) < 0.15, ends, tied)
    if target.kind in ("int", "uint"):
        # What does not fit has no number that all devices share.
        most = 2.0 ** min(8 * target.itemsize - 1, 20) - 1
        tied = np.nan_to_num(np.clip(tied, 0 if target.kind == "uint" else -most, most))
    tied = tied + 1j * np.roll(tied, 1) if dtype.is_complex else tied
    return np.asarray(tied.astype(dtype.numpy))


def _cast(*given: Any, targets: list[str]) -> Any:
    return [x.astype(target) for x, target in zip(given, targets, strict=True)]


def _small(dtype: DType, rng: Rng) -> Array:
    shape = ((3,), (2, 3), (1,), ())[int(rng.integers(4))]
    made = rng.integers(0, 7, shape) - (3 if dtype.kind not in ("uint", "bool") else 0)
    return np.asarray(made % 2 if dtype.kind == "bool" else made).astype(dtype.numpy)


def _pair(dtype: DType, rng: Rng) -> Arguments:
    names = [_PAIRS[int(n)] for n in rng.permutation(len(_PAIRS))[:6]]
    other: Any = _NUMBERS[int(rng.integers(len(_NUMBERS)))]
    if rng.random() < 0.7:
        other = _small(ALL[int(rng.integers(len(ALL)))], rng)
    return [_small(dtype, rng), other], {"names": names, "turned": bool(rng.random() < 0.4)}


def _told(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (calor.errors.UnsupportedError, MemoryError):
        raise
    except (calor.errors.CalorError, TypeError, ValueError, OverflowError) as error:
        return type(error).__name__


def _promoted(a: Any, b: Any, *, names: list[str], turned: bool) -> Any:
    a, b = (b, a) if turned else (a, b)
    made = [_told(lambda: str(calor.result_type(a, b)))]
    for name in names:
        function = getattr(calor, name)
        given: tuple[Any, ...] = (a, b)
        if name in ("where", "clip", "lerp"):
            given = (a == a, a, b) if name == "where" else (a, b, b)
        made.append(_told(partial(function, *(([a, b],) if name == "concat" else given))))
    return made


def _creation(dtype: DType, rng: Rng) -> Arguments:
    number = _NUMBERS[int(rng.integers(len(_NUMBERS)))]
    other = ALL[int(rng.integers(len(ALL)))]
    low, high, step = (float(v) for v in rng.choice((0, 1, -2.5, 7, 0.5, 3), 3))
    count = int(rng.choice((0, 1, 2, 5, 33)))
    return [dtype.name, number, other.name, low, high, step, count, _small(other, rng)], {}


def _created(
    dtype: str, number: Any, other: str, low: float, high: float, step: float, count: int, like: Any
) -> list[Any]:
    """Return what creates tensors, and what is said of dtypes."""
    asks: tuple[Callable[[], Any], ...] = (
        lambda: calor.full((2,), number, dtype=dtype), lambda: calor.full((2,), number),
        lambda: calor.full_like(like, number), lambda: calor.full_like(like, 1, dtype=dtype),
        lambda: calor.asarray(number, dtype=dtype), lambda: calor.asarray([number, 1]),
        lambda: calor.arange(low, high, step, dtype=dtype),
        lambda: calor.arange(int(low), int(high)),
        lambda: calor.linspace(low, high, count, dtype=dtype),
        lambda: calor.linspace(low, high, count, endpoint=False),
        lambda: calor.eye(count % 5, 3, k=int(low), dtype=dtype),
        lambda: calor.zeros((count, 2), dtype=dtype), lambda: calor.ones_like(like, dtype=dtype),
        lambda: calor.zeros_like(like), lambda: calor.empty_like(like, dtype=dtype).shape,
        lambda: calor.can_cast(as_dtype(dtype), as_dtype(other)),
        lambda: calor.can_cast(like, as_dtype(dtype)),
        lambda: str(calor.result_type(dtype, other)), lambda: str(calor.result_type(dtype, number)),
        lambda: _limits(dtype), lambda: _kinds(dtype),
    )  # fmt: skip
    return [_told(ask) for ask in asks]


def _limits(dtype: str) -> list[Any]:
    info = calor.iinfo(dtype) if "int" in dtype else calor.finfo(dtype)
    names = ("bits", "min", "max", "eps", "smallest_normal", "tiny", "resolution")
    return [str(getattr(info, name, None)) for name in names]


def _kinds(dtype: str) -> list[Any]:
    kinds = ("bool", "signed integer", "unsigned integer", "integral", "real floating",
             "complex floating", "numeric")  # fmt: skip
    known = getattr(calor, dtype)
    return [_told(partial(calor.isdtype, known, kind)) for kind in kinds]
