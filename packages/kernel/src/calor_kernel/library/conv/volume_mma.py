"""Convolutions of volumes by matrix instructions of planes, which read the volumes in place.

Requirements: with few filters a product of windows waits for what it reads, so a copy of the planes
that each window sees costs as much as the product. Volumes are copied once with channels last, or
not at all; the taps along the first axis are further blocks of channels, and planes that no volume
has are zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calor.dtypes import float32
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.launching import Bound, Multiple
from calor_kernel.contract.work import Input, Request, View, Work, row_major
from calor_kernel.library.conv.implicit_gemm_mma_launch import (
    Operands,
    add_pixels,
    mma_refusal,
    plans_of,
)
from calor_kernel.library.conv.implicit_gemm_operands import ACCESS, image_of, weights_of
from calor_kernel.library.conv.problem import Convolution, Correlation, Lead, undivided
from calor_kernel.library.conv.volume_planes import volumes_refusal
from calor_kernel.library.conv.windows import Volumes, WindowAxis
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.library.steps import Steps

# Filters from which planes are products of boxes, which are faster than the copy is slow.
_FILTERS = 64


def volume_mma_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a convolution does not read volumes in place, None if it does."""
    p, info = one.problem, one.info
    reason = volumes_refusal(one, request)
    if reason is not None or p.by_weight:
        return reason or "it is a weight gradient"
    if p.leads[1].size != 1:
        return "it has groups"
    if any(axis.divide != 1 for axis in p.axes) or p.axes[0].terms == 1:
        return "it has stride phases, or one tap along the first axis"
    first, high, _ = p.axes
    if first.size != 1 and first.a != high.size * high.a:
        return "planes do not follow each other"
    if p.depth.size % (ACCESS // p.a.dtype.itemsize):
        return "its channels fill no whole accesses"
    if info.has("tensor_copy") and hinted(p.leads[2].size) >= _FILTERS:
        return f"{_FILTERS} filters and more have larger tiles of planes"
    flat = _flat(_ascending(p))
    return mma_refusal(replace(one, problem=flat, seen=flat), request)


def volume_mma_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a convolution that :func:`volume_mma_refusal` accepts, the likeliest
    first.
    """
    p = _ascending(one.problem)
    for plan, likely in plans_of(_flat(p), one.info):
        work = _work(one, p, plan)
        name = f"volumes {plan.kind} {plan.rows}x{plan.columns}x{plan.depth} by {plan.units}"
        yield replace(work, variant=name, group=0 if likely else 1)


def _ascending(p: Correlation) -> Correlation:
    """Return a problem without divisors whose taps read ascending positions."""
    if all(axis.summed > 0 for axis in p.axes):
        return p
    (part,) = undivided(p)
    return part.problem


def _flat(p: Correlation) -> Correlation:
    """Return a problem of volumes as one of planes, with copied weights.

    Channels are those of all planes that a window sees, one plane after another.
    """
    (images, groups, outputs), (first, high, wide) = p.leads, p.axes
    shape = (outputs.size, first.terms * p.depth.size, high.terms, wide.terms)
    row, channel, down, across = row_major(shape)
    return replace(
        p,
        leads=(
            Lead(images.size * first.count, images.a, 0), groups, Lead(outputs.size, 0, row),
        ),
        depth=Lead(shape[1], p.depth.a, channel),
        axes=(replace(high, b=down), replace(wide, b=across)),
        b=View(shape, (row, channel, down, across), p.b.dtype),
    )  # fmt: skip


def _work(one: Convolution, p: Correlation, plan: MmaPlan) -> Work:
    """Return the launches of a problem with ascending taps."""
    steps, info, flat = Steps(), one.info, _flat(p)
    outputs, channels, (first, high, wide) = p.leads[2], p.depth.size, p.axes
    # Warp-group instructions truncate float32 to TF32.
    rounded = plan.grouped and plan.dtype is float32
    every = replace(high, size=first.size * high.size)
    x = image_of(replace(p, axes=(every, wide)), steps, info, rounded)
    sizes = (outputs.size, first.terms, channels, high.terms, wide.terms)
    strides = (outputs.b, first.b, p.depth.b, high.b, wide.b)
    target, before = steps.memory(flat.b.size * p.b.dtype.itemsize), len(steps.launches)
    steps.copy(View(sizes, strides, p.b.dtype, p.b.offset), Input(1), target, info)
    copies = [replace(launch, prepares=True) for launch in steps.launches[before:]]
    steps.launches[before:] = copies
    block = plan.depth if channels % plan.depth == 0 else channels
    room = flat.depth.size
    source = Bound(target, p.b.dtype)
    volumes: Volumes[int | Multiple, int] = Volumes(
        WindowAxis(first.result, first.summed, first.start, first.size),
        first.count,
        channels // block,
        Multiple(high.size * x.strides[1], plan.access),
        high.count * wide.count,
    )
    weights = weights_of(flat, room, block, steps, info, rounded, source)
    add_pixels(flat, plan, Operands(x, room, block, weights, volumes), 1, steps, info, one.tail)
    return steps.work()
