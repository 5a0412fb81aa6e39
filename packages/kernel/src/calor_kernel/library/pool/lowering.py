"""Lowering of sliding windows: from the three ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import int64
from calor_kernel.contract.choices import exceeds, is_size, least, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.movement import reshaped_strides
from calor_kernel.contract.work import (
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
    row_major,
)
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.copying import transfer_launches
from calor_kernel.library.copying.transfer import index_of
from calor_kernel.library.pool.blocks import gradient_of_blocks
from calor_kernel.library.pool.cooperative_windows import windows_of_teams
from calor_kernel.library.pool.general import (
    Seeing,
    Sliding,
    choose_positions,
    gather_gradient,
    pick_positions,
    reduce_windows,
)
from calor_kernel.library.pool.problem import (
    Seen,
    Windows,
    leading,
    number_type,
    reduction,
    windows_of,
)
from calor_kernel.library.pool.rows_launch import (
    choice_of_rows,
    gradient_of_rows,
    reduction_of_rows,
)
from calor_kernel.library.pool.scattered import scattered
from calor_kernel.library.pool.separable import gradient_of_lines, reduction_of_lines
from calor_kernel.library.pool.tiles import gradient_of_tiles, reduction_of_tiles
from calor_kernel.library.pool.whole import spread
from calor_kernel.library.pool.window_blocks import reduction_of_blocks
from calor_kernel.library.reduce.lowering import lower_reduction
from calor_kernel.library.steps import Steps

# Positions of windows whose loops are unrolled.
_UNROLLED: Final = 25
# Positions of windows from which sums are computed axis by axis.
_MANY_POSITIONS: Final = 9
# Positions of a window from which several cubes read it.
_VAST: Final = 1 << 14


def lower_window_reduce(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of a reduction of windows, the likeliest first."""
    (x,) = request.inputs
    windows = windows_of(request)
    if not windows.windows:
        return [Work(())]
    kind, axes = request.attributes["kind"], tuple(range(len(windows.lead), len(x.shape)))
    if windows.whole:
        result = spec_of(windows.lead, x.dtype)
        asked = replace(request, op=kind, attributes={"axes": axes}, outputs=(result,))
        found = lower_reduction(asked)
        if not isinstance(found, Refusal):
            return found
    if _vast(windows, request.info):
        found = _as_rows(windows, x, request)
        if not isinstance(found, Refusal):
            return found
    return _reductions(windows, x, kind, request.info)


def _as_rows(windows: Windows, x: View, request: Request) -> Sequence[Work] | Refusal:
    """Return the works of windows side by side as rows along the last axes of a view."""
    lead = len(windows.lead)
    shape, strides, axes = [*windows.lead], [*x.strides[:lead]], list[int]()
    for slide, step in zip(windows.slides, x.strides[lead:], strict=True):
        axes.append(len(shape) + 1)
        shape += [slide.count, slide.window]
        strides += [slide.stride * step, step]
    kept = tuple(n for a, n in enumerate(shape) if a not in axes)
    view = View(tuple(shape), tuple(strides), x.dtype, x.offset)
    asked = replace(request, op=request.attributes["kind"], attributes={"axes": tuple(axes)})
    return lower_reduction(replace(asked, inputs=(view,), outputs=(spec_of(kept, x.dtype),)))


def _vast(windows: Windows, info: DeviceInfo) -> bool:
    """Return whether windows without padding have rows for more than a cube of units each."""
    inside = all(s.start == 0 and s.dilation == 1 and s.stride == s.window for s in windows.slides)
    return inside and info.max_units > 1 and exceeds(windows.places, _VAST)


