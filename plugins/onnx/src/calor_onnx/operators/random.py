"""Random numbers: calor's counter-based bits, the same on every device.

A seed makes a key, so such a node gives the same numbers at each run; without one the numbers go on
with calor's global generator, in compiled graphs too.
"""

from __future__ import annotations

import struct
from typing import Any

import calor
from calor_onnx.call import Call
from calor_onnx.computing import like, wide
from calor_onnx.registry import operator
from calor_onnx.types import calor_type, numpy_type
from calor_onnx.values import dtype_of


def source(call: Call, seed: float | None) -> dict[str, Any]:
    """Return where numbers are drawn from: a key of the seed's bits, or the generator."""
    if seed is None:
        return {"device": call.device}
    (bits,) = struct.unpack("<I", struct.pack("<f", seed))
    return {"key": calor.random.key(bits, device=call.device), "device": call.device}


def typed(x: Any, dtype: int | None, other: Any = None) -> Any:
    """Return x in a type of ONNX's number, or in that of another value."""
    known = numpy_type(dtype) if dtype else dtype_of(other)
    return like(x, calor_type(known) or calor.float32)


@operator("RandomNormal")
def random_normal(
    call: Call, *, shape: list[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0,
    seed: float | None = None,
) -> Any:  # fmt: skip
    """Numbers of a normal distribution."""
    return typed(calor.random.normal(tuple(shape), mean, scale, **source(call, seed)), dtype)


@operator("RandomUniform")
def random_uniform(
    call: Call, *, shape: list[int], dtype: int = 1, low: float = 0.0, high: float = 1.0,
    seed: float | None = None,
) -> Any:  # fmt: skip
    """Numbers spread evenly from ``low`` to ``high``."""
    return typed(calor.random.uniform(tuple(shape), low, high, **source(call, seed)), dtype)


@operator("RandomNormalLike", raw=True)
def random_normal_like(
    call: Call, x: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0,
    seed: float | None = None,
) -> Any:  # fmt: skip
    """Numbers of a normal distribution, in the shape of x."""
    return typed(calor.random.normal(x.shape, mean, scale, **source(call, seed)), dtype, x)


@operator("RandomUniformLike", raw=True)
def random_uniform_like(
    call: Call, x: Any, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0,
    seed: float | None = None,
) -> Any:  # fmt: skip
    """Numbers spread evenly, in the shape of x."""
    return typed(calor.random.uniform(x.shape, low, high, **source(call, seed)), dtype, x)


@operator("Bernoulli", since=15, raw=True)
def bernoulli(call: Call, x: Any, *, dtype: int | None = None, seed: float | None = None) -> Any:
    """1 with the probability that each element of x is, else 0."""
    drawn = calor.random.uniform(x.shape, **source(call, seed))
    return typed(calor.less(drawn, like(wide(call.tensor(x)), drawn)), dtype, x)


@operator("Multinomial", since=7, raw=True)
def multinomial(
    call: Call, x: Any, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Any:
    """Places drawn by unnormalized log-probabilities (N, classes): (N, sample_size)."""
    x = call.tensor(x)
    shape = (x.shape[0], sample_size, x.shape[1])
    noise = calor.random.gumbel(shape, **source(call, seed))
    return typed(calor.argmax(calor.expand_dims(wide(x), 1) + noise, axis=2), dtype)
