"""Lowering of sliding windows: from the three ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import DType, int32, uint8
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import (
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.pool.general import (
    Sliding,
    choose_positions,
    gather_gradient,
    pick_positions,
    reduce_windows,
)
from calor_kernel.library.pool.problem import Windows, leading, reduction, windows_of
from calor_kernel.library.pool.rows_launch import (
    choice_of_rows,
    gradient_of_rows,
    reduction_of_rows,
)
from calor_kernel.library.pool.tiles import gradient_of_tiles, reduction_of_tiles


@lowering("window_reduce", strided=True)
def lower_window_reduce(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of a reduction of windows, the likeliest first."""
    (x,) = request.inputs
    windows = windows_of(request)
    if not windows.windows:
        return [Work(())]
    return _reductions(windows, x, request.attributes["kind"], request.info)


@lowering("window_pick", strided=True)
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


@lowering("window_gradient", strided=True)
def lower_window_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the gradient of the windows' elements."""
    g, x = request.inputs
    windows = windows_of(request)
    kind, info = request.attributes["kind"], request.info
    if not windows.elements:
        return [Work(())]
    tiles = gradient_of_tiles(windows, g, x, kind, info)
    if tiles is not None:
        return [Work((tiles,))]
    # Indices of positions, with 0 for none.
    numbers: DType = uint8 if windows.places < 255 and uint8 in info.dtypes else int32
    every = kind == "sum" or not windows.windows
    chosen, places = (g, operand(0, g)), View(g.shape, row_major(g.shape), numbers)
    launches: list[Launch] = []
    scratch: tuple[int, ...] = ()
    if not every:
        chosen = places, Bound(Scratch(0), numbers)
        scratch = (places.size * numbers.itemsize,)
        given = {"x": operand(1, x), "by": reduction(kind, x.dtype)}
        launches.append(
            choice_of_rows(windows, x, kind, chosen[1], info)
            or _general(choose_positions, windows, (x,), chosen[1], info, **given)
        )
    launches.append(
        gradient_of_rows(windows, g, chosen[1], every, info)
        or _general(
            gather_gradient,
            windows,
            (g, chosen[0]),
            Bound(Output(), g.dtype),
            info,
            g=operand(0, g),
            chosen=chosen[1],
            all_positions=every,
            wide=reduction("sum", g.dtype).dtype,
        )
    )
    return [Work(tuple(launches), scratch)]


def _reductions(windows: Windows, x: View, kind: str, info: DeviceInfo) -> list[Work]:
    made = reduction_of_tiles(windows, x, kind, info)
    made = made or reduction_of_rows(windows, x, kind, info)
    result = Bound(Output(), x.dtype)
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
    count = windows.elements if function is gather_gradient else windows.windows
    units = min(info.max_units, 128)
    width = 1 if units > 1 else max(1, info.vector_bytes // 8)
    nbytes = windows.elements * views[0].dtype.itemsize + windows.windows * result.dtype.itemsize
    strides = tuple(view.strides[lead:] for view in views)
    given["chosen" if function is choose_positions else "c"] = result
    return launch(
        function,
        Grid.line(-(-count // (units * width)), units),
        Effort(function.name, windows.windows * windows.places, nbytes),
        over=Sliding(count, windows.slides, strides, tuple(leading(views, lead))),
        width=width,
        **given,
    )