def lower_window_pick(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of values at the windows' extremes; for sums, of sums."""
    u, x = request.inputs
    windows = windows_of(request)
    kind = request.attributes["kind"]
    if not windows.windows:
        return [Work(())]
    if kind == "sum":
        return _reductions(windows, u, kind, request.info)
    result, by = Bound(Output(), u.dtype), reduction(kind, x.dtype)
    given = {"u": operand(0, u), "x": operand(1, x), "by": by}
    return [Work((_general(pick_positions, windows, (x, u), result, request.info, **given),))]


def lower_window_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the gradient of the windows' elements."""
    g, x = request.inputs
    windows = windows_of(request)
    kind, info = request.attributes["kind"], request.info
    if not windows.elements:
        return [Work(())]
    if windows.whole:
        whole = _gradient_of_whole(windows, request)
        if whole is not None:
            return whole
    tiles = gradient_of_tiles(windows, g, x, kind, info)
    if tiles is not None:
        return [Work((tiles,))]
    lines = gradient_of_lines(windows, g, x, kind, info)
    if lines is not None:
        return [lines]
    # Indices of positions, with 0 for none.
    numbers = number_type(windows.places, info)
    every = kind == "sum" or not windows.windows
    chosen, places = (g, operand(0, g)), View(g.shape, row_major(g.shape), numbers)
    launches: list[Launch] = []
    scratch: tuple[int, ...] = ()
    if not every:
        chosen = places, Bound(Scratch(0), numbers)
        scratch = (places.size * numbers.itemsize,)
        given = {"x": operand(1, x), "by": reduction(kind, x.dtype)}
        seen = Seen.operand(1, x)
        launches.append(
            choice_of_rows(windows, x, kind, chosen[1], info)
            or reduction_of_blocks(windows, seen, kind, chosen[1], True, info)
            or windows_of_teams(windows, seen, kind, chosen[1], True, info)
            or _general(choose_positions, windows, (x,), chosen[1], info, **given)
        )
    launches.append(
        (_sliding_sums(windows, g, info) if every else scattered(windows, g, chosen[1], info))
        or gradient_of_rows(windows, g, chosen[1], every, info)
        or gradient_of_blocks(
            windows, Seen.operand(0, g), Seen(*chosen), Bound(Output(), g.dtype), every, info
        )
        or _general(
            gather_gradient,
            windows,
            (g, chosen[0]),
            Bound(Output(), g.dtype),
            info,
            g=operand(0, g),
            chosen=chosen[1],
            all_positions=every,
            first_number=1,
            wide=reduction("sum", g.dtype).dtype,
        )
    )
    return [Work(tuple(launches), scratch)]


def _sliding_sums(windows: Windows, g: View, info: DeviceInfo) -> Launch | None:
    """Return the launch of the gradient of sums with stride one: sums of windows of the gradient.

    None for small windows, whose terms are few, and those that are no rows.
    """
    if any(s.stride != 1 for s in windows.slides) or windows.places < _MANY_POSITIONS:
        return None
    if not windows.windows:
        return None
    back = tuple(
        replace(s, count=s.size, size=s.count, start=-(s.window - 1) * s.dilation - s.start)
        for s in windows.slides
    )
    return reduction_of_rows(replace(windows, slides=back), g, "sum", info)


def _gradient_of_whole(windows: Windows, request: Request) -> list[Work] | None:
    """Return the work for windows that are the whole image: a broadcast, for extremes of one place.

    None if the device cannot find the extremes.
    """
    g, x = request.inputs
    kind, info, lead = request.attributes["kind"], request.info, len(windows.lead)
    if kind == "sum":
        view = View(x.shape, (*g.strides[:lead], *(0 for _ in windows.slides)), g.dtype, g.offset)
        return [Work(tuple(transfer_launches(view, Input(0), row_major(x.shape), 0, info)))]
    flat = reshaped_strides(x.shape, x.strides, (*windows.lead, windows.places))
    if flat is None:
        return None
    steps = Steps()
    view = View((*windows.lead, windows.places), flat, x.dtype, x.offset)
    index = spec_of(windows.lead, int64)
    place = steps.memory(index.nbytes)
    found = steps.try_include(
        request, f"arg{kind}", {"axis": lead}, [(view, Input(1))], [(index, place)]
    )
    if found is not None:
        return None
    places = View(g.shape, row_major(g.shape), int64)
    steps.launches.append(
        spread(windows, g, place, info)
        or _general(
            gather_gradient,
            windows,
            (g, places),
            Bound(Output(), g.dtype),
            info,
            g=operand(0, g),
            chosen=Bound(place, int64),
            all_positions=False,
            first_number=0,
            wide=reduction("sum", g.dtype).dtype,
        )
    )
    return [steps.work()]


def _reductions(windows: Windows, x: View, kind: str, info: DeviceInfo) -> list[Work]:
    lines = reduction_of_lines(windows, x, kind, info)
    if lines is not None:
        return [lines]
    made = reduction_of_tiles(windows, x, kind, info)
    made = made or reduction_of_rows(windows, x, kind, info)
    result = Bound(Output(), x.dtype)
    seen = Seen.operand(0, x)
    made = made or reduction_of_blocks(windows, seen, kind, result, False, info)
    made = made or windows_of_teams(windows, seen, kind, result, False, info)
    given = {"x": operand(0, x), "by": reduction(kind, x.dtype)}
    return [Work((made or _general(reduce_windows, windows, (x,), result, info, **given),))]


def _general(
    function: KernelFunction,
    windows: Windows,
    views: Sequence[View],
    result: Bound,
    info: DeviceInfo,
    **given: object,
) -> Launch:
    """Return the launch of a general body; its numbers follow from one or two views."""
    lead = len(windows.lead)
    back = function is gather_gradient
    count = windows.elements if back else windows.windows
    units = min(info.max_units, 128)
    width = 1 if units > 1 else max(1, info.vector_bytes // 8)
    nbytes = windows.elements * views[0].dtype.itemsize + windows.windows * result.dtype.itemsize
    strides = tuple(view.strides[lead:] for view in views)
    leads = tuple(leading(views, lead))
    sizes = (*(a.size for a in leads), *(s.size if back else s.count for s in windows.slides))
    given["chosen" if function is choose_positions else "c"] = result
    if back:
        seeing = tuple(_seeing(slide) for slide in windows.slides)
        given["seeing"] = seeing
        given["dilated"] = tuple(slide.dilation > 1 for slide in windows.slides)
        given["taps"] = _unrolled(tuple(s.turns for s in seeing), units)
    else:
        given["taps"] = _unrolled(tuple(s.window for s in windows.slides), units)
    ends = [windows.elements, windows.windows, *(_span(view) for view in views)]
    return launch(
        function,
        Grid.line(-(-count // (units * width)), units, index=index_of(ends, info)),
        Effort(function.name, windows.windows * windows.places, nbytes),
        over=Sliding(count, sizes, windows.slides, strides, leads),
        width=width,
        **given,
    )


def _unrolled(turns: tuple[int, ...], units: int) -> tuple[int, ...]:
    """Return the turns of loops that are unrolled, so that units have many loads on their way."""
    known = units > 1 and not any(map(is_size, turns)) and prod(turns) <= _UNROLLED
    return turns if known else (0,) * len(turns)


def _span(view: View) -> int:
    pairs = zip(view.shape, view.strides, strict=True)
    span: int = sum((n - 1) * abs(s) for n, s in pairs) + 1
    return span


def _seeing(slide: Slide[int]) -> Seeing[int, int]:
    extent = (slide.window - 1) * slide.dilation + 1
    turns = least(slide.count, -(-extent // slide.stride))
    return Seeing(turns, extent, slide.stride, slide.dilation)
