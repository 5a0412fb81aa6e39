"""The first choice among a way's plans, and the plans that are timed beside it.

Requirements: a plan that does not fit the device is dropped with its reason. A plan's name says how
it differs from the way's other plans, since the tuner stores names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Dropped, Launch
from calor_kernel.library.gemm.mma import Fragments
from calor_kernel.library.gemm.simt_plan import Patches
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.warpgroup_tma import Boxes

Plan = Patches | Fragments | Boxes
P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True)
class Way:
    """A launch of a product, with its name among the candidates and its group.

    ``before`` and ``after``: further launches around it; ``scratch``: their memory beside the
    result.
    """

    name: str
    group: int
    launch: Launch
    before: tuple[Launch, ...] = ()
    scratch: tuple[int, ...] = ()
    after: tuple[Launch, ...] = ()


def found_any(ways: Sequence[Way | Dropped]) -> bool:
    """Return whether one of them can be the first choice."""
    return any(isinstance(way, Way) and way.group == 0 for way in ways)


def filling(usual: Sequence[P], info: DeviceInfo, fills: Callable[[P], bool]) -> P | None:
    """Return the first plan that fits and fills the device, else the last if it fits."""
    fitting = [plan for plan in usual if lack(plan, info) is None]
    return next((plan for plan in fitting if plan is usual[-1] or fills(plan)), None)


def chosen(
    first: P | None,
    usual: Collection[P],
    more: Collection[P],
    wanted: bool,
    info: DeviceInfo,
    launch: Callable[[P], Launch],
) -> Iterator[Way | Dropped]:
    """Yield the first choice, if there is one, and all others if candidates are ``wanted``."""
    if first is not None:
        yield Way(kind_of(first), 0, launch(first))
    for plan in dict.fromkeys((*usual, *more)) if wanted else ():
        name = name_of(plan)
        reason = lack(plan, info)
        if reason is not None:
            yield Dropped(name, reason)
        elif plan != first:
            yield Way(name, 1 if plan in usual else 2, launch(plan))


def kind_of(plan: Plan) -> str:
    """Return the kind of a plan in the names of candidates."""
    return plan.kind if isinstance(plan, Fragments) else type(plan).__name__.lower()


def name_of(plan: Plan) -> str:
    """Return a plan's name among the candidates."""
    name = f"{kind_of(plan)} {plan.rows}x{plan.columns}x{plan.depth} by {plan.units}"
    if isinstance(plan, Patches):
        ahead = f" {plan.stages - 1} ahead" if plan.stages else " early" if plan.early else ""
        return f"{name}{ahead}{'' if plan.order == 'rows' else f' by {plan.order}'}"
    return f"{name} in {plan.band}" if isinstance(plan, Boxes) else name


def lack(plan: Plan, info: DeviceInfo) -> str | None:
    """Return why cubes of a plan do not fit the device, None if they do."""
    if isinstance(plan, Patches) and plan.stages and not info.has("async_copy"):
        return "the device has no asynchronous copies"
    return too_much(plan.units, plan.shared_bytes, info)


def too_much(units: int, shared: int, info: DeviceInfo) -> str | None:
    """Return why cubes of ``units`` with ``shared`` bytes do not fit, None if they do."""
    if units > info.max_units:
        return f"cubes have {info.max_units} units at most, and not {units}"
    if shared > info.shared_bytes:
        return f"cubes have {info.shared_bytes} bytes of shared memory, and not {shared}"
    return None


def along_of(product: Product) -> tuple[bool, bool]:
    """Return whether each operand is dense along the K axis."""
    return product.a.depth == 1, product.b.depth == 1


def cubes_of(product: Product, plan: Plan) -> int:
    """Return the number of tiles, one for each cube."""
    return -(-product.m // plan.rows) * -(-product.n // plan.columns) * product.batches
