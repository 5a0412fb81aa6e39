"""Quantization by scale and zero point: linear, blocked, dynamic; products of quantized operands.

Requirements: all types, including those of fewer than eight bits, which devices hold in a carrier.
Products of integers are exact, in int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_onnx.affine import product
from calor_onnx.call import Call
from calor_onnx.computing import like, wide
from calor_onnx.convolving import convolution
from calor_onnx.errors import ModelError
from calor_onnx.operators.casting import converted
from calor_onnx.registry import operator
from calor_onnx.types import PACKED, calor_type, numpy_type
from calor_onnx.values import Narrow, dtype_of


def held(call: Call, value: Any) -> Any:
    """Return the tensor of a value on the device; for a narrow one its carrier."""
    if isinstance(value, np.ndarray):
        value = call.run.carried(value, call.device)
    tensor = value.tensor if isinstance(value, Narrow) else value
    if tensor is not None and tensor.dtype.kind == "storage":
        tensor = calor.astype(tensor, calor.float32)
    return tensor


def fitted(scale: Any, shape: tuple[int, ...], axis: int, block: int) -> Any:
    """Return a scale or zero point that broadcasts: per tensor, per axis, or per block."""
    if scale is None or not scale.ndim or (scale.size == 1 and len(shape) != scale.ndim):
        return scale if scale is None else calor.reshape(scale, ())
    if not block and scale.ndim == 1:
        if len(shape) == 1 or scale.size == 1:
            return scale
        wanted = [1] * len(shape)
        wanted[axis % len(shape)] = scale.size
        return calor.reshape(scale, tuple(wanted))
    along = axis % len(shape)
    if block:
        scale = calor.repeat(scale, block, axis=along)
        index = [slice(None)] * len(shape)
        index[along] = slice(0, shape[along])
        scale = scale[tuple(index)]
    return scale


def limits(dtype: Any) -> tuple[int, int]:
    """Return the least and the largest number of an integer type."""
    bits = PACKED.get(dtype, dtype.itemsize * 8)
    signed = dtype.kind == "i" or dtype.name.startswith("int")
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def is_integer(dtype: Any) -> bool:
    """Return whether a host's type holds integers, of few bits too."""
    return dtype.kind in "iu" or "int" in dtype.name


