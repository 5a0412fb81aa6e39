"""Fourier transforms as launches, axis by axis.

Requirements: lengths of small primes are transformed by their factors, others by a circular
convolution of such a length (Bluestein, 1970); vectors run along the axes inside the transformed
one, so no axis is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from calor.dtypes import float32, float64
from calor_kernel.contract.launching import Effort, Typed
from calor_kernel.contract.work import Input, Output, Refusal, Request, Work
from calor_kernel.library.fft.kernels import chirp_filter, chirp_product, chirp_rows, step
from calor_kernel.library.fft.plan import End, Plan, convolution_length, factors_of, size_of
from calor_kernel.library.fft.shared_lines import transform_by_lines, transform_by_parts
from calor_kernel.library.fft.step_layout import Form, Read, Rows, Storage, Written
from calor_kernel.library.fft.tiles_launch import transform_by_tiles


def transforms(request: Request) -> Sequence[Work] | Refusal:
    """Return the launches of a transform, axis by axis."""
    (x,) = request.inputs
    (result,) = request.outputs
    kind, axes = request.attributes["kind"], list(request.attributes["axes"])
    part = float32 if result.dtype.itemsize == (4 if kind == "c2r" else 8) else float64
    if part not in request.info.dtypes:
        return Refusal(f"the device does not compute in {part}")
    if not result.size:
        return [Work(())]
    inverse = kind in ("inverse", "c2r")
    # The axis with half of the bins is the first for a real operand, the last for a real result.
    order = axes[::-1] if kind == "r2c" else axes
    length = {axis: x.shape[axis] for axis in axes}
    if kind == "c2r":
        length[axes[-1]] = request.attributes["length"]
    plan = Plan(request.info, part)
    given = Input(0, x.offset if kind == "r2c" else 2 * x.offset)
    source = plan.end(given, "real" if kind == "r2c" else "pairs", inverse)
    shape = list(x.shape)
    for i, axis in enumerate(order):
        halved = axis == axes[-1]
        n = length[axis]
        rows = Rows(prod(shape[:axis]), n, prod(shape[axis + 1 :]))
        if halved and kind == "c2r":
            source = replace(source, storage=Storage("half", inverse))
            shape[axis] = n
        if halved and kind == "r2c":
            shape[axis] = n // 2 + 1
        to = Output(0) if i == len(order) - 1 else plan.memory(2 * prod(shape) * part.itemsize)
        form: Form = "pairs"
        if halved and kind in ("r2c", "c2r"):
            form = "half" if kind == "r2c" else "real"
        transform(plan, rows, source, plan.end(to, form, inverse))
        source = plan.end(to, "pairs", inverse)
    return [plan.work()]


def transform(
    plan: Plan, shape: Rows[int], source: End, target: End, prepares: bool = False
) -> None:
    """Add the launches that transform one axis."""
    if factors_of(shape.n) is None:
        convolve(plan, shape, source, target)
        return
    given = plan, shape, source, target, prepares
    ways = transform_by_tiles, transform_by_lines, transform_by_parts
    if not any(way(*given) for way in ways):
        transform_by_steps(*given)


def convolve(plan: Plan, shape: Rows[int], source: End, target: End) -> None:
    """Transform by a product of a longer transform with that of a chirp."""
    long = convolution_length(shape.n)
    chirp = plan.table(shape.n, chirp=True)
    padded = Rows(1, long, 1)
    folded, spectrum = plan.apart(padded), plan.apart(padded)
    plan.prepare(
        chirp_filter,
        long,
        Effort("fft chirp"),
        table=chirp,
        target=folded.written,
        n=shape.n,
        long=long,
        scale=Typed(1 / long, plan.dtype),
    )
    transform(plan, padded, folded, spectrum, prepares=True)
    wide = replace(shape, n=long)
    first, second = plan.apart(wide), plan.apart(wide)
    alone = shape.inner == 1
    rows = {"table": chirp, "over": shape, "long": long, "alone": alone}
    into = {"source": source.read, "target": first.written, "end": source.storage, "out": False}
    plan.over(chirp_rows, long * shape.inner, shape, **rows, **into)
    transform(plan, wide, first, second)
    # With real and imaginary parts exchanged, the next transform is the inverse one.
    plan.over(
        chirp_product,
        long * shape.inner,
        shape,
        source=second.read,
        factors=spectrum.read,
        target=Written(first.second, first.first),
        over=wide,
        alone=alone,
    )
    transform(plan, wide, first, second)
    back = Read(second.second, second.first)
    out = {"source": back, "target": target.written, "end": target.storage, "out": True}
    plan.over(chirp_rows, shape.n * shape.inner, shape, **rows, **out)


def transform_by_steps(
    plan: Plan, shape: Rows[int], source: End, target: End, prepares: bool = False
) -> None:
    """Add the launches of a transform whose length has small primes."""
    factors = factors_of(shape.n) or [1]
    table = plan.table(shape.n) if len(factors) > 1 else source.first
    # Between steps, results alternate between two pieces of memory.
    buffers = [plan.apart(shape) for _ in range(min(len(factors) - 1, 2))]
    before = 1
    for i, radix in enumerate(factors):
        last = i == len(factors) - 1
        to = target if last else buffers[i % 2]
        plan.over(
            step,
            shape.n * shape.inner // radix,
            shape,
            5 * size_of(shape) * max(radix.bit_length() - 1, 1),
            prepares,
            source=source.read,
            target=to.written,
            table=table,
            over=shape,
            before=before,
            radix=radix,
            whole=before * shape.inner % plan.width == 0,
            last=last,
            read=source.storage,
            write=to.storage,
        )
        source = to
        before *= radix
