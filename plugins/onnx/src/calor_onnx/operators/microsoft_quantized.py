"""Quantized operators of ONNX Runtime's own domain.

Elementwise ones and pools compute on the numbers that the integers stand for; products are products
of integers. So results may differ from ONNX Runtime's by one where a number lies half way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import calor
from calor_onnx.affine import aligned, dequantized, product, quantized
from calor_onnx.call import Call
from calor_onnx.computing import like
from calor_onnx.operators.pooling import average_pool, global_average_pool
from calor_onnx.operators.quantized import column_sums
from calor_onnx.operators.recurrent import layer_of, lstm_layer
from calor_onnx.registry import operator

DOMAIN = "com.microsoft"


@operator("QLinearAdd", domain=DOMAIN)
def qlinear_add(
    call: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    scale: Any, zero: Any = None,
) -> Any:  # fmt: skip
    """The sum of what two operands stand for."""
    made = dequantized(a, a_scale, a_zero) + dequantized(b, b_scale, b_zero)
    return quantized(made, scale, zero, a.dtype)


@operator("QLinearMul", domain=DOMAIN)
def qlinear_mul(
    call: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    scale: Any, zero: Any = None,
) -> Any:  # fmt: skip
    """The product, element by element, of what two operands stand for."""
    made = dequantized(a, a_scale, a_zero) * dequantized(b, b_scale, b_zero)
    return quantized(made, scale, zero, a.dtype)


@operator("QLinearSigmoid", domain=DOMAIN)
def qlinear_sigmoid(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None
) -> Any:
    """The logistic function of what the operand stands for."""
    return quantized(calor.sigmoid(dequantized(x, x_scale, x_zero)), scale, zero, x.dtype)


@operator("QLinearLeakyRelu", domain=DOMAIN)
def qlinear_leaky_relu(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, *,
    alpha: float = 0.01,
) -> Any:  # fmt: skip
    """What the operand stands for where it is not negative, else alpha times that."""
    made = calor.leaky_relu(dequantized(x, x_scale, x_zero), alpha)
    return quantized(made, scale, zero, x.dtype)


@operator("QLinearSoftmax", domain=DOMAIN)
def qlinear_softmax(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, *,
    axis: int = -1, opset: int = 13,
) -> Any:  # fmt: skip
    """The softmax of what the operand stands for; before opset 13 from ``axis`` on as one axis."""
    numbers = dequantized(x, x_scale, x_zero)
    if opset < 13:
        axis %= x.ndim
        rows = calor.reshape(numbers, (*x.shape[:axis], -1))
        made = calor.reshape(calor.softmax(rows, axis=-1), x.shape)
    else:
        made = calor.softmax(numbers, axis=axis)
    return quantized(made, scale, zero, x.dtype)


@operator("QLinearAveragePool", domain=DOMAIN)
def qlinear_average_pool(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, *,
    channels_last: int = 0, **attributes: Any,
) -> Any:  # fmt: skip
    """The mean of each window of what the operand stands for."""
    numbers = dequantized(x, x_scale, x_zero)
    if channels_last:
        numbers = calor.moveaxis(numbers, -1, 1)
    made = average_pool(call, numbers, **attributes)
    made = calor.moveaxis(made, 1, -1) if channels_last else made
    return quantized(made, scale, zero, x.dtype)


@operator("QLinearGlobalAveragePool", domain=DOMAIN)
def qlinear_global_average_pool(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, *,
    channels_last: int = 0,
) -> Any:  # fmt: skip
    """The mean over all spatial axes of what the operand stands for."""
    numbers = dequantized(x, x_scale, x_zero)
    if channels_last:
        numbers = calor.moveaxis(numbers, -1, 1)
    made = global_average_pool(call, numbers)
    made = calor.moveaxis(made, 1, -1) if channels_last else made
    return quantized(made, scale, zero, x.dtype)


@operator("QLinearConcat", domain=DOMAIN)
def qlinear_concat(call: Call, scale: Any, zero: Any, *inputs: Any, axis: int) -> Any:
    """Operands with a scale and zero point each, joined along an axis under one scale."""
    parts = [
        quantized(dequantized(*inputs[i : i + 3]), scale, zero, zero.dtype)
        for i in range(0, len(inputs), 3)
    ]
    return calor.concat(parts, axis=axis)


@operator("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(
    call: Call, a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None,
    b_zero: Any = None, bias: Any = None,
) -> Any:  # fmt: skip
    """The product of integers as the numbers that it stands for, plus a bias."""
    known = column_sums(call, 1)
    sums = product(a, b, aligned(a_zero, a.ndim, -2), aligned(b_zero, b.ndim, -1), known)
    rate = aligned(a_scale, sums.ndim, -2) * aligned(b_scale, sums.ndim, -1)
    made = calor.astype(sums, rate.dtype) * rate
    return made if bias is None else made + bias


def by_range(a: Any) -> tuple[Any, Any, Any]:
    """Return a quantized to uint8 by its range, which includes 0, with scale and zero point."""
    low = calor.minimum(calor.min(a), 0)
    high = calor.maximum(calor.max(a), 0)
    scale = (high - low) / 255
    scale = calor.where(calor.equal(scale, 0), 1, scale)
    zero = calor.astype(calor.clip(calor.round(-low / scale), 0, 255), calor.uint8)
    return quantized(a, scale, zero, calor.uint8), scale, zero


@operator("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(
    call: Call, a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None
) -> Any:
    """The product of a, quantized by its own range, and integers b."""
    small, scale, zero = by_range(a)
    return matmul_integer_to_float(call, small, b, scale, b_scale, zero, b_zero, bias)


@operator("DynamicQuantizeLSTM", domain=DOMAIN)
def dynamic_quantize_lstm(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None,
    c: Any = None, p: Any = None, w_scale: Any = None, w_zero: Any = None, r_scale: Any = None,
    r_zero: Any = None, *, direction: str = "forward", clip: float | None = None,
    **attributes: Any,
) -> Any:  # fmt: skip
    """LSTM with weights (directions, inputs, 4 · hidden) of bytes.

    The input is quantized by its range over the steps that a sample has, the state by its range
    in each step.
    """
    layer = layer_of(x, r.shape[-2], lengths, direction, 0, clip)
    if lengths is not None:
        steps = calor.reshape(calor.arange(x.shape[0], dtype=calor.int32), (-1, 1, 1))
        x = calor.where(steps < calor.max(lengths), x, 0)

    def times(weight: Any, scale: Any, zero: Any, number: int) -> Callable[[Any], Any]:
        q, rate = weight[number], aligned(scale[number], 2, 1)
        offset = None if zero is None else aligned(zero[number], 2, 1)
        sums = calor.sum(q, axis=-2, keepdims=True, dtype=calor.int32)

        def product_with(a: Any) -> Any:
            small, a_scale, a_zero = by_range(a)
            made = product(small, q, a_zero, offset, sums)
            return calor.astype(made, calor.float32) * (a_scale * rate)

        return product_with

    return lstm_layer(
        layer, lambda n: times(w, w_scale, w_zero, n)(x),
        lambda n: times(r, r_scale, r_zero, n), b, [h, c], p, 0, **attributes,
    )  # fmt: skip


@operator("QGemm", domain=DOMAIN)
def qgemm(
    call: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    c: Any = None, scale: Any = None, zero: Any = None, *, alpha: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Any:  # fmt: skip
    """A product of integers as Gemm's; a quantized result where it has a scale."""
    a = calor.matrix_transpose(a) if transA else a
    b = calor.matrix_transpose(b) if transB else b
    sums = product(a, b, a_zero, aligned(b_zero, 2, 1), None if transB else column_sums(call, 3))
    if c is not None:
        sums = sums + calor.astype(c, calor.int32)
    rate = a_scale * aligned(b_scale, 2, 1) * alpha
    made = calor.astype(sums, calor.float32) * rate
    return made if scale is None else quantized(made, scale, zero, a.dtype)


