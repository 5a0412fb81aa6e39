"""Lowering of convolutions: from the three ops to the ways of this family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import float32
from calor_kernel.contract.choices import hinted, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.ways import Table, Way, ranked, serves
from calor_kernel.contract.work import (
    Input,
    Refusal,
    Request,
    Work,
    lowering,
)
from calor_kernel.library.conv.depthwise import depthwise_weights, depthwise_weights_refusal
from calor_kernel.library.conv.depthwise_channels import (
    along_channels_refusal,
    along_channels_steps,
)
from calor_kernel.library.conv.depthwise_mma_launch import bands_refusal, bands_works
from calor_kernel.library.conv.depthwise_pixels import (
    depthwise_pixels_refusal,
    depthwise_pixels_steps,
)
from calor_kernel.library.conv.depthwise_tiles_launch import (
    depthwise_tiles_refusal,
    depthwise_tiles_works,
)
from calor_kernel.library.conv.depthwise_windows_launch import (
    channel_windows_refusal,
    depthwise_windows_refusal,
    depthwise_windows_works,
)
from calor_kernel.library.conv.direct import direct_work
from calor_kernel.library.conv.direct_blocks_launch import blocks_refusal, blocks_works
from calor_kernel.library.conv.direct_channel_vectors import (
    channel_vectors_refusal,
    channel_vectors_steps,
    last_refusal,
)
from calor_kernel.library.conv.direct_filters_launch import (
    filters_refusal,
    filters_works,
    grouped_refusal,
)
from calor_kernel.library.conv.direct_rows_launch import (
    phases_refusal,
    phases_steps,
    rows_refusal,
    rows_steps,
)
from calor_kernel.library.conv.disjoint_windows import (
    alone_refusal,
    patches_refusal,
    patches_works,
    row_patches_refusal,
)
from calor_kernel.library.conv.each_group import each_group_refusal, each_group_works
from calor_kernel.library.conv.gemv_conv import gemv_refusal, gemv_steps
from calor_kernel.library.conv.generic_tiles import tiles_refusal, tiles_works
from calor_kernel.library.conv.implicit_gemm_mma_launch import mma_refusal, mma_works
from calor_kernel.library.conv.implicit_gemm_simt_launch import (
    few_rows,
    groups_refusal,
    simt_refusal,
    simt_works,
)
from calor_kernel.library.conv.joined_groups import joined_refusal, joined_works
from calor_kernel.library.conv.merged_axes import merged
from calor_kernel.library.conv.padded_rows import Placement, vectors
from calor_kernel.library.conv.planar_images import planar_refusal, planar_works
from calor_kernel.library.conv.pointwise_gemm import product_refusal, product_works
from calor_kernel.library.conv.problem import (
    PARTS,
    Convolution,
    Correlation,
    for_input,
    for_weight,
    forward,
    thinned,
)
from calor_kernel.library.conv.single_window import single_window_refusal, single_window_works
from calor_kernel.library.conv.small_width_launch import (
    small_width_refusal,
    small_width_steps,
    small_width_weight_refusal,
    small_width_weight_steps,
)
from calor_kernel.library.conv.volume_planes import volumes_refusal, volumes_works
from calor_kernel.library.conv.weight_gradient_launch import (
    weight_panels_refusal,
    weight_panels_steps,
)
from calor_kernel.library.conv.weight_gradient_rows import (
    forward_of,
    weight_rows_refusal,
    weight_rows_steps,
)
from calor_kernel.library.conv.window_columns_launch import columns_refusal, columns_steps
from calor_kernel.library.conv.window_panels_launch import windows_refusal, windows_steps
from calor_kernel.library.conv.window_views import views_refusal, views_works
from calor_kernel.library.conv.winograd_launch import winograd_refusal, winograd_works
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.steps import Steps

_OPERANDS: Final = Input(0), Input(1)


def _made(steps: Callable[[Correlation, Steps, DeviceInfo], None]) -> Callable[..., list[Work]]:
    """Return the works of a way whose launches a function adds."""

    def works(one: Convolution, request: Request) -> list[Work]:
        made = Steps()
        steps(one.problem, made, one.info)
        return [made.work()]

    return works


def _ended(
    steps: Callable[[Correlation, Steps, DeviceInfo, Tail | None], None],
) -> Callable[..., list[Work]]:
    """Return the works of a way whose launches a function adds, with the epilogue."""

    def works(one: Convolution, request: Request) -> list[Work]:
        made = Steps()
        steps(one.problem, made, one.info, one.tail)
        return [made.work()]

    return works


def _refused(
    refusal: Callable[[Correlation, DeviceInfo], str | None],
) -> Callable[[Convolution, Request], str | None]:
    """Return the reason of a way for at most three spatial axes, by the problem and the device."""

    def refuses(one: Convolution, request: Request) -> str | None:
        if len(one.problem.axes) > 3:
            return "it has more than three spatial axes"
        return refusal(one.problem, one.info)

    return refuses


# Images up to this many pixels waste less in tiles across channels if weights are packed.
_SMALL = 256
# From this many pixels of all images on, packing weights costs less than pixels on padding.
_MANY = 256

_GEMV: Final[Way[Convolution]] = Way("gemv", _refused(gemv_refusal), _made(gemv_steps), tier=1)
_WINDOWS: Final[Way[Convolution]] = Way("windows", _refused(windows_refusal), _ended(windows_steps))
_COLUMNS: Final[Way[Convolution]] = Way(
    "window columns", _refused(columns_refusal), _ended(columns_steps), paired=True
)
_SMALL_WIDTH: Final[Way[Convolution]] = Way(
    "small width", _refused(small_width_refusal), _ended(small_width_steps), tier=1, paired=True
)
_ROWS: Final[Way[Convolution]] = Way(
    "rows",
    _refused(lambda p, info: rows_refusal(p, Placement.dense(p), info)),
    _ended(lambda p, steps, info, tail: rows_steps(p, Placement.dense(p), steps, info, tail)),
    tier=1,
    paired=True,
)
_CHANNEL_VECTORS: Final[Way[Convolution]] = Way(
    "channel vectors",
    _refused(channel_vectors_refusal),
    _ended(channel_vectors_steps),
    tier=1,
    paired=True,
)
_PHASES: Final[Way[Convolution]] = Way(
    "phases", _refused(phases_refusal), _made(phases_steps), tier=1
)
_SMALL_WIDTH_GRADIENT: Final[Way[Convolution]] = replace(
    _SMALL_WIDTH, works=_made(small_width_steps), tier=0, paired=False
)
_SMALL_WIDTH_WEIGHTS: Final[Way[Convolution]] = Way(
    "small width",
    _refused(lambda p, info: small_width_weight_refusal(forward_of(p), info)),
    _made(lambda p, steps, info: small_width_weight_steps(forward_of(p), steps, info)),
)
_DEPTHWISE_WEIGHTS: Final[Way[Convolution]] = Way(
    "depthwise",
    _refused(lambda p, info: depthwise_weights_refusal(forward_of(p))),
    _made(lambda p, steps, info: steps.launches.append(depthwise_weights(forward_of(p), info))),
    spare=True,
)
_WEIGHT_ROWS: Final[Way[Convolution]] = Way(
    "weight rows", _refused(weight_rows_refusal), _made(weight_rows_steps), spare=True
)
_WEIGHT_PANELS: Final[Way[Convolution]] = Way(
    "weight panels", _refused(weight_panels_refusal), _made(weight_panels_steps)
)
_DIRECT: Final[Way[Convolution]] = Way(
    "direct", serves, lambda one, request: [direct_work(one.problem, one.info)], spare=True
)
_PATCHES: Final[Way[Convolution]] = Way("patches", alone_refusal, patches_works)
_ALONG_CHANNELS: Final[Way[Convolution]] = Way(
    "depthwise along channels", _refused(along_channels_refusal), _made(along_channels_steps)
)
_ROW_PATCHES: Final[Way[Convolution]] = Way("patches", row_patches_refusal, patches_works)
_SINGLE_WINDOW: Final[Way[Convolution]] = Way(
    "single window", single_window_refusal, single_window_works
)
# Ways of few problems, which suit those best.
_SPECIAL: Final = (_GEMV, _ALONG_CHANNELS, _ROW_PATCHES)
_FORWARD: Final = (
    *_SPECIAL, _WINDOWS, _COLUMNS, _SMALL_WIDTH, _ROWS, _CHANNEL_VECTORS, _DIRECT
)  # fmt: skip
_FORWARD_FEW: Final = (
    *_SPECIAL, _WINDOWS, _COLUMNS, _ROWS, _CHANNEL_VECTORS, _SMALL_WIDTH, _DIRECT
)  # fmt: skip
_FORWARD_ACROSS: Final = (
    *_SPECIAL, _WINDOWS, _COLUMNS, _SMALL_WIDTH, _CHANNEL_VECTORS, _ROWS, _DIRECT
)  # fmt: skip
_FORWARD_PACKED: Final = (
    *_SPECIAL, _COLUMNS, _WINDOWS, _SMALL_WIDTH, _CHANNEL_VECTORS, _ROWS, _DIRECT
)  # fmt: skip
# Ways for results with channels last.
_LAST: Final = (
    Way("depthwise pixels", _refused(depthwise_pixels_refusal), _ended(depthwise_pixels_steps)),
    Way(
        "channel vectors last",
        _refused(last_refusal),
        _ended(lambda p, steps, info, tail: channel_vectors_steps(p, steps, info, tail, True)),
    ),
)
_FORWARD_SINGLE: Final = (_WINDOWS, _CHANNEL_VECTORS, _GEMV, _ROWS, _DIRECT)
_INPUT_GRADIENT: Final = (
    _SINGLE_WINDOW, _PATCHES, _WINDOWS, _SMALL_WIDTH_GRADIENT, _PHASES, _DIRECT
)  # fmt: skip
_WEIGHT_GRADIENT: Final = (
    _SINGLE_WINDOW,
    _WEIGHT_PANELS,
    _SMALL_WIDTH_WEIGHTS,
    _DEPTHWISE_WEIGHTS,
    _WEIGHT_ROWS,
    _DIRECT,
)


def _fma_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is not computed by tiles of FMA, None if it is."""
    reason = simt_refusal(one, request)
    if reason is None and few_rows(one.seen):
        spare = channel_windows_refusal(one, request), views_refusal(one, request)
        if None in spare:
            return "few filters of large windows, or of one tap, have ways of their own"
    return reason


