"""Lowering of convolutions: from the three ops to the ways of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import float32
from calor_kernel.contract.choices import hinted, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.ways import Way, ranked
from calor_kernel.contract.work import (
    Refusal,
    Request,
    Work,
)
from calor_kernel.library.conv.depthwise_channels import (
    along_channels_refusal,
    along_channels_steps,
)
from calor_kernel.library.conv.depthwise_pixels import (
    depthwise_pixels_refusal,
    depthwise_pixels_steps,
)
from calor_kernel.library.conv.direct import direct_work
from calor_kernel.library.conv.direct_channel_vectors import (
    channel_vectors_refusal,
    channel_vectors_steps,
    last_refusal,
)
from calor_kernel.library.conv.direct_rows_launch import rows_refusal, rows_steps
from calor_kernel.library.conv.disjoint_windows import patches_works, row_patches_refusal
from calor_kernel.library.conv.gemv_conv import gemv_refusal, gemv_steps
from calor_kernel.library.conv.merged_axes import merged
from calor_kernel.library.conv.one_unit_rows import (
    DIRECT,
    SMALL_WIDTH,
    WINDOWS,
    ended,
    made,
    refused,
)
from calor_kernel.library.conv.padded_rows import Placement, vectors
from calor_kernel.library.conv.problem import (
    PARTS,
    TF32,
    Convolution,
    Correlation,
    for_input,
    for_weight,
    forward,
    thinned,
)
from calor_kernel.library.conv.single_window import (
    single_window_forward_refusal,
    single_window_forward_works,
)
from calor_kernel.library.conv.window_columns_launch import columns_refusal, columns_steps
from calor_kernel.library.conv.window_parts_launch import PARTED
from calor_kernel.library.conv.window_products import WINDOW_PRODUCTS
from calor_kernel.library.gemm.epilogue import Tail

# Images up to this many pixels waste less in tiles across channels if weights are packed.
_SMALL = 256
# From this many pixels of all images on, packing weights costs less than pixels on padding.
_MANY = 128
# Operations of convolutions, and of weight gradients, up to which units that multiply float32 alone
# end before the copies that matrix instructions for TF32 need.
_FEW = {False: 2 * 10**7, True: 6 * 10**7}

_GEMV: Final[Way[Convolution]] = Way("gemv", refused(gemv_refusal), made(gemv_steps), tier=1)
_COLUMNS: Final[Way[Convolution]] = Way(
    "window columns", refused(columns_refusal), ended(columns_steps), paired=True
)
_ROWS: Final[Way[Convolution]] = Way(
    "rows",
    refused(lambda p, info: rows_refusal(p, Placement.dense(p), info)),
    ended(lambda p, steps, info, tail: rows_steps(p, Placement.dense(p), steps, info, tail)),
    tier=1,
    paired=True,
)
_CHANNEL_VECTORS: Final[Way[Convolution]] = Way(
    "channel vectors",
    refused(channel_vectors_refusal),
    ended(channel_vectors_steps),
    tier=1,
    paired=True,
)
_ALONG_CHANNELS: Final[Way[Convolution]] = Way(
    "depthwise along channels", refused(along_channels_refusal), made(along_channels_steps)
)
_ROW_PATCHES: Final[Way[Convolution]] = Way("patches", row_patches_refusal, patches_works)
_SINGLE_WINDOW: Final[Way[Convolution]] = Way(
    "single window",
    single_window_forward_refusal,
    single_window_forward_works,
    tier=1,
    paired=True,
)
# Ways of few problems, which suit those best.
_SPECIAL: Final = (_GEMV, _ALONG_CHANNELS, _ROW_PATCHES, _SINGLE_WINDOW, WINDOW_PRODUCTS)
_FORWARD: Final = (
    *_SPECIAL, PARTED, WINDOWS, _COLUMNS, SMALL_WIDTH, _ROWS, _CHANNEL_VECTORS, DIRECT
)  # fmt: skip
_FORWARD_FEW: Final = (
    *_SPECIAL, PARTED, WINDOWS, _COLUMNS, _ROWS, _CHANNEL_VECTORS, SMALL_WIDTH, DIRECT
)  # fmt: skip
_FORWARD_ACROSS: Final = (
    *_SPECIAL, PARTED, WINDOWS, _COLUMNS, SMALL_WIDTH, _CHANNEL_VECTORS, _ROWS, DIRECT
)  # fmt: skip
_FORWARD_PACKED: Final = (
    *_SPECIAL, PARTED, _COLUMNS, WINDOWS, SMALL_WIDTH, _CHANNEL_VECTORS, _ROWS, DIRECT
)  # fmt: skip
# Packed windows beside ways that read images in place, which may suit unchanged weights better.
_BESIDE: Final = replace(WINDOWS, tier=1, paired=True)
_FORWARD_NEAR: Final = (
    *_SPECIAL, PARTED, SMALL_WIDTH, _CHANNEL_VECTORS, _BESIDE, _ROWS, DIRECT
)  # fmt: skip
# Ways for results with channels last.
_LAST: Final = (
    Way("depthwise pixels", refused(depthwise_pixels_refusal), ended(depthwise_pixels_steps)),
    Way(
        "channel vectors last",
        refused(last_refusal),
        ended(lambda p, steps, info, tail: channel_vectors_steps(p, steps, info, tail, True)),
    ),
)
_FORWARD_SINGLE: Final = (PARTED, WINDOWS, _CHANNEL_VECTORS, _GEMV, _ROWS, DIRECT)


def lower_conv(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of a convolution, the likeliest first.

    If packed weights are cached, tiles across channels come first for small images.
    """
    return forward_works(request)


