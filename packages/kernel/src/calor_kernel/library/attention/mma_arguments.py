"""The arguments that all attention kernels by matrix instructions share.

Requirements: a kernel gets as build-time arguments what changes its text, and the rest at the
launch. Rows begin at whole accesses, which the declared strides say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.dtypes import DType, float32
from calor_kernel.contract.work import Argument, Build, Launch, Request
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import index_dtype
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.mma_tiles import ACCESS
from calor_kernel.library.attention.operands import least_bytes
from calor_kernel.library.attention.problem import Attention, arguments_of


def index_of(problem: Attention, request: Request) -> DType:
    """Return the index dtype that reaches all operands and results."""
    p, views = problem, request.inputs
    spans = [sum((n - 1) * abs(s) for n, s in zip(v.shape, v.strides, strict=True)) for v in views]
    # Results are dense, even if operands broadcast over heads or batches.
    spans += [o.size for o in request.outputs]
    # Half of an index's range, since positions beyond the last rows are computed too.
    return index_dtype(*(2 * n for n in spans), 2 * p.rows * max(p.features, p.values))


def launch_of(
    function: KernelFunction,
    plan: Any,
    problem: Attention,
    request: Request,
    cubes: tuple[int, int, int],
    own: Sequence[Argument],
    declared: Sequence[Buffer | Scalar],
    flops: int,
) -> Launch:
    """Return a launch whose own declared arguments come before those of all kernels."""
    p, index = problem, index_of(problem, request)
    adjusted = bool(p.kinds) or p.scale <= 0
    told: tuple[tuple[str, Any], ...] = (
        ("adjusted", adjusted),
        ("causal", p.causal),
        ("kinds", p.kinds),
        ("plan", plan),
    )
    build = Build(
        function,
        (*declared, *_signature(p, index)),
        told,
        (plan.units, 1, 1),
        request.info.planes[0],
        index,
    )
    label = f"{function.name} {plan.rows}x{plan.block}"
    return Launch(build, cubes, (*own, *arguments_of(p)), flops, least_bytes(p), label)


def wide(index: DType) -> Scalar:
    """Return the parameter of a width of whole accesses."""
    return Scalar(index, divisible=ACCESS, nonnegative=True)


def _signature(problem: Attention, index: DType) -> list[Buffer | Scalar]:
    """Return the parameters of ``arguments_of``, with strides of whole accesses."""
    p = problem
    size, stride = Scalar(index, nonnegative=True), Scalar(index, divisible=ACCESS)
    made: list[Buffer | Scalar] = [
        Buffer(o.dtype, writable=False, align=16) for o in (p.query, p.key, p.value)
    ]
    made += [Scalar(float32), *(size,) * 5, wide(index)]
    made += [*(stride,) * 3, Scalar(index)] * 3
    for extra in p.extras:
        made += [extra.declared, *(Scalar(index),) * 4]
    return made