# Ways for cubes of many units. Matrix instructions for full float32 are likely to be faster than
# FMA. SIMT ways are left out if TF32 is allowed and an instruction takes it.
_OF_UNITS: Final[Table[Convolution]] = Table(
    "conv",
    Way("products", product_refusal, product_works),
    Way("direct filters", filters_refusal, filters_works),
    Way("patches", patches_refusal, patches_works),
    Way("joined groups", joined_refusal, joined_works),
    Way("planar images", planar_refusal, planar_works),
    Way("implicit GEMM of groups", groups_refusal, simt_works),
    Way("each group", each_group_refusal, each_group_works),
    Way("depthwise bands", bands_refusal, bands_works),
    Way("depthwise tiles", depthwise_tiles_refusal, depthwise_tiles_works),
    Way("depthwise windows", depthwise_windows_refusal, depthwise_windows_works),
    Way("direct filters of groups", grouped_refusal, filters_works),
    Way("direct blocks", blocks_refusal, blocks_works),
    Way("planes of volumes", volumes_refusal, volumes_works),
    Way("implicit GEMM by MMA", mma_refusal, mma_works),
    Way("Winograd", winograd_refusal, winograd_works),
    Way(
        "implicit GEMM by FMA beside MMA",
        lambda one, request: "TF32 is allowed" if one.rounded else _fma_refusal(one, request),
        simt_works,
        tier=1,
    ),
    Way("implicit GEMM by FMA", _fma_refusal, simt_works, spare=True),
    Way("windows by channel", channel_windows_refusal, depthwise_windows_works, spare=True),
    Way("windows in place", views_refusal, views_works, tier=1, spare=True),
    Way("tiles", tiles_refusal, tiles_works, tier=2),
    _DIRECT,
)


@lowering("conv", strided=True, roomy=True)
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


@lowering("conv_input_gradient", strided=True, roomy=True)
def lower_conv_input_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the input gradient, which is a transposed convolution."""
    request = merged(request, image=2, weight=1, result=0)
    return _lowered(for_input(request), _INPUT_GRADIENT, request)


@lowering("conv_weight_gradient", strided=True, roomy=True)
def lower_conv_weight_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the weight gradient."""
    request = merged(request, image=0, weight=2, result=1)
    return _lowered(for_weight(request), _WEIGHT_GRADIENT, request)


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
    rounded = problem.a.dtype is float32 and request.rounds
    if info.max_units == 1:
        return ranked(ways, Convolution(problem, problem, info, tail=tail), request)
    one = Convolution(problem, thinned(problem), info, rounded, tail)
    return ranked(_OF_UNITS, one, request)
