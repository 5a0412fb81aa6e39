"""Lowering of reductions: from the ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

from calor.dtypes import DType, int64, real_of
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.elementwise.values import parts, stored
from calor_kernel.library.reduce.argminmax_launch import places_work
from calor_kernel.library.reduce.composites import composite
from calor_kernel.library.reduce.general import reduce_general
from calor_kernel.library.reduce.launch_operands import Job, Placed
from calor_kernel.library.reduce.problem import Reduction, reduction_of
from calor_kernel.library.reduce.program import Program, Recipe
from calor_kernel.library.reduce.program_launch import Plan
from calor_kernel.library.reduce.reduction_ops import PLACES, working

_SIZE: Final = Scalar(int64, nonnegative=True)
_STRIDE: Final = Scalar(int64)


@lowering("sum", "prod", "max", "min", "argmax", "argmin", "any", "all", strided=True)
def lower_reduction(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of a reduction, the likeliest first."""
    (x,), (output,) = request.inputs, request.outputs
    kind, info = request.op, request.info
    places = kind in PLACES
    if not output.size:
        return [Work(())]
    axes = (request.attributes["axis"],) if places else request.attributes["axes"]
    wide = working(kind, x.dtype, output.dtype)
    missing = next((t for t in (wide, output.dtype) if stored(t) not in info.dtypes), None)
    if missing is not None and stored(missing).itemsize > 2:
        return Refusal(f"{kind} of {x.dtype} computes with {missing}, which the device lacks")
    problem = reduction_of(x, axes, ordered=places)
    fall_back = Work((general(request, problem),))
    if places:
        work = places_work(request)
        return [fall_back] if work is None else [work, fall_back]
    if x.dtype.is_complex or output.dtype.is_complex:
        work = pairs(request, axes)
        return [fall_back] if work is None else [work, fall_back]
    program = single(kind, x.dtype, wide, output.dtype)
    return [planned(program, request, axes, (), f"reduce.{kind}"), fall_back]


def pairs(request: Request, axes: Sequence[int]) -> Work | None:
    """Return a complex sum as a sum of pairs; None for other reductions."""
    (x,), (output,) = request.inputs, request.outputs
    if request.op != "sum" or not (x.dtype.is_complex and output.dtype.is_complex):
        return None
    source, result = real_of(x.dtype), real_of(output.dtype)
    view = View((*x.shape, 2), (*(2 * s for s in x.strides), 1), source, 2 * x.offset)
    total = spec_of((*output.shape, 2), result)
    wide = working("sum", source, result)
    on_pairs = replace(request, inputs=(view,), outputs=(total,))
    return planned(single("sum", source, wide, result), on_pairs, axes, (), "reduce.sum")


def planned(
    program: Program, request: Request, axes: Sequence[int], numbers: Sequence[float], label: str
) -> Work:
    """Return the work of a program on the operands and results of a request."""
    inputs = tuple(Placed(Input(k), v) for k, v in enumerate(request.inputs))
    results = tuple(Placed(Output(k), View.dense(s)) for k, s in enumerate(request.outputs))
    shape = request.inputs[0].shape
    plan = Plan(request.info)
    plan.add(program, Job(shape, tuple(axes), inputs, results, tuple(numbers), label))
    return plan.work()


@lowering("softmax", "log_softmax", "standardize", "rms_norm", strided=True)
def lower_composite(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of a softmax or a norm."""
    (x,) = request.inputs
    attributes = request.attributes
    if not any(s.size for s in request.outputs):
        return [Work(())]
    axes = (attributes["axis"],) if "axis" in attributes else attributes["axes"]
    terms = prod(x.shape[a] for a in axes)
    recipe = Recipe()
    made, numbers = composite(recipe, request.op, recipe.operand(x.dtype), terms, attributes)
    program = recipe.program(made.results, made.kept)
    return [planned(program, request, axes, numbers, f"rows.{request.op}")]


def single(kind: str, source: DType, wide: DType, result: DType) -> Program:
    """Return the program of one reduction."""
    recipe = Recipe()
    x = recipe.cast(recipe.operand(source), wide)
    return recipe.program([recipe.cast(recipe.fold(kind, x), result)])


def general(request: Request, problem: Reduction) -> Launch:
    """Return the launch of the general body."""
    (x,), (output,) = request.inputs, request.outputs
    info = request.info
    units = min(info.max_units, 128)
    width = 1 if units > 1 else max(info.vector_bytes // 8, 1)
    kept, reduced = problem.kept, problem.reduced
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(stored(x.dtype), writable=False),
        Buffer(stored(output.dtype)),
        _SIZE,
        *(_SIZE,) * len(kept),
        *(_STRIDE,) * len(kept),
        *(_SIZE,) * len(reduced),
        *(_STRIDE,) * len(reduced),
    )
    keywords: dict[str, Any] = {
        "kind": request.op,
        "source": x.dtype,
        "result": output.dtype,
        "kept": len(kept),
        "reduced": len(reduced),
        "width": width,
    }
    numbers = [
        *(a.size for a in kept),
        *(a.stride for a in kept),
        *(a.size for a in reduced),
        *(a.stride for a in reduced),
    ]
    arguments: tuple[Argument, ...] = (
        Input(0, problem.offset * parts(x.dtype)),
        Output(0),
        problem.results,
        *numbers,
    )
    build = Build(reduce_general, signature, tuple(keywords.items()), (units, 1, 1))
    cubes = -(-problem.results // (units * width))
    terms = problem.results * problem.terms
    nbytes = terms * x.dtype.itemsize + output.nbytes
    return Launch(build, (cubes, 1, 1), arguments, terms, nbytes, "reduce.general")
