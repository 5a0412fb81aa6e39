"""Reductions as launches: from the ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from calor.dtypes import int64
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.elementwise.values import parts, stored
from calor_kernel.library.reduce.general import reduce_general
from calor_kernel.library.reduce.kinds import PLACES, working
from calor_kernel.library.reduce.problem import Reduction, reduction_of
from calor_kernel.library.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Work,
    lowering,
)

_SIZE: Final = Scalar(int64, nonnegative=True)
_STRIDE: Final = Scalar(int64)


@lowering("sum", "prod", "max", "min", "argmax", "argmin", "any", "all", strided=True)
def lower_reduction(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to reduce, the likeliest first."""
    (x,), (output,) = request.inputs, request.outputs
    kind, info = request.op, request.info
    places = kind in PLACES
    axes = (request.attributes["axis"],) if places else request.attributes["axes"]
    wide = working(kind, x.dtype, output.dtype)
    missing = next((t for t in (wide, output.dtype) if stored(t) not in info.dtypes), None)
    if missing is not None and stored(missing).itemsize > 2:
        return Refusal(f"{kind} of {x.dtype} computes with {missing}, which the device lacks")
    problem = reduction_of(x, axes, ordered=places)
    return [Work((general(request, problem),))]


def general(request: Request, problem: Reduction) -> Launch:
    """Return the launch of the body that takes everything."""
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
