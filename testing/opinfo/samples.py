"""Entries of OpInfo that draw random numbers: shapes and dtypes are compared, not the values."""

from __future__ import annotations

from typing import Any

from .names import Table, c, nn, random


def _like(draw: Any) -> Any:
    return lambda input, *args, dtype=None: draw(input.shape, *args).astype(dtype or input.dtype)


def _randint(*args: Any, dtype: Any = None) -> Any:
    *bounds, shape = args
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    return random.integers(low, high, tuple(shape), dtype=dtype or c.int64)


def _randint_like(input: Any, *bounds: Any, dtype: Any = None) -> Any:
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    return random.integers(low, high, input.shape).astype(dtype or input.dtype)


def _normal(mean: Any, std: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    shape = c.broadcast_shapes(size or (), *(getattr(t, "shape", ()) for t in (mean, std)))
    return mean + std * random.normal(shape)


def _gauss(shape: Any, dtype: Any) -> Any:
    if dtype is None or not dtype.is_complex:
        return random.normal(tuple(shape), dtype=dtype)
    parts = (random.normal(tuple(shape), std=0.5**0.5) for _ in range(2))
    return c.complex(*parts).astype(dtype)


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size


TABLE: Table = {
    "randn": lambda *size, dtype=None: _gauss(_shape(size), dtype),
    "randn_like": lambda input, dtype=None: _gauss(input.shape, dtype or input.dtype),
    "rand_like": _like(lambda shape: random.uniform(shape)),
    "randint": _randint, "randint_like": _randint_like,
    "bernoulli": lambda input, p=None: random.bernoulli(
        input.shape, input if p is None else p
    ).astype(input.dtype),
    "normal": _normal, "normal/number_mean": _normal,
    "normal/in_place": _like(lambda shape, mean=0.0, std=1.0: random.normal(shape, mean, std)),
    "uniform": _like(lambda shape, low=0.0, high=1.0: random.uniform(shape, low, high)),
    "exponential": _like(lambda shape, rate=1.0: random.exponential(shape, 1 / rate)),
    "log_normal": _like(lambda shape, mean=1.0, std=2.0: c.exp(random.normal(shape, mean, std))),
    "cauchy": _like(lambda shape, median=0.0, sigma=1.0: median + sigma * c.tan(
        c.pi * (random.uniform(shape) - 0.5))),
    "geometric": _like(lambda shape, p: c.ceil(c.log1p(-random.uniform(shape)) / c.log(
        c.asarray(1 - p)))),
    "nn.functional.dropout": lambda input, p=0.5, training=True, inplace=False: nn.dropout(
        input, p, training=training
    ),
    **{f"nn.functional.dropout{n}d": lambda input, p=0.5, training=True, inplace=False:
        nn.channel_dropout(input, p, training=training) for n in (2, 3)},
}  # fmt: skip
RANDOM = frozenset(TABLE)
