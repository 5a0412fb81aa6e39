"""The first choice among a way's plans, and the plans that are timed beside it.

Requirements: a plan that does not fit the device is dropped with its reason. A plan's name says how
it differs from the way's other plans, since the tuner stores names.

Wave quantization: a core computes one tile after another, so the time is that of the core with the
most tiles. Larger tiles read less for their sums, so each has a rate, measured with all cores busy.
For symbolic sizes the choice is among known kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Dropped, Launch, Work
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.library.gemm.simt_plan import SimtPlan
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.task import Task


class Plan(Protocol):
    """What the ranking of plans asks of one; ``kind`` and ``title`` name it among candidates."""

    @property
    def kind(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def units(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...


P = TypeVar("P", bound=Plan)
# Smaller products leave most of a tile empty.
_LEAST = 64
# Parts of the K axis: how many, the terms of one, and the time beside that of whole tiles.
MOST_PARTS, LEAST_TERMS, GAIN = 8, 256, 0.85
# What a core multiplies while the device adds a sum of a part, and while it starts a launch: those
# of an H200, whose operations and bytes are in the usual ratio of GPUs.
SUM, START = 50, 400_000
# The terms that a core multiplies while a cube begins and ends, if no other cube of it does.
_ALONE = 32
# What the matrix instructions of a core multiply meanwhile.
_BEGIN = 1_600_000
# Cubes of a core of which one multiplies while another waits for its loads.
_BESIDE = 2
# Rows and columns of a tile, the rate of its sums relative to the best, and the terms that a core
# loses with each.
Tiles = tuple[tuple[int, int, float, float], ...]


def filling(usual: Sequence[P], info: DeviceInfo, fills: Callable[[P], bool]) -> P | None:
    """Return the first plan that fits and fills the device, else the last if it fits."""
    fitting = [plan for plan in usual if lack(plan, info) is None]
    return next((plan for plan in fitting if plan is usual[-1] or fills(plan)), None)


def running(info: DeviceInfo) -> int:
    """Return the cubes that keep a device busy.

    A cube that loads through registers waits for its loads, while another of its core multiplies.
    """
    return info.cores if info.has("async_copy") else _BESIDE * info.cores


def tiles_of(rates: Mapping[SimtPlan, float]) -> Tiles:
    """Return plans with their rates as tiles of numbers, the form of a symbolic choice."""
    return tuple(
        (plan.rows, plan.columns, rate, _ALONE / plan.together) for plan, rate in rates.items()
    )


def by_waves(
    rates: Mapping[SimtPlan, float], product: Product, info: DeviceInfo
) -> SimtPlan | None:
    """Return the plan whose last core finishes first, of those that fit; None if none fits.

    ``rates``: each plan's rate of sums relative to the best. A tile that would be half empty is
    never chosen: a tile of half its rows has more than half its rate.
    """
    fitting = {plan: rate for plan, rate in rates.items() if lack(plan, info) is None}
    if not fitting:
        return None
    p = product
    return [*fitting][first_tile(tiles_of(fitting), p.m, p.n, p.k, p.batches, running(info))]


def divided(
    rates: Mapping[SimtPlan, float], product: Product, info: DeviceInfo
) -> tuple[SimtPlan, int] | None:
    """Return a plan and parts of the K axis whose last core finishes clearly before whole tiles.

    Parts are of any number, so that most cores have the same share of work; their sums are added.
    """
    fitting = {plan: rate for plan, rate in rates.items() if lack(plan, info) is None}
    if not fitting:
        return None
    tiles, p = tiles_of(fitting), product
    number = _first_division(tiles, p.m, p.n, p.k, p.batches, running(info))
    if number < len(tiles):
        return None
    parts, tile = divmod(number, len(tiles))
    return [*fitting][tile], parts + 1


def _division_is_done(
    number: int, tiles: Tiles, m: int, n: int, k: int, batches: int, cores: int
) -> float:
    """Return the multiplications of the core with the most work, and what parts cost beside."""
    parts, tile = divmod(number, len(tiles))
    rows, columns, rate, idle = tiles[tile]
    count = -(-m // rows) * -(-n // columns) * batches * (parts + 1)
    done = -(-count // cores) * rows * columns / rate * (-(-k // (parts + 1)) + idle)
    if parts:
        done += SUM * (parts + 1) * m * n * batches / cores + START
    return done


@choice(cost=_division_is_done)
def _first_division(tiles: Tiles, m: int, n: int, k: int, batches: int, cores: int) -> int:
    """Return the index of a tile, plus the number of tiles for each part after the first."""
    asked = m, n, k, batches, cores
    costs = {
        number: _division_is_done(number, tiles, *asked)
        for number in range(len(tiles) * max(1, min(MOST_PARTS, k // LEAST_TERMS)))
    }
    whole = min(range(len(tiles)), key=costs.__getitem__)
    best = min(costs, key=costs.__getitem__)
    return best if costs[best] < GAIN * costs[whole] else whole


def last_is_done(
    number: int, tiles: Tiles, m: int, n: int, k: int, batches: int, cores: int
) -> float:
    """Return the multiplications of the core with the most tiles, for one of several kinds."""
    rows, columns, rate, idle = tiles[number]
    count = -(-m // rows) * -(-n // columns) * batches
    return -(-count // cores) * rows * columns / rate * (k + idle)


def by_turns(rates: Mapping[MmaPlan, float], product: Product, info: DeviceInfo) -> MmaPlan | None:
    """Return the plan of matrix instructions whose last core finishes first; None if none fits.

    ``rates``: each plan's rate of sums relative to the best. A cube that has a core alone begins
    and ends while nothing multiplies.
    """
    fitting = {plan: rate for plan, rate in rates.items() if lack(plan, info) is None}
    if not fitting:
        return None
    room, p = max(info.core_shared_bytes, info.shared_bytes), product
    tiles = tuple(
        (one.rows, one.columns, rate, _BEGIN * rate / (one.rows * one.columns * together))
        for one, rate in fitting.items()
        for together in (max(1, room // one.shared_bytes),)
    )
    return [*fitting][first_tile(tiles, p.m, p.n, p.k, p.batches, info.cores)]


@choice(cost=last_is_done)
def first_tile(tiles: Tiles, m: int, n: int, k: int, batches: int, cores: int) -> int:
    """Return the index of the tile whose last core finishes first, the first of equals.

    >>> first_tile(((256, 128, 1.0, 32), (64, 64, 0.9, 8)), 1024, 1024, 1024, 1, 132)
    1
    """
    asked = m, n, k, batches, cores
    return min(range(len(tiles)), key=lambda number: last_is_done(number, tiles, *asked))


def chosen(
    first: P | None,
    usual: Collection[P],
    more: Collection[P],
    info: DeviceInfo,
    work: Callable[[P, str, int], Work],
) -> Iterator[Work | Dropped]:
    """Yield the first choice, if there is one, and then the others, each with name and group."""
    if first is not None:
        yield work(first, first.kind, 0)
    for plan in dict.fromkeys((*usual, *more)):
        name = plan.title
        reason = lack(plan, info)
        if reason is not None:
            yield Dropped(name, reason)
        elif plan != first:
            yield work(plan, name, 1 if plan in usual else 2)


def lack(plan: Plan, info: DeviceInfo) -> str | None:
    """Return why cubes of a plan do not fit the device, None if they do."""
    if isinstance(plan, SimtPlan) and plan.stages and not info.has("async_copy"):
        return "the device has no asynchronous copies"
    return too_much(plan.units, plan.shared_bytes, info)


def too_much(units: int, shared: int, info: DeviceInfo) -> str | None:
    """Return why cubes of ``units`` with ``shared`` bytes do not fit, None if they do."""
    if units > info.max_units:
        return f"cubes have {info.max_units} units at most, and not {units}"
    if shared > info.shared_bytes:
        return f"cubes have {info.shared_bytes} bytes of shared memory, and not {shared}"
    return None


def too_small(product: Product) -> str | None:
    """Return why tiles do not pay for a product, None if they do."""
    if product.m < _LEAST or product.n < _LEAST:
        return f"with fewer than {_LEAST} rows or columns most of a tile would be empty"
    return None


def mostly_empty(task: Task) -> str | None:
    """Return why tiles do not pay for a task, None if they do, or if memory decides anyway."""
    return None if task.streamed else too_small(task.product)


def by_plan(task: Task, launch: Callable[[Task, P], Launch]) -> Callable[[P, str, int], Work]:
    """Return what makes the work of a plan, of one launch."""
    return lambda plan, name, group: task.work(launch(task, plan), name=name, group=group)


def sparse(product: Product, plan: Plan) -> bool:
    """Return whether half of a tile is empty."""
    return plan.rows >= 2 * product.m or plan.columns >= 2 * product.n


def cubes_of(product: Product, plan: Plan) -> int:
    """Return the number of tiles, one for each cube."""
    return -(-product.m // plan.rows) * -(-product.n // plan.columns) * product.batches
