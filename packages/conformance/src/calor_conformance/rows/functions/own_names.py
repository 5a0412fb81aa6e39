"""Functions that NumPy lacks: how they are called, and what they mean in NumPy's terms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..language import Array
from .drawing import (
    Arguments,
    Rng,
    a_shape,
    along,
    an_axis,
    coin,
    different,
    fitting,
    floats,
    numbers,
    of_one,
)

Function = Callable[..., Any]


def _over(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis: Any = None if rng.random() < 0.3 else an_axis(rng, len(shape))
    if len(shape) > 1 and rng.random() < 0.3:
        axis = (0, -1)
    return [floats(rng, shape)], {"axis": axis, "keepdims": coin(rng)}


def _logsumexp(x: Array, *, axis: Any, keepdims: bool) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    made = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return made if keepdims else made.squeeze(axis)


def _log_softmax(x: Array, *, axis: int) -> Any:
    lost = (x == np.inf).any(axis, keepdims=True)
    return np.where(lost, np.nan, x - _logsumexp(x, axis=axis, keepdims=True))


def _softmax(x: Array, *, axis: int) -> Any:
    made = np.exp(x - x.max(axis, keepdims=True))
    return made / made.sum(axis, keepdims=True)


def _three(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    return [floats(rng, shape), *(floats(rng, fitting(rng, shape)) for _ in range(2))], {}


def _shares(rng: Rng) -> Arguments:
    return [rng.uniform(0.02, 0.98, a_shape(rng)).astype(np.float32)], {}


def _with_zeros(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    x = np.where(rng.random(shape) < 0.4, 0, floats(rng, shape)).astype(np.float32)
    other = np.abs(floats(rng, fitting(rng, shape)))
    return [x, np.where(rng.random(other.shape) < 0.2, 0, other).astype(np.float32)], {}


def _by_log(log: Function) -> Function:
    def meaning(x: Array, y: Array) -> Any:
        return np.where((x == 0) & ~np.isnan(y), 0.0, x * log(y))

    return meaning


def _with(name: str, *values: Any) -> Callable[[Rng], Arguments]:
    def draw(rng: Rng) -> Arguments:
        return [floats(rng, a_shape(rng))], {name: values[int(rng.integers(len(values)))]}

    return draw


def _sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _of_each(function: Callable[[float], float]) -> Function:
    return np.vectorize(function, otypes=[float])


def _bell(x: Array) -> Any:
    return _of_each(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)))(x)


def _scaled_tail(v: float) -> float:
    """Return exp(v²)·erfc(v), far out by its series."""
    if v < -26:
        return math.inf
    return math.exp(v * v) * math.erfc(v) if v < 25 else (1 - 0.5 / v / v) / v / math.sqrt(math.pi)


def _log_bell(v: float) -> float:
    if v > -30:
        return math.log(0.5 * math.erfc(-v / math.sqrt(2)))
    return -v * v / 2 - math.log(-v * math.sqrt(2 * math.pi)) - 1 / v / v


def _gelu(x: Array, *, approximate: str) -> Any:
    if approximate == "none":
        return x * _bell(x)
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _joined_axes(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    first, last = sorted(int(a) for a in rng.integers(0, len(shape), 2))
    turned = last - len(shape) if coin(rng) else last
    return [numbers(rng, shape)], {"start_axis": first, "end_axis": turned}


def _flatten(x: Array, *, start_axis: int, end_axis: int) -> Any:
    last = end_axis % x.ndim
    return x.reshape(*x.shape[:start_axis], -1, *x.shape[last + 1 :])


def _windows(rng: Rng) -> Arguments:
    shape = tuple(int(n) for n in rng.integers(2, 7, int(rng.integers(1, 4))))
    axis = an_axis(rng, len(shape))
    size = int(rng.integers(1, shape[axis] + 1))
    return [numbers(rng, shape)], {"axis": axis, "size": size, "step": int(rng.integers(1, 4))}


def _unfold(x: Array, *, axis: int, size: int, step: int) -> Any:
    every = np.lib.stride_tricks.sliding_window_view(x, size, axis % x.ndim)
    cuts = [slice(None)] * every.ndim
    cuts[axis % x.ndim] = slice(None, None, step)
    return every[tuple(cuts)]


def _parts(rng: Rng) -> Arguments:
    shape = list(a_shape(rng, 1))
    axis, sizes = an_axis(rng, len(shape)), rng.integers(0, 4, int(rng.integers(1, 4))).tolist()
    shape[axis] = sum(sizes)
    return [numbers(rng, tuple(shape)), sizes], {"axis": axis}


def _split(x: Array, sizes: list[int], *, axis: int) -> Any:
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _chunks(rng: Rng) -> Arguments:
    given, options = along(numbers, every=False)(rng)
    return [*given, int(rng.integers(1, 5))], options


def _chunk(x: Array, count: int, *, axis: int) -> Any:
    return tuple(np.array_split(x, count, axis))


def _best(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis = an_axis(rng, len(shape))
    k = int(rng.integers(1, shape[axis] + 1))
    return [different(rng, shape), k], {"axis": axis, "largest": coin(rng)}


def _topk(x: Array, k: int, *, axis: int, largest: bool) -> Any:
    places = np.argsort(-x if largest else x, axis).take(range(k), axis)
    return np.take_along_axis(x, places, axis), places


def _block(rng: Rng) -> tuple[Array, list[int], list[int]]:
    """Return a tensor, starts that may lie outside, and the sizes of a block."""
    shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 4))))
    sizes = [int(rng.integers(0, n + 1)) for n in shape]
    starts = [int(rng.integers(-2, n + 3)) for n in shape]
    return numbers(rng, shape), starts, sizes


def _dynamic(rng: Rng) -> Arguments:
    x, starts, sizes = _block(rng)
    return [x, starts, sizes], {}


def _inside(x: Array, starts: list[int], sizes: Any) -> tuple[slice, ...]:
    """Return the cuts of a block, moved so that it lies within the tensor."""
    found = []
    for n, start, size in zip(x.shape, starts, sizes, strict=True):
        first = min(max(start, 0), n - size)
        found.append(slice(first, first + size))
    return tuple(found)


def _dynamic_slice(x: Array, starts: list[int], sizes: list[int]) -> Any:
    return x[_inside(x, starts, sizes)]


def _written(rng: Rng) -> Arguments:
    x, starts, sizes = _block(rng)
    return [x, np.asarray(rng.integers(20, 30, sizes), x.dtype), starts], {}


def _dynamic_update(x: Array, update: Array, starts: list[int]) -> Any:
    made = x.copy()
    made[_inside(x, starts, update.shape)] = update
    return made


def _points(rng: Rng) -> Arguments:
    """Return a tensor, and indices of some of its first axes."""
    shape = a_shape(rng, 1)
    count = int(rng.integers(1, len(shape) + 1))
    lead = a_shape(rng, 1, 2)
    places = np.stack([rng.integers(-n, n, lead) for n in shape[:count]], -1)
    return [floats(rng, shape), places], {}


def _gather_nd(x: Array, places: Array) -> Any:
    return x[tuple(np.moveaxis(places, -1, 0))]


def _scattered(rng: Rng) -> Arguments:
    (x, places), _ = _points(rng)
    values = floats(rng, (*places.shape[:-1], *x.shape[places.shape[-1] :]))
    update = str(rng.choice(("add", "mul", "max", "min")))
    return [x, places, values], {"update": update}


def _scatter_nd(x: Array, places: Array, values: Array, *, update: str) -> Any:
    made = x.copy()
    by = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[update]
    by.at(made, tuple(np.moveaxis(places, -1, 0)), values)
    return made


WAYS: Final[tuple[tuple[str, str, Callable[[Rng], Arguments]], ...]] = (
    ("logsumexp", "", _over),
    ("softmax log_softmax cumulative_max cumulative_min", "", along(floats, every=False)),
    ("lerp", "", _three), ("logit", "", _shares), ("xlogy xlog1py", "", _with_zeros),
    ("relu sigmoid silu erf erfc erfcx ndtr log_ndtr", "", of_one(floats)),
    ("rsqrt lgamma", "", lambda rng: ([np.abs(floats(rng, a_shape(rng))) + 0.5], {})),
    ("elu", "", _with("alpha", 1.0, 0.5, 2.5)),
    ("leaky_relu", "", _with("negative_slope", 0.01, 0.3)),
    ("softplus", "", _with("beta", 1.0, 0.5, 3.0)),
    ("gelu", "", _with("approximate", "none", "tanh")), ("flatten", "", _joined_axes),
    ("unfold", "", _windows), ("split", "", _parts), ("chunk", "", _chunks), ("topk", "", _best),
    ("dynamic_slice", "", _dynamic), ("dynamic_update_slice", "", _written),
    ("gather_nd", "", _points), ("scatter_nd", "", _scattered),
)  # fmt: skip
THEIRS: Final[dict[str, Function]] = {
    "logsumexp": _logsumexp, "softmax": _softmax,
    "log_softmax": _log_softmax,
    "cumulative_max": lambda x, axis: np.maximum.accumulate(x, axis),
    "cumulative_min": lambda x, axis: np.minimum.accumulate(x, axis),
    "lerp": lambda a, b, t: a + t * (b - a), "logit": lambda x: np.log(x / (1 - x)),
    "xlogy": _by_log(np.log), "xlog1py": _by_log(np.log1p),
    "relu": lambda x: np.maximum(x, 0), "sigmoid": _sigmoid, "silu": lambda x: x * _sigmoid(x),
    "erf": _of_each(math.erf), "erfc": _of_each(math.erfc), "ndtr": _bell,
    "erfcx": _of_each(_scaled_tail), "log_ndtr": _of_each(_log_bell),
    "lgamma": _of_each(math.lgamma),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "leaky_relu": lambda x, negative_slope: np.where(x > 0, x, negative_slope * x),
    "softplus": lambda x, beta: np.logaddexp(0, beta * x) / beta, "gelu": _gelu,
    "flatten": _flatten, "unfold": _unfold, "split": _split, "chunk": _chunk, "topk": _topk,
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update,
    "gather_nd": _gather_nd, "scatter_nd": _scatter_nd,
}  # fmt: skip