@operator("QuantizeLinear", since=10, raw=True)
def quantize_linear(
    call: Call, x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    """x / scale + zero, rounded to the nearest even and bounded."""
    to = np.dtype(np.uint8)
    if zero is not None:
        to = dtype_of(zero)
    elif output_dtype:
        to = numpy_type(output_dtype)
    x, scale, zero = held(call, x), held(call, scale), held(call, zero)
    scale = fitted(scale, x.shape, axis, block_size)
    zero = fitted(zero, x.shape, axis, block_size)
    if precision:
        kind: Any = calor_type(numpy_type(precision))
        x, scale = like(x, kind), like(scale, kind)
    elif not x.dtype.is_floating:
        x = like(x, scale)
    return quantized(call, wide(calor.divide(x, scale)), zero, to, bool(saturate))


def quantized(call: Call, x: Any, zero: Any, to: Any, saturate: bool = True) -> Any:
    """Return x + zero in a type of few bits, bounded; integers rounded to the nearest even."""
    if not is_integer(to):
        if zero is not None:
            x = x + like(zero, x)
        return converted(call, x, to, saturate, "up")
    made = calor.round(x)
    if zero is not None:
        made = made + like(zero, made)
    return converted(call, calor.clip(made, *limits(to)), to, True, "up")


@operator("DequantizeLinear", since=10, raw=True)
def dequantize_linear(
    call: Call, x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Any:  # fmt: skip
    """(x − zero) · scale."""
    x, scale, zero = held(call, x), held(call, scale), held(call, zero)
    made = calor_type(numpy_type(output_dtype)) if output_dtype else scale.dtype
    scale = fitted(scale, x.shape, axis, block_size)
    zero = fitted(zero, x.shape, axis, block_size)
    return like(centred(x, zero, wide(scale).dtype) * wide(scale), made)


def centred(x: Any, zero: Any, dtype: Any) -> Any:
    """Return x − zero in a floating type; exact for types of 16 bits and fewer."""
    if zero is None:
        return like(x, dtype)
    if x.dtype.itemsize > 2 and x.dtype.is_integer:
        return like(like(x, calor.int64) - like(zero, calor.int64), dtype)
    return like(x, dtype) - like(zero, dtype)


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(call: Call, x: Any) -> Any:
    """x as uint8, with the scale and zero point of its range extended to 0."""
    low, high = calor.minimum(calor.min(x), 0), calor.maximum(calor.max(x), 0)
    scale = (high - low) / 255
    none = calor.equal(scale, 0)
    divisor = calor.where(none, 1, scale)
    zero = calor.clip(calor.round(-low / divisor), 0, 255)
    made = calor.clip(calor.round(x / divisor) + zero, 0, 255)
    return calor.astype(made, calor.uint8), scale, calor.astype(zero, calor.uint8)


def shifted(x: Any, zero: Any, dtype: Any) -> Any:
    """Return x − zero in a wider type."""
    return like(x, dtype) if zero is None else like(x, dtype) - like(zero, dtype)


def _row(zero: Any, x: Any) -> Any:
    """Return a zero point or scale of the left operand as a column if it has several."""
    if zero is None or zero.ndim != 1:
        return zero
    return calor.reshape(zero, () if zero.size == 1 else (*zero.shape, 1)) if x.ndim > 1 else zero


def column_sums(call: Call, place: int) -> Any:
    """Return the column sums of a constant operand of bytes; None otherwise."""

    def sums(array: Any) -> Any:
        return array.sum(-2, dtype=np.int32, keepdims=True)

    known = call.constant(place) if call.device is call.run.device else None
    if known is None or known.dtype != np.int8 or len(known.shape) < 2:
        return None
    return call.derived(known, "column sums", sums)


@operator("MatMulInteger", since=10)
def matmul_integer(call: Call, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    """The matrix product of integers minus their zero points, as int32."""
    return product(a, b, _row(a_zero, a), b_zero, column_sums(call, 1))


@operator("QLinearMatMul", since=10, raw=True)
def qlinear_matmul(
    call: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    y_scale: Any, y_zero: Any,
) -> Any:  # fmt: skip
    """The product of quantized matrices, quantized."""
    to = dtype_of(y_zero)
    a, b, az, bz, yz = (held(call, t) for t in (a, b, a_zero, b_zero, y_zero))
    sa, sb, sy = (wide(held(call, t)) for t in (a_scale, b_scale, y_scale))
    if a.dtype.is_integer:
        sums = product(a, b, _row(az, a), bz, column_sums(call, 3))
    else:
        sums = calor.matmul(shifted(a, _row(az, a), calor.float32), shifted(b, bz, calor.float32))
    rate = _row(sa, a) * sb / _row(sy, a)
    return quantized(call, like(sums, calor.float32) * rate, _row(yz, a), to)


@operator("ConvInteger", since=10)
def conv_integer(
    call: Call, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *,
    auto_pad: str = "NOTSET", dilations: list[int] | None = None, group: int = 1,
    kernel_shape: list[int] | None = None, pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """The convolution of integers minus their zero points, as int32."""
    return convolution(
        x, w, x_zero, w_zero,
        auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides,
    )  # fmt: skip


@operator("QLinearConv", since=10)
def qlinear_conv(
    call: Call, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
    y_scale: Any, y_zero: Any, b: Any = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """The quantized convolution of quantized operands; the bias is int32."""
    if y_zero is None:
        raise ModelError("QLinearConv needs y_zero_point")
    made = convolution(
        x, w, x_zero, w_zero,
        auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides,
    )  # fmt: skip
    one = (-1, *(1,) * (x.ndim - 2))
    if b is not None:
        made = made + calor.reshape(b, one)
    rate = calor.reshape(x_scale, ()) * w_scale / calor.reshape(y_scale, ())
    scaled = like(made, calor.float32) * calor.reshape(rate, one if rate.size > 1 else ())
    return quantized(call, scaled, calor.reshape(y_zero, ()), dtype_of(y_zero))
