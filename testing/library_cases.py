"""A covering sample of the kernels of the library: functions and their operands, for any device."""

from collections.abc import Callable
from typing import Any

import numpy as np

import calor
from calor import nn


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if np.dtype(dtype if dtype != "bfloat16" else "float32").kind in "iu":
        return rng.integers(0, 5, shape).astype(dtype)
    if dtype.startswith("complex"):
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def typed(dtype: str) -> Callable[[Any], Any]:
    return lambda x: (x.astype(dtype) * 3 + 1).astype("float32").sum(1)


def _attended(q: Any) -> Any:
    half = q.astype("bfloat16")
    made = nn.functional.scaled_dot_product_attention(half, half, half, causal=True)
    return made.astype("float32") ** 2


def _convolved(x: Any, w: Any, dtype: str = "bfloat16") -> Any:
    with calor.matmul_precision("high"):
        made = nn.functional.conv2d(x.astype(dtype), w.astype(dtype), padding=1, stride=2)
    return made.astype("float32") ** 2


X = numbers(5, 37)
# A function and its operands.
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x: calor.exp(-x * x) + calor.where(x > 0, x, 0.5), (X,)),
    "functions": (lambda x: calor.tanh(x) * calor.sin(x) + calor.log1p(calor.abs(x)), (X,)),
    "whole": (lambda x: (x // 3) * (x % 4) - (x << 2) ^ x, (numbers(70, dtype="int64"),)),
    "narrow": (lambda x: x * x + x, (numbers(70, dtype="uint8"),)),
    "bools": (lambda x: ~x & calor.flip(x), (numbers(70, dtype="bool"),)),
    "complex": (lambda x: x * calor.conj(x) + calor.exp(x), (numbers(40, dtype="complex64"),)),
    "double": (
        lambda x: calor.exp(x) / calor.sqrt(calor.abs(x) + 1),
        (numbers(40, dtype="float64"),),
    ),
    "float16": (typed("float16"), (X,)),
    "bfloat16": (typed("bfloat16"), (X,)),
    "float8": (lambda x: x.astype("float8_e4m3fn").astype("float32"), (X,)),
    "sum": (lambda x: (x.sum(), x.sum(0), x.sum(1)), (X,)),
    "extremes": (lambda x: (x.max(1), calor.argmin(x, axis=0)), (X,)),
    "variance": (lambda x: calor.var(x, axis=1), (X,)),
    "softmax": (lambda x: calor.softmax(x, axis=-1), (X,)),
    "batch norm": (
        lambda x: nn.functional.batch_norm(x, None, None, training=True)[0],
        (numbers(6, 5, 8, 8),),
    ),
    "scan": (lambda x: calor.cumulative_sum(x, axis=1), (X,)),
    "sort": (lambda x: (calor.sort(x, axis=1), calor.argsort(x, axis=0)), (X,)),
    "product": (lambda x, y: x @ y, (numbers(9, 21), numbers(21, 13))),
    "patches": (lambda x, y: x @ y, (numbers(64, 16), numbers(16, 64))),
    "fragments": (
        lambda x, y: (x.astype("float16") @ y.astype("float16")).astype("float32"),
        (numbers(64, 32), numbers(32, 64)),
    ),
    "integers": (lambda x: x @ x.T, (numbers(9, 21, dtype="int32"),)),
    "take": (lambda x, i: calor.take(x, i, axis=1), (X, np.array([3, 1, 36]))),
    "concat": (lambda x: calor.concat([x, x * 2], axis=0), (X,)),
    "pad": (lambda x: calor.pad(x, ((1, 2), (0, 3))), (X,)),
    "transposed": (lambda x: x.T + 1.0, (X,)),
    "convolution": (
        lambda x, w: nn.functional.conv2d(x, w, padding=1),
        (numbers(1, 3, 8, 8), numbers(4, 3, 3, 3)),
    ),
    "fft": (lambda x: calor.abs(calor.fft.fft(x)), (numbers(2, 12),)),
    "gradient": (lambda x: calor.grad(lambda x: calor.softmax(x, axis=1).max(1).sum())(x), (X,)),
    "attention": (
        lambda q: nn.functional.scaled_dot_product_attention(q, q, q),
        (numbers(1, 2, 9, 8),),
    ),
    "convolution by fragments": (
        lambda x, w: calor.grad(lambda x, w: _convolved(x, w).sum(), argnums=(0, 1))(x, w),
        (numbers(2, 16, 7, 6), numbers(16, 16, 3, 3)),
    ),
    "convolution of float32 by fragments": (
        lambda x, w: calor.grad(lambda x, w: _convolved(x, w, "float32").sum(), argnums=(0, 1))(
            x, w
        ),
        (numbers(2, 16, 7, 6), numbers(16, 16, 3, 3)),
    ),
    "convolution by patches": (
        lambda x, w: calor.grad(
            lambda x, w: (nn.functional.conv2d(x, w, padding=1, stride=2) ** 2).sum(),
            argnums=(0, 1),
        )(x, w),
        (numbers(2, 24, 7, 6), numbers(32, 24, 3, 3)),
    ),
    "attention by mma": (
        lambda q: calor.grad(lambda q: _attended(q).sum())(q),
        (numbers(1, 2, 40, 64),),
    ),
}


def flat(value: Any) -> list[Any]:
    parts = value if isinstance(value, tuple) else (value,)
    return [np.asarray(part.numpy()) for part in parts]


def assert_near(name: str, found: Any, wanted: Any) -> None:
    """Compare results of a case; those by matrix instructions are of fewer bits than float32."""
    half = "by fragments" in name or "by mma" in name
    near, most = (5e-2, np.abs(wanted).max()) if half else (1e-3, 1)
    np.testing.assert_allclose(found, wanted, rtol=near, atol=near * most)
    assert found.dtype == wanted.dtype
