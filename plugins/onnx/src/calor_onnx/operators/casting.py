"""Conversions between element types."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.ops.elementwise import bitcast
from calor_onnx.call import Call
from calor_onnx.carrier_rounding import narrowed
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.types import (
    CARRIERS,
    DATA_TYPES,
    PACKED,
    STRING,
    HostType,
    calor_type,
    name_of,
    numpy_type,
)
from calor_onnx.values import Narrow, dtype_of

_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


@operator("Cast", since=6, raw=True)
def cast(call: Call, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """The elements in another type; floats of eight bits saturate where that is asked for."""
    return converted(call, x, numpy_type(to), bool(saturate), round_mode)


@operator("Cast", raw=True)
def cast_1(call: Call, x: Any, *, to: str) -> Any:
    """The elements in a type that is given by name."""
    return converted(call, x, numpy_type(DATA_TYPES.get(to, -1)), True, "up")


@operator("CastLike", since=15, raw=True)
def cast_like(
    call: Call, x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up"
) -> Any:  # fmt: skip
    """The elements in the type of another value."""
    return converted(call, x, dtype_of(like), bool(saturate), round_mode)


def converted(call: Call, x: Any, to: HostType, saturate: bool, round_mode: str) -> Any:
    """Return a value with its elements in another type."""
    known = dtype_of(x)
    if known == to:
        return x
    if known == STRING:
        return from_text(x, to)
    if to == STRING:
        return to_text(call.host(x))
    if isinstance(x, np.ndarray):
        return call.on_host(_converted, x, to, saturate, round_mode)
    return _converted(x, to, saturate, round_mode)


def _converted(x: Any, to: HostType, saturate: bool, round_mode: str) -> Any:
    if isinstance(x, Narrow):
        x = x.tensor
    target = calor_type(to)
    if target is None:
        return narrowed(plain(x), to, saturate, round_mode)
    if target.kind == "storage" and saturate and x.dtype.kind != "storage":
        x = plain(x)
        if not x.dtype.is_floating:
            x = calor.astype(x, calor.float32)
        largest = _LARGEST[target.name]
        x = calor.where(calor.isnan(x), x, calor.clip(x, -largest, largest))
    elif target.kind == "storage" or x.dtype.kind == "storage":
        x = plain(x)
    return calor.astype(x, target)


def plain(x: Tensor) -> Tensor:
    """Return floats of eight bits as float32, with which one can compute."""
    return calor.astype(x, calor.float32) if x.dtype.kind == "storage" else x


def from_text(x: Any, to: HostType) -> Any:
    """Return the numbers that texts spell, on the host."""
    if to.kind in "iu" or (to in CARRIERS and CARRIERS[to].is_integer):
        numbers = [int(text) if _whole(text) else int(float(text)) for text in x.reshape(-1)]
        return np.array(numbers, np.int64).astype(to).reshape(x.shape)
    if to.kind == "b":
        return np.array([float(text) != 0 for text in x.reshape(-1)], np.bool_).reshape(x.shape)
    floats = np.array([float(text) for text in x.reshape(-1)], np.float64)
    return floats.astype(to).reshape(x.shape)


def _whole(text: str) -> bool:
    return text.strip().lstrip("+-").isdigit()


def to_text(x: Any) -> Any:
    """Return numbers as texts: floats with as few digits as tell them apart."""
    if x.dtype.kind not in "biufc":
        x = x.astype(np.float32)
    texts = x.astype(np.str_) if x.size else np.empty(x.shape, np.str_)
    return texts.astype(np.object_)


@operator("BitCast", since=26, raw=True)
def bit_cast(call: Call, x: Any, *, to: int) -> Any:
    """The same bits, read as another type of the same width."""
    target, known = numpy_type(to), dtype_of(x)
    if STRING in (target, known) or _bits(target) != _bits(known):
        raise ModelError(f"BitCast: {name_of(known)} and {name_of(target)} differ in width")
    named = calor_type(target)
    if isinstance(x, Tensor) and named is not None:
        if x.dtype is calor.bool_:
            x = calor.astype(x, calor.uint8)
        if named is calor.bool_:
            return calor.not_equal(bitcast(x, dtype=calor.uint8), 0)
        return bitcast(x, dtype=named)
    return call.host(x).view(target)


def _bits(dtype: HostType) -> int:
    return PACKED.get(dtype, dtype.itemsize * 8)
