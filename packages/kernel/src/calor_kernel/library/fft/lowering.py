"""Fourier transforms as launches, axis by axis.

Requirements: lengths of small primes are transformed by their factors, others by a circular
convolution of such a length (Bluestein, 1970); what lies inside of the transformed axis lies inside
of vectors, so that no axis is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from calor.dtypes import float32, float64
from calor_kernel.contract.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Work,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.fft.kernels import chirp_filter, chirp_in, chirp_out, chirp_product
from calor_kernel.library.fft.plan import SIZE, End, Plan, Rows, convolution_length, factors_of
from calor_kernel.library.fft.step_layout import Form
from calor_kernel.library.fft.steps_launch import transform_by_steps
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
    # The axis whose bins are halved is the first of a real operand, and the last of a real result.
    order = axes[::-1] if kind == "r2c" else axes
    length = {axis: x.shape[axis] for axis in axes}
    if kind == "c2r":
        length[axes[-1]] = request.attributes["length"]
    plan = Plan(request.info, part)
    given = Input(0, x.offset if kind == "r2c" else 2 * x.offset)
    source = End(given, given, "real" if kind == "r2c" else "pairs", inverse)
    shape = list(x.shape)
    for i, axis in enumerate(order):
        halved = axis == axes[-1]
        n = length[axis]
        rows = Rows(prod(shape[:axis]), n, prod(shape[axis + 1 :]))
        if halved and kind == "c2r":
            source = replace(source, form="half")
            shape[axis] = n
        if halved and kind == "r2c":
            shape[axis] = n // 2 + 1
        to: Argument = Output(0) if i == len(order) - 1 else plan.memory(2 * prod(shape))
        form: Form = "pairs"
        if halved and kind in ("r2c", "c2r"):
            form = "half" if kind == "r2c" else "real"
        transform(plan, rows, source, End(to, to, form, inverse))
        source = End(to, to, "pairs", inverse)
    return [Work(tuple(plan.launches), tuple(plan.scratch))]


def transform(plan: Plan, shape: Rows, source: End, target: End, prepares: bool = False) -> None:
    """Add the launches that transform one axis."""
    if factors_of(shape.n) is None:
        convolve(plan, shape, source, target)
    elif not transform_by_tiles(plan, shape, source, target, prepares):
        transform_by_steps(plan, shape, source, target, prepares)


def convolve(plan: Plan, shape: Rows, source: End, target: End) -> None:
    """Transform by a product of a longer transform with that of a chirp."""
    long = convolution_length(shape.n)
    chirp = plan.table(shape.n, chirp=True)
    folded, spectrum = plan.apart(long), plan.apart(long)
    read, written = Buffer(plan.dtype, writable=False), Buffer(plan.dtype)
    signature = (read, written, written, SIZE, SIZE, Scalar(plan.dtype))
    build = Build(chirp_filter, signature, (), (plan.units, 1, 1))
    arguments = (chirp, folded.first, folded.second, shape.n, long, 1 / long)
    cubes = (-(-long // plan.units), 1, 1)
    plan.launches.append(Launch(build, cubes, arguments, 0, 0, "fft chirp", prepares=True))
    transform(plan, Rows(1, long, 1), folded, spectrum, prepares=True)
    wide = replace(shape, n=long)
    first, second = plan.apart(wide.size), plan.apart(wide.size)
    numbers = (shape.rows, shape.n, shape.inner, long)
    alone = shape.inner == 1
    plan.over(
        chirp_in,
        long * shape.inner,
        shape.rows,
        (source.first, source.second),
        (first.first, first.second),
        (chirp,),
        numbers,
        {"read": source.form, "swap_read": source.swapped, "alone": alone},
    )
    transform(plan, wide, first, second)
    # With both parts exchanged, the next transform is the inverse one.
    back = replace(first, first=first.second, second=first.first)
    plan.over(
        chirp_product,
        long * shape.inner,
        shape.rows,
        (second.first, second.second, spectrum.first, spectrum.second),
        (back.first, back.second),
        (),
        (shape.rows, long, shape.inner),
        {"alone": alone},
    )
    transform(plan, wide, first, second)
    plan.over(
        chirp_out,
        shape.n * shape.inner,
        shape.rows,
        (second.second, second.first),
        (target.first, target.second),
        (chirp,),
        numbers,
        {"write": target.form, "swap_write": target.swapped, "alone": alone},
    )
