"""Ways of the gradients of convolutions for cubes of one unit.

Requirements: programs without gradients do not import them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calor.dtypes import float32
from calor_kernel.contract.ways import Way
from calor_kernel.contract.work import Request
from calor_kernel.library.conv.depthwise import (
    depthwise_weights_refusal,
    depthwise_weights_steps,
)
from calor_kernel.library.conv.direct_rows_launch import phases_refusal, phases_steps
from calor_kernel.library.conv.disjoint_windows import alone_refusal, patches_works
from calor_kernel.library.conv.one_unit_rows import DIRECT, SMALL_WIDTH, WINDOWS, made, refused
from calor_kernel.library.conv.problem import Convolution
from calor_kernel.library.conv.single_window import single_window_refusal, single_window_works
from calor_kernel.library.conv.small_width_launch import (
    small_width_refusal,
    small_width_steps,
    small_width_weight_refusal,
    small_width_weight_steps,
)
from calor_kernel.library.conv.weight_gradient_launch import (
    weight_panels_refusal,
    weight_panels_steps,
)
from calor_kernel.library.conv.weight_gradient_rows import (
    forward_of,
    weight_rows_refusal,
    weight_rows_steps,
)
from calor_kernel.library.conv.window_parts_launch import PARTED
from calor_kernel.library.conv.window_products import INPUT_PRODUCTS, WEIGHT_PRODUCTS

_PHASES: Final[Way[Convolution]] = Way(
    "phases", refused(phases_refusal), made(phases_steps), tier=1
)
# Offered beside a product, since it packs weights that stay once.
_SMALL_WIDTH_GRADIENT: Final[Way[Convolution]] = replace(
    SMALL_WIDTH, works=made(small_width_steps), tier=0
)
_SMALL_WIDTH_WEIGHTS: Final[Way[Convolution]] = Way(
    "small width",
    refused(lambda p, info: small_width_weight_refusal(forward_of(p), info)),
    made(lambda p, steps, info: small_width_weight_steps(forward_of(p), steps, info)),
)
_DEPTHWISE_WEIGHTS: Final[Way[Convolution]] = Way(
    "depthwise",
    refused(lambda p, info: depthwise_weights_refusal(forward_of(p))),
    made(lambda p, steps, info: depthwise_weights_steps(forward_of(p), steps, info)),
    spare=True,
)
_WEIGHT_ROWS: Final[Way[Convolution]] = Way(
    "weight rows", refused(weight_rows_refusal), made(weight_rows_steps), spare=True
)
_WEIGHT_PANELS: Final[Way[Convolution]] = Way(
    "weight panels", refused(weight_panels_refusal), made(weight_panels_steps)
)


def _folded_refusal(one: Convolution, request: Request) -> str | None:
    """Return why an input gradient is no product of patches that are folded, None if it is."""
    p = one.problem
    overlap = any(axis.terms > axis.divide for axis in p.axes)
    if overlap and p.a.dtype is float32 and one.info.has("masked_access"):
        reason = refused(small_width_refusal)(one, request)
        if reason is None:
            return "tiles of narrow images add overlapping windows in registers"
    return alone_refusal(one, request)


_PATCHES: Final[Way[Convolution]] = Way("patches", _folded_refusal, patches_works)
_SINGLE_WINDOW: Final[Way[Convolution]] = Way(
    "single window", single_window_refusal, single_window_works
)
INPUT: Final = (
    _SINGLE_WINDOW,
    INPUT_PRODUCTS,
    _PATCHES,
    PARTED,
    WINDOWS,
    _SMALL_WIDTH_GRADIENT,
    _PHASES,
    DIRECT,
)
WEIGHT: Final = (
    _SINGLE_WINDOW,
    WEIGHT_PRODUCTS,
    _WEIGHT_PANELS,
    _SMALL_WIDTH_WEIGHTS,
    _DEPTHWISE_WEIGHTS,
    _WEIGHT_ROWS,
    DIRECT,
)
