"""Rows divided among cubes, in one launch: the cubes that write along a row wait for its parts.

Requirements: a cube that writes comes after all cubes of parts, which wait for none; tickets number
them in the order of their starts. Each joins the parts of its row in the order in which a launch
would, so bits are those of two launches. What later cubes read of the parts is one buffer for both,
since the compiler may read any other early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.arrivals import arrive, leave, ticket, wait_for
from calor_kernel.library.reduce.job import Strides
from calor_kernel.library.reduce.joined_rows import Joining, joined_values, write_part
from calor_kernel.library.reduce.program import Program
from calor_kernel.library.reduce.row_state import RowPlan, Rows, Run
from calor_kernel.library.reduce.rows import team_rows
from calor_kernel.library.reduce.rows_joined import chosen


@dataclass(frozen=True, slots=True)
class Order(Generic[N]):
    """The order of a launch: cubes of ``parts`` first, then those that write, ``cubes`` in all.

    ``pieces``: the parts of each of the ``rows``.
    """

    parts: kl.SizeOf[N]
    cubes: kl.SizeOf[N]
    rows: kl.SizeOf[N]
    pieces: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class Following:
    """The program that writes along rows, and its plan.

    ``read``, ``joined``: for each operand, of the program and of the joining, the result of the
    parts that it is, or OWN. ``resident``: cubes that a core shall have registers for.
    """

    program: Program
    plan: RowPlan
    joining: Joining
    read: tuple[int, ...]
    joined: tuple[int, ...]
    resident: int | None


@kl.kernel
def await_rows(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.InOut, ...],
    numbers: tuple[kl.Element, ...],
    over: Rows[kl.Number],
    views: tuple[Strides[kl.Number], ...],
    read: tuple[kl.In, ...],
    results: tuple[kl.Out, ...],
    others: tuple[kl.Element, ...],
    along: Rows[kl.Number],
    paths: tuple[Strides[kl.Number], ...],
    lengths: tuple[kl.FastDivmod, ...],
    joined: tuple[kl.In, ...],
    written: tuple[kl.Out, ...],
    more: tuple[kl.Element, ...],
    whole: Rows[kl.Number],
    places: tuple[Strides[kl.Number], ...],
    order: Order[kl.Number],
    flags: kl.InOut,
    *,
    program: Program,
    plan: RowPlan,
    following: Following,
) -> None:
    """Compute parts of rows, then results along rows.

    The parts are those of :func:`.rows.reduce_rows`: ``program`` reads ``sources`` and ``numbers``,
    has ``over`` and ``views``, and writes ``targets``. The rest is that of
    :func:`.joined_rows.apply_rows`: ``read``, ``others``, ``along`` and ``paths``, and those of the
    joining. ``flags``: the ticket, then for each row the teams that left a part, then for each row
    the cubes that saw all.
    """
    kl.launch_attributes(cubes_per_core=following.resident)
    cube = ticket(flags, kl.shared(1, int32)).to(order.cubes.dtype)
    if cube < order.parts:
        row, alone = team_rows(Run(program, plan, (sources, targets, numbers), over, views), cube)
        kl.barrier()
        if alone:
            arrive(flags, 1 + kl.quotient(row, order.pieces))
    else:
        row, part = kl.divide(cube - order.parts, along.parts)
        wait_for(flags, 1 + row, order.pieces)
        if kl.unit_index() == 0:
            _leave(flags, cube, row, along.parts, order)
        found = joined_values(
            Run(
                following.joining.program,
                following.joining.plan,
                (chosen(targets, joined, following.joined), written, more),
                whole,
                places,
            ),
            following.joining,
            (row, part),
            kl.unit_position() == 0,
        )
        memory = chosen(targets, read, following.read), results, others
        run = Run(following.program, following.plan, memory, along, paths, found)
        write_part(run, (row, part), lengths)


@kl.helper
def _leave(
    flags: kl.Pointer, cube: kl.Number, row: kl.Number, count: kl.Number, order: Order[kl.Number]
) -> None:
    """Reset the words of a row behind the last of its ``count`` cubes, at the end the ticket."""
    seen = 1 + order.rows + row
    if arrive(flags, seen) == count.to(int32) - 1:
        leave(flags, 1 + row)
        leave(flags, seen)
    if cube == order.cubes - 1:
        leave(flags, 0)
