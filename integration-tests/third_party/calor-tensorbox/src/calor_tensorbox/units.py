"""The units of the box, as NumPy functions: what a command does to arrays.

Requirements: float16 is computed in float32 and rounded once; sums of int8 are taken in int32;
functions of one float16 are read from a table of all its values, so they are right to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def run(command: str, operands: list[Array], dtype: Any, settings: dict[str, Any]) -> Array:
    """Return the result of a command in a dtype, of any shape that broadcasts to the place's."""
    with np.errstate(all="ignore"):
        if command in _TABLES:
            return _looked_up(command, operands[0])
        unit = _UNITS.get(command)
        if unit is not None:
            return unit(*operands, dtype=dtype, **settings)
        made = _VECTOR[command](*(_wide(x) for x in operands))
        return np.asarray(made).astype(dtype)


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _looked_up(command: str, x: Array) -> Array:
    return np.asarray(_table(command)[x.view(np.uint16)])


@cache
def _table(command: str) -> Array:
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        return np.asarray(_TABLES[command](every.astype(np.float64))).astype(np.float16)


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _normal(x: Array) -> Array:
    # By the complement, which keeps its digits where erf is close to −1.
    normal = np.vectorize(lambda v: 0.5 * math.erfc(-v * math.sqrt(0.5)), otypes=[np.float64])
    return np.asarray(normal(x))


def _normal_by_tanh(x: Array) -> Array:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return _sigmoid(2 * inner)


_TABLES: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * _normal(x),
    "gelu_tanh": lambda x: x * _normal_by_tanh(x),
}


def _extreme(sign: int) -> Callable[[Array, Array], Array]:
    choose = np.maximum if sign > 0 else np.minimum

    def unit(a: Array, b: Array) -> Array:
        made = choose(a, b)
        if a.dtype.kind != "f":
            return np.asarray(made)
        # Of two zeros +0 is the larger.
        zero = (a == 0) & (b == 0)
        return np.where(zero, sign * (sign * a + sign * b), made)

    return unit


_VECTOR: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "relu": lambda x: _extreme(1)(x, np.zeros_like(x)),
    "maximum": _extreme(1),
    "minimum": _extreme(-1),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "bit_not": np.invert,
    "where": np.where,
    "expand": lambda x: x,
}


def _full(*, dtype: Any, bits: str) -> Array:
    return np.frombuffer(bytes.fromhex(bits), dtype)


def _cast(x: Array, *, dtype: Any) -> Array:
    """Convert; a float becomes the nearest integer towards zero within range, NaN becomes 0."""
    if x.dtype != np.float16 or dtype.kind != "i":
        # By way of float64, which holds every int32, so that float16 is rounded to once.
        return x.astype(np.float64).astype(dtype) if dtype == np.float16 else x.astype(dtype)
    limits = np.iinfo(dtype)
    whole = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0)
    return np.asarray(np.clip(whole, limits.min, limits.max), dtype)


def _sums(x: Array, dtype: Any) -> Array:
    """Return an operand in the type that its products are added in."""
    return x.astype(np.float32 if np.float16 in (x.dtype, dtype) else np.int32)


def _dot(a: Array, b: Array, *, dtype: Any, contract: Any, batch: Any) -> Array:
    rows = [i for i in range(a.ndim) if i not in (*contract[0], *batch[0])]
    columns = [i for i in range(b.ndim) if i not in (*contract[1], *batch[1])]
    left = _sums(a, dtype).transpose((*batch[0], *rows, *contract[0]))
    right = _sums(b, dtype).transpose((*batch[1], *contract[1], *columns))
    many, m = left.shape[: len(batch[0])], left.shape[len(batch[0]) : len(batch[0]) + len(rows)]
    n = right.shape[right.ndim - len(columns) :]
    k = math.prod(a.shape[i] for i in contract[0])
    product = left.reshape((*many, math.prod(m), k)) @ right.reshape((*many, k, math.prod(n)))
    return np.asarray(product.reshape((*many, *m, *n)), dtype)


def _conv(
    x: Array, w: Array, *, dtype: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Array:
    """Add the products of each tap of the kernel: one matrix product for each."""
    seen, w = _padded(_sums(x, dtype), padding), _sums(w, dtype)
    reach = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    spans = zip(seen.shape[2:], reach, stride, strict=True)
    sizes = tuple(max((n - r) // s + 1, 0) if n >= r else 0 for n, r, s in spans)
    made = np.zeros((x.shape[0], groups, w.shape[0] // groups, math.prod(sizes)), seen.dtype)
    weights = w.reshape((groups, w.shape[0] // groups, *w.shape[1:]))
    for tap in np.ndindex(*w.shape[2:]):
        starts = [t * d for t, d in zip(tap, dilation, strict=True)]
        spans = zip(starts, sizes, stride, strict=True)
        window = tuple(slice(a, a + (n - 1) * s + 1 if n else a, s) for a, n, s in spans)
        part = seen[(slice(None), slice(None), *window)]
        columns = part.reshape((x.shape[0], groups, w.shape[1], math.prod(sizes)))
        made += weights[(slice(None), slice(None), slice(None), *tap)] @ columns
    return made.reshape((x.shape[0], w.shape[0], *sizes)).astype(dtype)


def _padded(x: Array, padding: Any) -> Array:
    """Return x with zeros around its spatial axes; a negative padding crops."""
    for axis, (low, high) in enumerate(padding, 2):
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(max(-low, 0), x.shape[axis] - max(-high, 0))
        wide = [(0, 0)] * x.ndim
        wide[axis] = (max(low, 0), max(high, 0))
        x = np.pad(x[tuple(cut)], wide)
    return x


_UNITS: dict[str, Callable[..., Array]] = {
    "full": _full,
    "cast": _cast,
    "dot_general": _dot,
    "conv": _conv,
}
