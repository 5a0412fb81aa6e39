"""GEMV convolutions: few output pixels, as dot products of windows and weights in place.

Requirements: with few pixels, as in audio models that take one frame at a time, the convolution
reads its weights once, at the speed of memory. Tiles of pixel rows would be mostly empty, and
packing the weights would take longer than the convolution. Windows are copied only if they do not
form rows in memory.
"""

from __future__ import annotations

from math import prod

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Input, View
from calor_kernel.library.conv.padded_rows import adjacent, three
from calor_kernel.library.conv.pixel_lines import within_padding
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.matmul.blueprints import dots
from calor_kernel.library.matmul.gemv import dot_rows_launch
from calor_kernel.library.matmul.problem import Operand, Product, merged
from calor_kernel.library.matmul.task import Task, memory
from calor_kernel.library.steps import Steps

# Maximum of output pixels of an image, minimum of terms and of output channels.
_PLACES, _TERMS, _CHANNELS = 8, 64, 16


def gemv_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why GEMV does not suit a convolution, None if it does."""
    images, groups, rows = problem.leads
    axes = three(problem)
    count = prod(axis.count for axis in axes)
    if any(axis.divide != 1 or axis.summed < 1 for axis in axes):
        return "its windows are those of a gradient"
    if groups.size != 1:
        return "it has groups"
    if images.size * count > _PLACES:
        return f"it has more than {_PLACES} output pixels"
    if rows.size < _CHANNELS:
        return f"it has fewer than {_CHANNELS} output channels"
    lanes = info.vector_bytes // problem.a.dtype.itemsize
    if problem.a.dtype.kind != "float" or lanes < 4 or lanes & (lanes - 1):
        return f"the device has no vectors of {problem.a.dtype} for it"
    if problem.terms < max(_TERMS, lanes):
        return f"an output pixel sums fewer than {max(_TERMS, lanes)} products"
    return None if adjacent(axes, problem.depth) else "the weights of a channel are not contiguous"


def gemv_steps(problem: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a convolution that :func:`gemv_refusal` accepts."""
    images, _, rows = problem.leads
    axes = three(problem)
    count = prod(axis.count for axis in axes)
    seen = within_padding(problem, steps, info)
    source: Argument = seen.memory.place
    dtype = seen.memory.dtype
    terms = problem.terms
    strides = [s * axis.result for s, axis in zip(seen.strides, axes, strict=True)]
    inner = [s * axis.summed for s, axis in zip(seen.strides, axes, strict=True)]
    view = View(
        (images.size, *(a.count for a in axes), problem.depth.size, *(a.terms for a in axes)),
        (seen.steps.outer, *strides, seen.steps.inner, *inner),
        dtype,
    )
    of_places, of_terms = range(1, 1 + len(axes)), range(1 + len(axes), len(view.shape))
    across, along = merged(view, of_places), merged(view, of_terms)
    if across is not None and along == (terms, 1):
        columns = Operand((seen.steps.outer, 0), across[1], 1, 0, dtype)
    else:
        scratch = steps.memory(view.size * dtype.itemsize)
        steps.copy(view, source, scratch, info)
        columns, source = Operand((count * terms, 0), terms, 1, 0, dtype), scratch
    weights = Operand((0, 0), rows.b, 1, problem.b.offset, problem.b.dtype)
    product = Product((images.size, 1), rows.size, count, terms, weights, columns, problem.a.dtype)
    operands = [Input(1), source]
    if count == 1:
        # A column is a row of the transposed product, and the result has the same layout.
        product, operands = product.swapped(), operands[::-1]
    blueprint = dots(product, info, max(rows.size, 1))
    assert blueprint is not None
    a, b = (memory(operand, product.dtype).place for operand in operands)
    steps.launches.append(dot_rows_launch(Task(product, (a, b), info), blueprint))
