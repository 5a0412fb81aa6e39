"""Lowering of reductions: from the ops to the ways of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final

from calor.dtypes import DType, real_of
from calor_kernel.contract.choices import exceeds, spec_of
from calor_kernel.contract.ways import Way, ranked, serves
from calor_kernel.contract.work import (
    Argument,
    Input,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
)
from calor_kernel.library.elementwise.lower import lower_expression
from calor_kernel.library.elementwise.operations import Expression, Step
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.argminmax_launch import ARGMINMAX, ArgProblem
from calor_kernel.library.reduce.composites import composite
from calor_kernel.library.reduce.general import general_work
from calor_kernel.library.reduce.job import Job, Placed, layout_of
from calor_kernel.library.reduce.program import Program, Recipe
from calor_kernel.library.reduce.program_launch import planned
from calor_kernel.library.reduce.reduction_ops import INDICES, working
from calor_kernel.library.steps import Steps, redirected

# Adjacent terms of a sum that are added elementwise, and the least elements for that.
_TERMS: Final = 4
_MANY: Final = 1 << 16
# Reductions of any order, and the terms of a row up to which its results are no vectors.
_ORDERED: Final = ("sum", "max", "min")
_SHORT: Final = 8


@lowering("sum", "prod", "max", "min", "argmax", "argmin", "any", "all", strided=True)
def lower_reduction(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of a reduction, the likeliest first."""
    (x,), (output,) = request.inputs, request.outputs
    kind, info = request.op, request.info
    if not output.size:
        return [Work(())]
    wide = working(kind, x.dtype, output.dtype)
    missing = next((t for t in (wide, output.dtype) if stored(t) not in info.dtypes), None)
    if missing is not None and stored(missing).itemsize > 2:
        return Refusal(f"{kind} of {x.dtype} computes with {missing}, which the device lacks")
    if kind in INDICES:
        found = layout_of(x.shape, (request.attributes["axis"],), [x])
        return ranked(ARGMINMAX, ArgProblem(request, found), request)
    return ranked(REDUCTIONS, wide, request)


def _numbers(wide: DType, request: Request) -> str | None:
    return "row programs have no complex values" if any(_complex(request)) else None


def _terms(wide: DType, request: Request) -> str | None:
    """Return why a sum is not one of few adjacent terms, which units would read row by row."""
    (x,), axes, info = request.inputs, request.attributes["axes"], request.info
    if request.op != "sum" or any(_complex(request)) or info.max_units == 1:
        return "it is no sum of numbers by cubes of many units"
    count = prod(x.shape[a] for a in axes)
    if not any(count == n for n in range(2, _TERMS + 1)) or exceeds(_MANY, x.size):
        return f"it has more than {_TERMS} terms, or few results"
    last = next((a for a in reversed(range(len(x.shape))) if x.shape[a] != 1), 0)
    return None if last in axes and x.strides[last] == 1 else "its terms are not adjacent"


def _added(wide: DType, request: Request) -> list[Work]:
    """Return the work of a sum as an elementwise expression, with a view for each term."""
    (x,), (output,), axes = request.inputs, request.outputs, request.attributes["axes"]
    kept = [a for a in range(len(x.shape)) if a not in axes]
    shape, strides = (tuple(t[a] for a in kept) for t in (x.shape, x.strides))
    places = product(*(range(int(x.shape[a])) for a in axes))
    starts = [sum(i * x.strides[a] for i, a in zip(at, axes, strict=True)) for at in places]
    views = [View(shape, strides, x.dtype, x.offset + start) for start in starts]
    steps, count = [Step("cast", (k,), wide) for k in range(len(views))], len(views)
    total = count
    for k in range(1, count):
        steps.append(Step("add", (total, count + k), wide))
        total = count + len(steps) - 1
    steps.append(Step("cast", (total,), output.dtype))
    expression = Expression((x.dtype,) * count, tuple(steps), (count + len(steps) - 1,))
    results = [spec_of(shape, output.dtype)]
    (work,) = lower_expression(expression, views, results, request.info)
    places_of: dict[Argument, Argument] = {Input(k): Input(0) for k in range(count)}
    return [
        replace(
            work,
            launches=tuple(
                replace(redirected(one, places_of), label="reduce.sum of terms")
                for one in work.launches
            ),
            in_place=(),
        )
    ]


