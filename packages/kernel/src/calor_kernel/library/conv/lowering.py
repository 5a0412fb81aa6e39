"""Convolutions as launches: from the three ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from math import prod
from typing import Any

from calor.dtypes import float32, int64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
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
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.direct import direct
from calor_kernel.library.conv.direct_channel_vectors_launch import across_steps
from calor_kernel.library.conv.direct_rows_launch import part_steps, shift_steps
from calor_kernel.library.conv.gemv_conv import few_steps
from calor_kernel.library.conv.generic_tiles_launch import tile_steps
from calor_kernel.library.conv.implicit_gemm_simt_launch import places_by_patches
from calor_kernel.library.conv.implicit_gemm_tma_launch import by_boxes
from calor_kernel.library.conv.input_gradient_stride2_tma import phases_by_boxes
from calor_kernel.library.conv.mma_choice import by_fragments
from calor_kernel.library.conv.mma_choice import suits as suits_fragments
from calor_kernel.library.conv.padded_rows import Placement, Steps
from calor_kernel.library.conv.pointwise_gemm import by_products
from calor_kernel.library.conv.problem import (
    PARTS,
    Correlation,
    accumulator,
    for_input,
    for_weight,
    forward,
    thinned,
)
from calor_kernel.library.conv.small_width_launch import narrow_steps
from calor_kernel.library.conv.weight_gradient_gemm import weights_by_products
from calor_kernel.library.conv.weight_gradient_rows_launch import dot_steps
from calor_kernel.library.conv.weight_gradient_simt_launch import weights_by_patches

Way = Callable[[Correlation, Sequence[Argument], Steps, DeviceInfo], bool]
_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)
_AXIS = (_SIZE, _SIZE, _SIZE, *(_STRIDE,) * 2, _SIZE, _SIZE, _STRIDE, _STRIDE)


# Places of an image up to which tiles across channels waste less, where weights are packed already.
_SMALL = 256
# Places of all images from which on packing weights costs less than places that see padding.
_MANY = 256


@lowering("conv", strided=True)
def lower_conv(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to compute a convolution, the likeliest first.

    Where the packed weights are kept, tiles across channels come first for small images.
    """
    problem, info = forward(request), request.info
    if not _suits(problem):
        return [_direct(problem, info)]
    places = Input(0), Input(1)
    if info.max_units > 1:
        return _by_units(problem, request)
    few = Steps()
    if few_steps(problem, places, few, info):
        first = replace(few.work(), variant="few places")
        return [first, *_vectors(request, problem, 1)] if request.candidates else [first]
    narrow = Steps()
    if narrow_steps(problem, places, narrow, info, _MANY):
        first = replace(narrow.work(), variant="narrow")
        return [first, *_vectors(request, problem, 1)] if request.candidates else [first]
    works = _vectors(request, problem, 0)
    if request.candidates and narrow_steps(problem, places, narrow, info):
        works.append(replace(narrow.work(), variant="narrow", group=1))
    return works or [_direct(problem, info)]


def _vectors(request: Request, problem: Correlation, group: int) -> list[Work]:
    """Return the ways whose vectors lie along lines of places, and across channels."""
    to, places, info = Placement.dense(problem), (Input(0), Input(1)), request.info
    works = []
    steps, packed = Steps(), Steps()
    if shift_steps(problem, places, to, steps, info):
        works.append(replace(steps.work(), variant="shifted", group=group))
    if across_steps(problem, places, to, packed, info):
        works.append(replace(packed.work(), variant="across", group=group))
        small = prod(axis.count for axis in problem.axes) <= _SMALL
        if 1 in request.kept and (small or problem.axes[-1].result > 1):
            works.reverse()
    return works


@lowering("conv_input_gradient", strided=True)
def lower_conv_input_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to compute the gradient of the input, which is a transposed convolution."""
    problem, info = for_input(request), request.info
    if info.max_units > 1 and _suits(problem):
        return _by_units(problem, request)
    works = _one(problem, part_steps, info)
    if not request.candidates or info.max_units > 1 or not _suits(problem):
        return works
    steps = Steps()
    # The same without tiles for narrow images; where those do not suit, it is the first.
    if part_steps(problem, (Input(0), Input(1)), steps, info, narrow=False):
        other = replace(steps.work(), variant="parts", group=1)
        if _labels(other) != _labels(works[0]):
            works.append(other)
    return works


@lowering("conv_weight_gradient", strided=True)
def lower_conv_weight_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to compute the gradient of the weight."""
    problem = for_weight(request)
    if request.info.max_units > 1 and _suits(problem):
        return _by_units(problem, request)
    return _one(problem, dot_steps, request.info)


