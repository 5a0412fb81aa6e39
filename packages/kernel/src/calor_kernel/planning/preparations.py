"""Preparations: the launches of a work whose results can be cached while operands are unchanged."""

from __future__ import annotations

from collections.abc import Mapping

from calor_kernel.contract.work import Input, Scratch, Work
from calor_kernel.ir.types import Buffer


def preparations(work: Work) -> Mapping[int, frozenset[int]]:
    """Return the launches with cacheable results, and the operands that each depends on."""
    if not any(launch.prepares for launch in work.launches):
        return {}
    changing = {
        scratch
        for order, launch in enumerate(work.launches)
        if not launch.prepares
        for scratch in written(work, order)
    }
    found: dict[int, frozenset[int]] = {}
    sources: dict[int, frozenset[int]] = {}
    for order, launch in enumerate(work.launches):
        mine = written(work, order)
        if not launch.prepares or changing & mine:
            continue
        places = [a.number for a in launch.arguments if isinstance(a, Scratch)]
        if any(k not in sources for k in places if k not in mine):
            continue
        operands = frozenset(a.number for a in launch.arguments if isinstance(a, Input))
        operands = operands.union(*(sources.get(k, ()) for k in places))
        found[order] = operands
        sources.update((k, sources.get(k, frozenset()) | operands) for k in mine)
    return found


def written(work: Work, order: int) -> set[int]:
    """Return the scratch blocks that a launch may write."""
    launch = work.launches[order]
    return {
        a.number
        for a, declared in zip(launch.arguments, launch.build.signature, strict=True)
        if isinstance(a, Scratch) and isinstance(declared, Buffer) and declared.writable
    }
