"""Products of matrices, and what is computed of one matrix."""

from __future__ import annotations

from typing import Any

import calor
from calor_onnx.call import Call
from calor_onnx.computing import like, wide
from calor_onnx.registry import operator


@operator("MatMul")
def matmul(call: Call, a: Any, b: Any) -> Any:
    """The product of matrices, broadcast over the leading axes."""
    return calor.matmul(a, b)


@operator("Gemm", since=7)
def gemm(
    call: Call, a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Any:  # fmt: skip
    """alpha · a · b + beta · c, with a and b transposed where they say so."""
    # Named axes instead of a transposed view: a product with one row then reads b in order.
    made = calor.tensordot(a, b, axes=([0 if transA else 1], [1 if transB else 0]))
    if alpha != 1:
        made = calor.astype(made * alpha, made.dtype)
    if c is None or not beta:
        return made
    return made + (c if beta == 1 else calor.astype(c * beta, made.dtype))


@operator("Gemm")
def gemm_1(
    call: Call, a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0, broadcast: int = 0,
) -> Any:  # fmt: skip
    """As of opset 7; c is broadcast from the last axis in either case."""
    return gemm(call, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@operator("Einsum", since=12)
def einsum(call: Call, *xs: Any, equation: str) -> Any:
    """Products and sums over named axes."""
    return calor.einsum(equation.replace(" ", ""), *xs)


@operator("Det", since=11)
def det(call: Call, x: Any) -> Any:
    """The determinants of square matrices."""
    return like(calor.linalg.det(wide(x)), x)