def forward_works(request: Request, tail: Tail | None = None) -> Sequence[Work] | Refusal:
    """Return the works of a convolution; those that take its epilogue do what follows it.

    With the attribute ``order`` of a result's axes, the result has channels last.
    """
    if "order" in request.attributes:
        return _last_works(request, tail)
    request = merged(request, image=0, weight=1, result=2)
    problem = forward(request)
    pixels = prod(hinted(axis.count) for axis in problem.axes)
    kept = 1 in request.kept
    few = not kept and hinted(problem.leads[0].size) * pixels < _MANY
    packed = kept and (pixels <= _SMALL or problem.axes[-1].result > 1)
    ways: Sequence[Way[Convolution]] = (
        _FORWARD_PACKED if packed else _FORWARD_FEW if few else _FORWARD
    )
    if ways is _FORWARD and _fills_vectors(problem, request.info):
        ways = _FORWARD_ACROSS
    if kept and pixels == 1:
        ways = _FORWARD_SINGLE
    if problem.a.dtype is float32 and request.info.has("masked_access"):
        # A page of memory holds several channels of images so small, which vectors of output
        # channels then read in place as fast as packed ones.
        near = packed and prod(hinted(axis.size) for axis in problem.axes) <= _SMALL
        ways = _FORWARD_NEAR if near else [_BESIDE if way is WINDOWS else way for way in ways]
    return _lowered(problem, ways, request, tail)


def _fills_vectors(problem: Correlation, info: DeviceInfo) -> bool:
    """Return whether output channels fill vectors, and windows have several taps.

    Each element of the input is then read at one place for all of them; vectors of pixels are read
    anew at each tap, and mostly cross lines of the caches.
    """
    _, lanes = vectors(problem, info)
    taps = prod(axis.terms for axis in problem.axes)
    many = info.native.get("vector_registers", 16) >= 32
    return many and taps > 1 and hinted(problem.leads[2].size) % lanes == 0


def _last_works(request: Request, tail: Tail | None) -> Sequence[Work] | Refusal:
    """Return the works of a convolution whose result has channels last."""
    (made,) = request.outputs
    images, *pixels, channels = made.shape
    result = spec_of((images, channels, *pixels), made.dtype)
    problem = forward(replace(request, outputs=(result,)))
    one = Convolution(problem, problem, request.info, tail=tail)
    return ranked(_LAST, one, request) or Refusal("no way writes channels last")


def lower_conv_input_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the input gradient, which is a transposed convolution."""
    from calor_kernel.library.conv.gradient_ways import INPUT

    request = merged(request, image=2, weight=1, result=0)
    return _lowered(for_input(request), INPUT, request)


def lower_conv_weight_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the weight gradient."""
    from calor_kernel.library.conv.gradient_ways import WEIGHT

    request = merged(request, image=0, weight=2, result=1)
    return _lowered(for_weight(request), WEIGHT, request)


def _lowered(
    problem: Correlation,
    ways: Sequence[Way[Convolution]],
    request: Request,
    tail: Tail | None = None,
) -> Sequence[Work]:
    """Return the candidates of a problem; ``ways``: those for cubes of one unit."""
    info = request.info
    if problem.a.dtype in PARTS or problem.size * problem.terms == 0:
        return [direct_work(problem, info)]
    phases = prod(axis.divide for axis in problem.axes)
    flops = 2 * hinted(problem.size) * hinted(problem.terms) // phases
    rounded = problem.a.dtype is float32 and request.rounds and flops >= _FEW[problem.by_weight]
    if info.max_units == 1:
        return ranked(ways, Convolution(problem, problem, info, tail=tail), request)
    from calor_kernel.library.conv import unit_ways

    before = rounded and bool(request.attributes.get(TF32))
    one = Convolution(problem, thinned(problem), info, rounded, tail, before)
    return ranked(unit_ways.WAYS, one, request)
