"""Sliding windows as launches: from the three ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any

from calor.dtypes import DType, int32, int64, uint8
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Build,
    Input,
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
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.pool.general import (
    choose_places,
    gather_gradient,
    pick_places,
    reduce_windows,
)
from calor_kernel.library.pool.problem import Windows, identity, leading, windows_of, working
from calor_kernel.library.pool.rowing import choice_of_rows, gradient_of_rows, reduction_of_rows
from calor_kernel.library.pool.tiling import gradient_of_tiles, reduction_of_tiles

_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)
_SLIDE = (_SIZE, _SIZE, _SIZE, _SIZE, _STRIDE, _SIZE)


@lowering("window_reduce", strided=True)
def lower_window_reduce(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to reduce windows, the likeliest first."""
    (x,) = request.inputs
    windows = windows_of(x.shape, request.attributes)
    if not windows.windows:
        return [Work(())]
    return _reductions(windows, x, request.attributes["kind"], request.info)


@lowering("window_pick", strided=True)
def lower_window_pick(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to pick at the windows' extremes; of sums, to sum."""
    u, x = request.inputs
    windows = windows_of(x.shape, request.attributes)
    kind = request.attributes["kind"]
    if not windows.windows:
        return [Work(())]
    if kind == "sum":
        return _reductions(windows, u, kind, request.info)
    keywords = {"kind": kind, "wide": working(x.dtype, kind)}
    places: tuple[Argument, ...] = (Input(0, u.offset), Input(1, x.offset), Output(0))
    return [
        Work(
            (
                _general(
                    pick_places,
                    windows,
                    windows.windows,
                    (x, u),
                    (u.dtype, x.dtype),
                    u.dtype,
                    places,
                    keywords,
                    request.info,
                ),
            )
        )
    ]


@lowering("window_gradient", strided=True)
def lower_window_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to give windows' gradients to the elements that they come from."""
    g, x = request.inputs
    windows = windows_of(x.shape, request.attributes)
    kind, info = request.attributes["kind"], request.info
    if not windows.elements:
        return [Work(())]
    tiles = gradient_of_tiles(windows, g, x, kind, info)
    if tiles is not None:
        return [Work((tiles,))]
    every = kind == "sum"
    # Numbers of places, of which 0 is none.
    numbers: DType = uint8 if windows.places < 255 and uint8 in info.dtypes else int32
    chosen = View(g.shape, row_major(g.shape), numbers)
    launches: list[Launch] = []
    scratch: tuple[int, ...] = ()
    second: Argument = Input(0, g.offset)
    if not every and windows.windows:
        second = Scratch(0)
        scratch = (chosen.size * numbers.itemsize,)
        launches.append(
            choice_of_rows(windows, x, kind, numbers, Scratch(0), info)
            or _general(
                choose_places,
                windows,
                windows.windows,
                (x,),
                (x.dtype,),
                numbers,
                (Input(1, x.offset), Scratch(0)),
                {"kind": kind, "wide": working(x.dtype, kind)},
                info,
            )
        )
    every = every or not windows.windows
    if every:
        chosen = replace(g, dtype=g.dtype)
    launches.append(
        gradient_of_rows(windows, g, second, chosen.dtype, every, info)
        or _general(
            gather_gradient,
            windows,
            windows.elements,
            (g, chosen),
            (g.dtype, chosen.dtype),
            g.dtype,
            (Input(0, g.offset), second, Output(0)),
            {"all_places": every, "wide": working(g.dtype, "sum")},
            info,
        )
    )
    return [Work(tuple(launches), scratch)]


def _reductions(windows: Windows, x: View, kind: str, info: DeviceInfo) -> list[Work]:
    rows = reduction_of_tiles(windows, x, kind, info)
    rows = rows or reduction_of_rows(windows, x, kind, info)
    return [Work((rows or _reduce(windows, x, kind, info),))]


def _reduce(windows: Windows, x: View, kind: str, info: DeviceInfo) -> Launch:
    keywords = {"kind": kind, "identity": identity(x.dtype, kind), "wide": working(x.dtype, kind)}
    places: tuple[Argument, ...] = (Input(0, x.offset), Output(0))
    count = windows.windows
    return _general(
        reduce_windows, windows, count, (x,), (x.dtype,), x.dtype, places, keywords, info
    )


def _general(
    function: KernelFunction,
    windows: Windows,
    count: int,
    views: Sequence[View],
    read: Sequence[DType],
    written: DType,
    places: Sequence[Argument],
    keywords: dict[str, Any],
    info: DeviceInfo,
) -> Launch:
    """Return the launch of a general body, whose numbers follow from the views."""
    rank, lead = windows.rank, len(windows.lead)
    leads = leading(views, lead)
    numbers = [n for slide in windows.slides for n in astuple(slide)]
    numbers += [s for view in views for s in view.strides[lead:]]
    numbers += [n for one in leads for n in one]
    units = min(info.max_units, 128)
    width = 1 if units > 1 else max(1, info.vector_bytes // 8)
    strides = (_STRIDE,) * len(views)
    signature: tuple[Buffer | Scalar, ...] = (
        *(Buffer(dtype, writable=False) for dtype in read),
        Buffer(written),
        _SIZE,
        *_SLIDE * rank,
        *strides * rank,
        *(_SIZE, *strides) * len(leads),
    )
    said = {**keywords, "rank": rank, "width": width}
    build = Build(function, signature, tuple(sorted(said.items())), (units, 1, 1))
    cubes = (-(-count // (units * width)), 1, 1)
    nbytes = windows.elements * views[0].dtype.itemsize + windows.windows * written.itemsize
    flops = windows.windows * windows.places
    return Launch(build, cubes, (*places, count, *numbers), flops, nbytes, function.name)