def _by_units(problem: Correlation, request: Request) -> list[Work]:
    """Return the ways of cubes of many units: matrix instructions where they suit, and tiles."""
    info, wanted = request.info, request.candidates
    exact = request.attributes.get("precision", "highest") == "highest"
    rounded = not exact and problem.a.dtype is float32
    seen = thinned(problem)
    works = [*by_products(seen, info, wanted, rounded)]
    if wanted or not works:
        works += by_boxes(seen, info, wanted, rounded)
        works += phases_by_boxes(seen, info, wanted, rounded)
        works += weights_by_products(seen, info, wanted, rounded)
    if suits_fragments(seen, info, rounded) and (wanted or not works):
        works += by_fragments(seen, info, wanted)
    if not works or (wanted and not rounded):
        # Instructions for float32 as it is are likelier to be the fastest, where there are any.
        later = int(bool(works))
        by_patches = weights_by_patches if seen.by_weight else places_by_patches
        made = by_patches(seen, info, wanted)
        works += [replace(work, group=work.group + later) for work in made]
    if works and not wanted:
        return works[:1]
    works.sort(key=lambda work: work.group)
    tiles = Steps()
    suits = tile_steps(problem, (Input(0), Input(1)), tiles, info)
    last = tiles.work() if suits else _direct(problem, info)
    return [*works, replace(last, variant="tiled", group=2) if works else last]


def _one(problem: Correlation, of_one_unit: Way, info: DeviceInfo) -> list[Work]:
    """Return what a way for cubes of one unit, or of many, makes of a problem."""
    steps, places = Steps(), (Input(0), Input(1))
    way = tile_steps if info.max_units > 1 else of_one_unit
    if _suits(problem) and way(problem, places, steps, info):
        return [steps.work()]
    return [_direct(problem, info)]


def _labels(work: Work) -> list[str]:
    return [launch.label for launch in work.launches]


def _suits(problem: Correlation) -> bool:
    """Return whether quicker ways may serve: for real numbers, where there is work."""
    return problem.a.dtype not in PARTS and problem.size * problem.terms > 0


def _direct(problem: Correlation, info: DeviceInfo) -> Work:
    """Return the work of the general body."""
    count = problem.size
    if not count:
        return Work(())
    dtype = problem.a.dtype
    part = PARTS.get(dtype, dtype)
    accumulate = accumulator(dtype)
    parts = 2 if dtype in PARTS else 1
    units = min(info.max_units, 128)
    width = 1 if units > 1 else max(1, info.vector_bytes // 8)
    numbers = [n for lead in (*problem.leads, problem.depth) for n in astuple(lead)]
    numbers += [n for axis in problem.axes for n in astuple(axis)]
    keywords: dict[str, Any] = {
        "rank": len(problem.axes),
        "width": width,
        "complexes": parts == 2,
        "divided": any(axis.divide > 1 for axis in problem.axes),
        "accumulate": accumulate,
    }
    read = Buffer(part, writable=False)
    signature: tuple[Buffer | Scalar, ...] = (read, read, Buffer(part), _SIZE)
    signature += ((_SIZE, _STRIDE, _STRIDE) * 4) + _AXIS * len(problem.axes)
    cube = (units, 1, 1)
    build = Build(direct, signature, tuple(sorted(keywords.items())), cube)
    cubes = (-(-count // (units * width)), 1, 1)
    a, b = problem.a, problem.b
    arguments = (
        Input(0, a.offset * parts),
        Input(1, b.offset * parts),
        Output(0),
        count,
        *numbers,
    )
    flops = 2 * count * problem.terms * parts * parts
    nbytes = (a.size + b.size + count) * dtype.itemsize
    return Work((Launch(build, cubes, arguments, flops, nbytes, "conv direct"),))
