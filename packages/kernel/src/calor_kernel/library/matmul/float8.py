"""Products of float8 operands: by float8 instructions, or converted to half types.

Requirements: every device computes them, since wider types contain each float8 number, and half
types accumulate in float32. An instruction that accumulates with fewer bits than float32 is used
only if the requested precision allows it, as for TF32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from calor.dtypes import DType, bfloat16, float16, float32, uint8
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.ways import ranked
from calor_kernel.contract.work import (
    LOWERINGS,
    Argument,
    Candidates,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
)
from calor_kernel.library.matmul.gpu_ways import WAYS
from calor_kernel.library.matmul.problem import product_of
from calor_kernel.library.matmul.task import Task
from calor_kernel.library.steps import redirected

Lower = Callable[[Request], Sequence[Work] | Refusal]


def lower_float8(request: Request, lower: Lower) -> Sequence[Work] | Refusal:
    """Return the works of a float8 product; ``lower`` does those of other types."""
    read = _of_bytes(request)
    if read and not request.candidates:
        return read
    made = _of_wider(request, lower)
    if isinstance(made, Refusal):
        return read or made
    later = [replace(work, group=work.group + 1) for work in made] if read else made
    return Candidates.of((*read, *later), read.dropped)


def _of_bytes(request: Request) -> Candidates:
    """Return the ways that read float8, if sums with fewer bits are allowed."""
    if not request.rounds:
        return Candidates()
    bytes_ = tuple(replace(view, dtype=uint8) for view in request.inputs)
    product, _ = product_of(replace(request, inputs=bytes_))
    if product is None or product.m * product.n * product.k * product.batches == 0:
        return Candidates()
    a, b = request.inputs
    product = replace(product, formats=(a.dtype, b.dtype))
    return ranked(WAYS, Task(product, (Input(0), Input(1)), request.info), request)


def _of_wider(request: Request, lower: Lower) -> Sequence[Work] | Refusal:
    """Return the ways with operands converted to a type that contains float8 and has a product."""
    info, (result,) = request.info, request.outputs
    wide = float32
    if info.has("matrix") or info.has("async_matrix"):
        wide = result.dtype if result.dtype in (float16, bfloat16) else float16
    if result.dtype.itemsize > wide.itemsize and result.dtype is not float32:
        wide = result.dtype
    launches: list[Launch] = []
    for number, view in enumerate(request.inputs):
        cast = _cast(request, view, wide, Input(number), Scratch(number))
        if isinstance(cast, Refusal):
            return cast
        launches += cast
    views = tuple(View.dense(spec_of(view.shape, wide)) for view in request.inputs)
    made = lower(replace(request, inputs=views))
    if isinstance(made, Refusal):
        return made
    sizes = tuple(view.size * wide.itemsize for view in views)
    return [
        replace(
            work,
            launches=(*launches, *(redirected(la, _moved(work)) for la in work.launches)),
            scratch=(*sizes, *work.scratch),
            in_place=(),
            variant=f"{wide.name} {work.variant}".rstrip(),
        )
        for work in made
    ]


def _moved(work: Work) -> Mapping[Argument, Argument]:
    """Return the positions of a work's operands, with its scratch behind them."""
    places: dict[Argument, Argument] = {Input(n): Scratch(n) for n in (0, 1)}
    return places | {Scratch(n): Scratch(n + 2) for n in range(len(work.scratch))}


def _cast(
    request: Request, view: View, dtype: DType, source: Input, target: Scratch
) -> list[Launch] | Refusal:
    asked = Request("cast", {"dtype": dtype}, (view,), (spec_of(view.shape, dtype),), request.info)
    found = LOWERINGS["cast"](asked)
    if isinstance(found, Refusal):
        return found
    places: dict[Argument, Argument] = {Input(0): source, Output(0): target}
    return [replace(redirected(la, places), prepares=True) for la in found[0].launches]
