"""What every draw begins with: a stream of bits, and the parameters in the result's shape.

Requirements: parameters broadcast with the shape that is asked for; half types are computed in
float32, and whole numbers in float64 where a parameter has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor import dtypes
from calor.dtypes import DType, as_dtype, float32, float64
from calor.functions.conversion import astype
from calor.functions.creation import asarray
from calor.ops.elementwise import add
from calor.ops.movement import expand
from calor.ops.spectral import random_bits
from calor.random import from_bits
from calor.random.generator import COUNTER, Shape, shape_of, source_of
from calor.recording.recipes import broadcast_shapes
from calor.recording.record import host
from calor.specs import spec
from calor.tensor.tensor import Tensor

# What a draw takes its bits from: a key, a generator, a device.
Source = tuple[Any, Any, Any]
_NEXT = np.array([0, 0, 1, 0], np.uint32)


class Stream:
    """Bits of one draw, round after round."""

    def __init__(self, key: Any, generator: Any, device: Any) -> None:
        self.key, self.counter = source_of(key, generator, device)
        self._step = host(_NEXT, COUNTER, self.key.device)

    def bits(self, counter: Any, shape: tuple[int, ...], known: DType) -> tuple[Any, Any]:
        """Return bits for numbers of a dtype, and the counter after them."""
        made = random_bits(self.key, counter, shape=shape, bits=from_bits.width(known))
        return made, add(counter, self._step)

    def unit(self, counter: Any, shape: tuple[int, ...], known: DType) -> tuple[Any, Any]:
        """Return numbers in (0, 1), both ends excluded, and the counter after them."""
        made, counter = self.bits(counter, shape, known)
        return (from_bits.open_unit(made, known) + 1.0) * 0.5, counter

    def normal(self, counter: Any, shape: tuple[int, ...], known: DType) -> tuple[Any, Any]:
        """Return standard normal numbers, and the counter after them."""
        made, counter = self.bits(counter, shape, known)
        return from_bits.normal(made, known, 0.0, 1.0), counter


def parameters(
    name: str, shape: Shape, values: tuple[Any, ...], known: DType, device: Any
) -> list[Any]:
    """Return the parameters of a draw in the result's shape and a dtype."""
    made: list[Any] = [
        astype(v, known) if isinstance(v, Tensor) else asarray(v, dtype=known, device=device)
        for v in values
    ]
    wanted = broadcast_shapes(name, [spec(shape_of(shape), known), *(t._value.spec for t in made)])
    return [t if t.shape == wanted else expand(t, shape=wanted) for t in made]


def computing(known: DType) -> DType:
    """Return the dtype that numbers are computed in: float32 for half types."""
    return float32 if known.itemsize == 2 else known


def real(
    name: str, shape: Shape, values: tuple[Any, ...], dtype: Any, source: Source
) -> tuple[Stream, list[Any], DType]:
    """Return the stream, the parameters and the result's dtype of a draw of real numbers."""
    known = from_bits.float_type(dtype)
    stream = Stream(*source)
    return stream, parameters(name, shape, values, computing(known), stream.key.device), known


def whole(
    name: str, shape: Shape, values: tuple[Any, ...], dtype: Any, source: Source
) -> tuple[Stream, list[Any], DType]:
    """Return the stream, the parameters and the result's dtype of a draw of whole numbers."""
    wide = any(isinstance(v, Tensor) and v.dtype is float64 for v in values)
    stream = Stream(*source)
    given = parameters(name, shape, values, float64 if wide else float32, stream.key.device)
    return stream, given, dtypes.DEFAULT_INT if dtype is None else as_dtype(dtype)