def _interleaved(wide: DType, request: Request) -> str | None:
    """Return why a reduction is not one of short rows that others follow, in two launches."""
    (x,), axes, info = request.inputs, request.attributes["axes"], request.info
    if info.max_units > 1 or request.op not in _ORDERED or any(_complex(request)):
        return "it is no sum or extreme by cubes of one unit"
    inner, outer = _inner(x, axes), [a for a in axes if x.shape[a] > 1]
    if not inner or len(inner) == len(outer) or exceeds(_MANY, x.size):
        return "it reduces no short rows beside other axes, or has few elements"
    terms = prod(x.shape[a] for a in inner)
    return None if not exceeds(terms, _SHORT) and x.strides[inner[-1]] == 1 else "its rows are long"


def _inner(x: View, axes: Sequence[int]) -> list[int]:
    """Return the reduced axes behind which no other is left, without axes of one element."""
    found: list[int] = []
    for axis in reversed([a for a in range(len(x.shape)) if x.shape[a] > 1]):
        if axis not in axes:
            break
        found.insert(0, axis)
    return found


def _twice(wide: DType, request: Request) -> list[Work]:
    """Return the work that reduces whole rows onto each other, and then each row's short rows."""
    (x,), (output,), axes = request.inputs, request.outputs, request.attributes["axes"]
    inner = _inner(x, axes)
    first = tuple(a for a in axes if a not in inner)
    kept = [a for a in range(len(x.shape)) if a not in first]
    between = spec_of(tuple(x.shape[a] for a in kept), wide)
    steps = Steps()
    memory = steps.memory(between.nbytes)
    asked, dtype = replace(request, candidates=False), {"dtype": wide}
    given = {**request.attributes, "axes": first}
    given |= dtype if "dtype" in given else {}
    steps.include(asked, request.op, given, [(x, Input(0))], [(between, memory)])
    given = {**request.attributes, "axes": tuple(kept.index(a) for a in inner)}
    operands = [(View.dense(between), memory)]
    steps.include(asked, request.op, given, operands, [(output, Output(0))])
    return [steps.work()]


def _complex_sum(wide: DType, request: Request) -> str | None:
    if request.op == "sum" and all(_complex(request)):
        return None
    return "only sums of complex numbers are sums of their parts"


def _complex(request: Request) -> tuple[bool, bool]:
    return request.inputs[0].dtype.is_complex, request.outputs[0].dtype.is_complex


def _program(wide: DType, request: Request) -> list[Work]:
    """Return the work of a row program of one reduction."""
    recipe = Recipe()
    x = recipe.cast(recipe.operand(request.inputs[0].dtype), wide)
    program = recipe.program([recipe.cast(recipe.fold(request.op, x), request.outputs[0].dtype)])
    return [_planned(program, request, request.attributes["axes"], (), f"reduce.{request.op}")]


def _pairs(wide: DType, request: Request) -> list[Work]:
    """Return the work of a complex sum: a sum of pairs of numbers."""
    (x,), (output,) = request.inputs, request.outputs
    source, result = real_of(x.dtype), real_of(output.dtype)
    view = View((*x.shape, 2), (*(2 * s for s in x.strides), 1), source, 2 * x.offset)
    total = spec_of((*output.shape, 2), result)
    on_pairs = replace(request, inputs=(view,), outputs=(total,))
    return _program(working("sum", source, result), on_pairs)


def _general(wide: DType, request: Request) -> list[Work]:
    (x,) = request.inputs
    return [general_work(request, layout_of(x.shape, request.attributes["axes"], [x], free=True))]


REDUCTIONS: Final[tuple[Way[DType], ...]] = (
    Way("terms", _terms, _added),
    Way("interleaved", _interleaved, _twice),
    Way("row program", _numbers, _program),
    Way("pairs", _complex_sum, _pairs),
    Way("general", serves, _general, spare=True),
)
"""The ways of reductions without indices, by the dtype of the accumulation."""


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
    operand, eps = recipe.operand(x.dtype), attributes.get("eps", 0.0)
    made = composite(recipe, request.op, operand, terms, eps)
    program = recipe.program(made.results, made.kept)
    return [_planned(program, request, axes, made.numbers, f"rows.{request.op}")]


def _planned(
    program: Program, request: Request, axes: Sequence[int], numbers: Sequence[float], label: str
) -> Work:
    """Return the work of a program on the operands and results of a request."""
    inputs = tuple(Placed(Input(k), v) for k, v in enumerate(request.inputs))
    results = tuple(Placed(Output(k), View.dense(s)) for k, s in enumerate(request.outputs))
    shape = request.inputs[0].shape
    job = Job(shape, tuple(axes), inputs, results, tuple(numbers), label)
    work = planned(program, job, request.info)
    assert work is not None
    return work
