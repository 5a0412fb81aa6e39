"""The ops of the slate: name to function of arrays."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.backends.protocol import FULL, NOT_YET

Array = np.ndarray[Any, Any]
COMING = ("float16", "bfloat16", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")
DTYPES = {t: NOT_YET if t.name in COMING else FULL for t in calor.dtypes.ALL}


def _cast(x: Array, *, dtype: Any) -> Array:
    """Floats become integers by truncation, within the integers' range; NaN becomes 0."""
    if x.dtype.kind != "f" or not dtype.is_integer:
        return x.astype(dtype.numpy)
    limits, whole = np.iinfo(dtype.numpy), np.trunc(x.astype(np.float64))
    above, below = whole >= limits.max + 1.0, whole < limits.min
    kept = np.where(above | below | np.isnan(whole), 0, whole).astype(dtype.numpy)
    return np.where(above, limits.max, np.where(below, limits.min, kept)).astype(dtype.numpy)


def _dot(a: Array, b: Array, *, contract: Any, batch: Any, dtype: Any) -> Any:
    left, right = list(range(a.ndim)), list(range(a.ndim, a.ndim + b.ndim))
    for i, j in zip(contract[0] + batch[0], contract[1] + batch[1], strict=True):
        right[j] = i
    made = [*batch[0], *(i for i in left if i not in right), *(j for j in right if j >= a.ndim)]
    return np.einsum(a.astype(dtype.numpy), left, b.astype(dtype.numpy), right, made)


def _pad(x: Array, value: Array, *, low: Any, high: Any, interior: Any) -> Any:
    sizes = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior, strict=True)]
    made = np.full([sum(t) for t in zip(low, sizes, high, strict=True)], value, x.dtype)
    made[tuple(slice(a, a + n, i + 1) for a, n, i in zip(low, sizes, interior, strict=True))] = x
    return made


def _extreme(ufunc: np.ufunc, zero: Callable[..., Any], a: Array, b: Array) -> Any:
    """NumPy leaves open which zero is the larger; here +0 is."""
    both = (a == 0) & (b == 0) & (a.dtype.kind == "f")
    return np.where(both, zero(a, b), ufunc(a, b)) if both.any() else ufunc(a, b)


_OF_NUMPY = (
    "abs add sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh atan2 hypot logaddexp copysign floor ceil trunc sign isnan isinf isfinite "
    "signbit equal not_equal less less_equal greater greater_equal floor_divide remainder where"
)
_NAMED = {"sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative}
_BITS = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_not": np.invert}
_OWN: dict[str, Callable[..., Any]] = {
    "maximum": partial(_extreme, np.maximum, np.add),
    "minimum": partial(_extreme, np.minimum, lambda a, b: -(-a - b)),
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_not": np.invert,
    "full": lambda *, value, shape, dtype: np.full(shape, value.number, dtype.numpy),
    "iota": lambda *, length, dtype: np.arange(length).astype(dtype.numpy),
    "constant": lambda *, array, weak: array.array,
    "reshape": lambda x, *, shape: x.reshape(shape),
    "permute": lambda x, *, axes: x.transpose(axes),
    "expand": lambda x, *, shape: np.broadcast_to(x, shape),
    "flip": lambda x, *, axes: np.flip(x, axes),
    "concat": lambda *xs, axis: np.concatenate(xs, axis),
    "slice": lambda x, *, starts, stops, steps: x[
        tuple(map(slice, starts, [None if n < 0 else n for n in stops], steps))
    ],
    "pad": _pad,
    # An index out of range is NumPy's IndexError, of which OpTable makes a typed error.
    "gather": lambda x, indices, *, axis: np.take(x, indices.astype(np.int64), axis),
    "sum": lambda x, *, axes, dtype: x.astype(dtype.numpy).sum(axes, dtype.numpy),
    "max": lambda x, *, axes: x.max(axes),
    "min": lambda x, *, axes: x.min(axes),
    "argmax": lambda x, *, axis: x.argmax(axis),
    "cast": _cast,
    "dot_general": _dot,
}


def _dense(function: Callable[..., Any], *operands: Array, **attributes: Any) -> Array:
    """Results lie in one order in memory, so that no sum depends on where an operand came from."""
    with np.errstate(all="ignore"):
        return np.asarray(function(*operands, **attributes), order="C")


_FUNCTIONS = {name: getattr(np, name) for name in _OF_NUMPY.split()} | _NAMED | _BITS | _OWN
TABLE = {name: partial(_dense, function) for name, function in _FUNCTIONS.items()}