@operator("QuantizeLinear", domain=DOMAIN)
def quantize_linear(call: Call, x: Any, scale: Any, zero: Any = None, *, axis: int = 1) -> Any:
    """The integers for numbers, with a scale for all or for each place of an axis."""
    kind = calor.uint8 if zero is None else zero.dtype
    return quantized(x, aligned(scale, x.ndim, axis), aligned(zero, x.ndim, axis), kind)


@operator("DequantizeLinear", domain=DOMAIN)
def dequantize_linear(call: Call, x: Any, scale: Any, zero: Any = None, *, axis: int = 1) -> Any:
    """The numbers that integers stand for, with a scale for all or for each place of an axis."""
    made = dequantized(x, aligned(scale, x.ndim, axis), aligned(zero, x.ndim, axis))
    return like(made, scale)


@operator("MatMulNBits", domain=DOMAIN)
def matmul_nbits(
    call: Call, a: Any, b: Any, scales: Any, zeros: Any = None, groups: Any = None,
    bias: Any = None, *, K: int, N: int, bits: int = 4, block_size: int,
    accuracy_level: int = 0, weight_prepacked: int = 0,
) -> Any:  # fmt: skip
    """The product with weights (N, K) of a few bits each, packed by blocks along K."""
    blocks = -(-K // block_size)
    weights = calor.reshape(like(unpacked(b, bits), scales), (N, -1, block_size))
    rates = calor.reshape(scales, (N, blocks, 1))
    if zeros is None:
        offset: Any = float(2 ** (bits - 1))
    elif zeros.dtype is calor.uint8:
        rows = unpacked(calor.reshape(zeros, (N, -1)), bits)[:, :blocks]
        offset = calor.reshape(like(rows, scales), (N, blocks, 1))
    else:
        offset = calor.reshape(zeros, (N, blocks, 1))
    whole = calor.reshape((weights - offset) * rates, (N, -1))[:, :K]
    if groups is not None:
        places = calor.astype(groups[:K], calor.int64)
        small = calor.reshape(weights, (N, -1))[:, :K]
        rate = calor.take(calor.reshape(scales, (N, blocks)), places, axis=1)
        if not isinstance(offset, float):
            offset = calor.take(calor.reshape(offset, (N, blocks)), places, axis=1)
        whole = (small - offset) * rate
    made = calor.matmul(a, calor.matrix_transpose(like(whole, a)))
    return made if bias is None else made + bias


def unpacked(x: Any, bits: int) -> Any:
    """Return the numbers in bytes, from the lowest bits on, along the last axis."""
    if bits == 8:
        return x
    mask = 2**bits - 1
    parts = [calor.bitwise_and(calor.bitwise_right_shift(x, shift), mask)
             for shift in range(0, 8, bits)]  # fmt: skip
    return calor.reshape(calor.stack(parts, axis=-1), (*x.shape[:-1], -1))
