"""Large windows on devices whose cubes have many units: a team of units for each window.

Requirements: windows of many positions are often few, as those of adaptive pooling to a few pixels,
and one unit would read its window for as long as others do nothing. Neighbouring units read
neighbouring positions, and several loads of each are on their way. The team depends on the window
alone, so the order of a sum does too. The first of equal extremes in the window's row-major order
counts; NaN is an extreme, padding is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, Generic, TypeVar

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.language.declared import N
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.copying.transfer import index_of
from calor_kernel.library.pool.blocks import FILLING, UNITS, span_of
from calor_kernel.library.pool.problem import Lead, Seen, Windows, leading, reduction
from calor_kernel.library.reduce.argminmax import ArgPlan, Best
from calor_kernel.library.reduce.argminmax_cooperative import Team, better_of, over_units
from calor_kernel.library.reduce.reduction_ops import ReductionOp, over_team

# Positions of a window from which a team has it, and those of a unit.
_PLACES: Final = 128
_EACH: Final = 16
# Loads of a unit that are on their way.
_AHEAD: Final = 8
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class TeamWindows(Generic[N, D]):
    """``count`` windows along leading and sliding axes, of ``sizes``, with ``places`` each.

    ``taps``: the positions along each axis, as divisors. ``strides``: of the sliding axes.
    """

    count: kl.SizeOf[N]
    places: kl.SizeOf[N]
    sizes: tuple[kl.DivisorOf[D], ...]
    taps: tuple[kl.DivisorOf[D], ...]
    slides: tuple[Slide[N], ...]
    strides: tuple[kl.StrideOf[N], ...]
    leads: tuple[Lead[N], ...]


@dataclass(frozen=True, slots=True)
class OfTeam:
    """The window of a team: its ``number``, whether it ``exists``, and its first position.

    ``base``: where its plane begins. ``mine``: the unit's place in the team.
    """

    number: kl.Number
    exists: kl.Mask
    starts: list[kl.Number]
    base: kl.Number
    mine: kl.Number


@kl.kernel
def reduce_team_windows(
    x: kl.In,
    c: kl.Out,
    over: TeamWindows[kl.Number, kl.FastDivmod],
    *,
    team: int,
    by: ReductionOp,
) -> None:
    """Reduce a window of x by each team."""
    window = of_team(over, team)
    total = kl.registers(1, by.dtype, 1, by.identity)
    for first in kl.loop_range(window.mine, over.places, team * _AHEAD):
        read = [some_position(x, over, window, first + k * team, by) for k in range(_AHEAD)]
        for value, _ in read:
            total[0] = by.combine(total[0], value)
    made = over_team(by, total[0], team)
    c.store(window.number, made.to(c.dtype), mask=window.exists & (window.mine == 0))


@kl.kernel
def choose_team_windows(
    x: kl.In,
    chosen: kl.Out,
    over: TeamWindows[kl.Number, kl.FastDivmod],
    *,
    team: int,
    by: ReductionOp,
) -> None:
    """Write the index of each window's extreme, counted from 1; 0 if all is padding."""
    window = of_team(over, team)
    best, number = kl.registers(1, by.dtype, 1, by.identity), kl.registers(1, int32)
    beyond = int(ReductionOp("min", int32).identity)
    number[0] = kl.constant(beyond, int32)
    for first in kl.loop_range(window.mine, over.places, team * _AHEAD):
        places = [first + k * team for k in range(_AHEAD)]
        read = [some_position(x, over, window, place, by) for place in places]
        for place, (value, valid) in zip(places, read, strict=True):
            mark = kl.select(valid, kl.cast(place + 1, int32), beyond)
            best[0], number[0] = better_of(by, (best[0], number[0]), (value, mark))
    found: Best = (best[0], number[0])
    _, index = over_units(ArgPlan(by, by.dtype, int32), found, Team(team, along=True))
    index = kl.select(index == beyond, kl.constant(0, int32), index)
    chosen.store(window.number, index.to(chosen.dtype), mask=window.exists & (window.mine == 0))


@kl.helper
def of_team(over: TeamWindows[kl.Number, kl.FastDivmod], team: int) -> OfTeam:
    """Return the window of a unit's team; one beyond the end is the last one again."""
    unit = kl.unit_position()
    number = kl.cube_position() * (kl.cube_size() // team) + unit // team
    exists = number < over.count
    place = kl.unravel(kl.min(number, over.count - 1), over.sizes)
    lead = len(over.leads)
    base = kl.offset_of(place[:lead], [axis.strides[0] for axis in over.leads], number * 0)
    starts = [p * s.stride + s.start for p, s in zip(place[lead:], over.slides, strict=True)]
    return OfTeam(number, exists, starts, base, kl.cast(unit % team, number.dtype))


@kl.helper
def some_position(
    x: kl.Pointer,
    over: TeamWindows[kl.Number, kl.FastDivmod],
    window: OfTeam,
    place: kl.Number,
    by: ReductionOp,
) -> tuple[kl.Number, kl.Mask]:
    """Return the element at a position of a window, the identity if none is, and whether one is."""
    valid = place < over.places
    at = window.base
    taps = kl.unravel(kl.min(place, over.places - 1), over.taps)
    pairs = zip(taps, window.starts, over.slides, over.strides, strict=True)
    for tap, start, slide, step in pairs:
        element = start + tap * slide.dilation
        valid = valid & (element >= 0) & (element < slide.size)
        at = at + element * step
    return x.load(at, mask=valid, other=by.identity).to(by.dtype), valid


def _team_of(places: int, units: int) -> int:
    """Return the units of a window: a power of two, with some positions each."""
    team = 1
    while 2 * team <= units and exceeds(places, team * _EACH):
        team *= 2
    return team


def windows_of_teams(
    windows: Windows, seen: Seen, kind: str, result: Bound, choose: bool, info: DeviceInfo
) -> Launch | None:
    """Return the launch that reduces large windows, or finds their extremes, by teams; or None.

    ``choose``: whether the result is the places of extremes, counted from 1.
    """
    if info.max_units == 1 or not windows.windows or not exceeds(windows.places, _PLACES):
        return None
    # Units that fill the device read overlapping windows from the caches, each its own.
    apart = exceeds(4 * prod(s.stride for s in windows.slides), windows.places)
    if not apart and exceeds(windows.windows, FILLING):
        return None
    x = seen.view
    team = _team_of(windows.places, info.max_units)
    units = max(team, min(info.max_units, UNITS))
    lead = len(windows.lead)
    leads = tuple(leading((x,), lead))
    sizes = (*(axis.size for axis in leads), *(s.count for s in windows.slides))
    cubes = -(-windows.windows * team // units)
    nbytes = windows.elements * x.dtype.itemsize + windows.windows * result.dtype.itemsize
    ends = [2 * windows.elements, windows.places + team * _AHEAD, span_of(x), 2 * cubes * units]
    memory = {"x": seen.bound, "chosen" if choose else "c": result}
    return launch(
        choose_team_windows if choose else reduce_team_windows,
        Grid.line(cubes, units, info.planes[0], index_of(ends, info)),
        Effort("window teams", windows.windows * windows.places, nbytes),
        over=TeamWindows(
            windows.windows,
            windows.places,
            sizes,
            tuple(s.window for s in windows.slides),
            windows.slides,
            x.strides[lead:],
            leads,
        ),
        team=team,
        by=reduction(kind, x.dtype),
        **memory,
    )
