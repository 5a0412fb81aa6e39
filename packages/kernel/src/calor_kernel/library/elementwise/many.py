"""One expression on many groups of tensors as one launch: an optimizer's update, casts of weights.

Requirements: a tensor's values are computed as by a launch of its own, bit for bit. A cube belongs
to one tensor, which it finds by the number of cubes before each, and the buffers of that tensor are
selected by a number. A device that cannot select buffers runs the body of each tensor under a
condition, for few tensors. Operands that all tensors share are passed once. The last launch is
padded by empty tensors, so that few kernels are compiled. Tensors of whole vectors are together:
their body is a third of the text of others, and some devices compile one for each tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, NamedTuple, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Input, Launch, Output
from calor_kernel.library.elementwise.lower import Problem, turns
from calor_kernel.library.elementwise.strided import Blueprint, Run, compute_run
from calor_kernel.library.elementwise.values import parts, stored

N = TypeVar("N")

# Steps of a unit of many at most: more than of one tensor, since the tensor is found first.
_STEPS: Final = 8
# Tensors of a launch whose bodies are compiled one by one.
_BODIES: Final = 4


@dataclass(frozen=True, slots=True)
class Place(Generic[N]):
    """The cube after a tensor's last, its values, and at which values its single operands begin."""

    end: kl.SizeOf[N]
    count: kl.SizeOf[N]
    starts: tuple[kl.SizeOf[N], ...]


@kl.kernel
def elementwise_many(
    sources: tuple[tuple[kl.In, ...], ...],
    targets: tuple[tuple[kl.Out, ...], ...],
    places: tuple[Place[kl.Number], ...],
    chunk: kl.Size,
    *,
    by: Blueprint,
    moving: tuple[int, ...],
) -> None:
    """Compute an expression of dense tensors and single values; a cube takes ``chunk`` values.

    ``sources``: for each operand the memory of each tensor, or one memory for all. ``moving``: the
    operands of one value that begin at another value of the memory for each tensor.
    """
    cube = kl.cube_position()
    found = kl.registers(3 + len(moving), chunk.dtype)
    find(found, cube, places, 0, len(places))
    number, begin, count = found[0], (cube - found[1]) * chunk, found[2]
    starts = [found[3 + moving.index(k)] if k in moving else 0 for k in range(len(sources))]
    end = kl.min(begin + chunk, count)
    if kl.has("pointers"):
        read = [kl.selected(one, number) if len(one) > 1 else one[0] for one in sources]
        written = [kl.selected(one, number) if len(one) > 1 else one[0] for one in targets]
        one_tensor(by, read, written, starts, begin, end)
    else:
        for k in range(len(places)):
            if number == k:
                read = [one[k] if len(one) > 1 else one[0] for one in sources]
                one_tensor(by, read, [one[k] for one in targets], starts, begin, end)


@kl.helper
def one_tensor(
    by: Blueprint,
    sources: Sequence[kl.Pointer],
    targets: Sequence[kl.Pointer],
    starts: Sequence[kl.Index],
    begin: kl.Number,
    end: kl.Number,
) -> None:
    """Compute a range of a tensor's values."""
    nowhere, ahead = [0] * len(sources), by.fixed(sources, starts)
    compute_run(Run(by, sources, targets, starts, nowhere, ahead, flat=True), begin, end)


@kl.helper
def find(
    found: kl.Registers, cube: kl.Number, places: Sequence[Place[kl.Number]], low: int, high: int
) -> None:
    """Find a cube's tensor among some: its number, first cube, count, and first elements."""
    if high - low == 1:
        found[0] = low
        found[1] = places[low - 1].end if low else 0
        found[2] = places[low].count
        for k, start in enumerate(places[low].starts):
            found[3 + k] = start
    else:
        middle = (low + high) // 2
        if cube < places[middle - 1].end:
            find(found, cube, places, low, middle)
        else:
            find(found, cube, places, middle, high)


class Member(NamedTuple):
    """A group of tensors: its problem, and the numbers of its operands and results."""

    problem: Problem
    sources: tuple[int, ...]
    targets: tuple[int, ...]

    def start(self, k: int) -> int:
        """Return the value of its buffer at which an operand begins."""
        return self.problem.views[k].offset


def launch_many(
    members: Sequence[Member], steps: tuple[int, ...], info: DeviceInfo
) -> list[Launch]:
    """Return the launches of groups of one form, all flat, in as few as their arguments allow.

    ``steps``: for each operand 1 if it is dense, 0 if it is one value.
    """
    first = members[0]
    operands = range(len(first.sources))
    apart = [any(m.start(k) != first.start(k) for m in members) for k in operands]
    shared = [
        all(m.sources[k] == first.sources[k] for m in members) and not (steps[k] and apart[k])
        for k in operands
    ]
    moving = tuple(k for k in operands if shared[k] and apart[k])
    each = 2 + len(moving) + shared.count(False) + len(first.targets)
    most = max((info.arguments - shared.count(True) - 1) // each, 1)
    most = min(most, info.choices if info.has("pointers") else _BODIES)
    even = [m for m in members if m.problem.is_even(_width(m.problem))]
    others = [m for m in members if not m.problem.is_even(_width(m.problem))]
    separate = (even, others) if len(members) > most else (members,)
    return [
        # The last of several launches has the kernel of the others.
        _launch(part[i : i + most], steps, _padded(len(part), most), shared, moving)
        for part in separate
        for i in range(0, len(part), most)
    ]


def _padded(count: int, most: int) -> int:
    """Return the tensors of a launch, with empty ones."""
    return min(1 << (count - 1).bit_length(), most)


def _width(problem: Problem) -> int:
    """Return the values of a unit in a turn."""
    return problem.width if problem.many else problem.width * problem.vectors


def _launch(
    members: Sequence[Member],
    steps: tuple[int, ...],
    padded: int,
    shared: Sequence[bool],
    moving: tuple[int, ...],
) -> Launch:
    first = members[0].problem
    width = _width(first)
    step = first.units * width
    total = sum(m.problem.count for m in members)
    chunk = step * turns(total, step, first.info, _STEPS) if first.many else first.chunk(step)
    blueprints = [m.problem.blueprint(width) for m in members]
    align = tuple(map(min, zip(*(b.align for b in blueprints), strict=True)))
    even = all(m.problem.is_even(_width(m.problem)) for m in members)
    by = replace(blueprints[0], steps=steps, align=align, even=even)
    # Groups beyond the last are empty, and have its buffers.
    held = [*members, *[members[-1]] * (padded - len(members))]
    places, end = [], 0
    for number, member in enumerate(held):
        count = member.problem.count if number < len(members) else 0
        end = end + -(-count // chunk)
        places.append(Place(end, count, tuple(member.start(k) for k in moving)))
    sources = [
        tuple(_source(m, k, k in moving) for m in (held[:1] if shared[k] else held))
        for k in range(len(shared))
    ]
    targets = [
        tuple(Bound(Output(m.targets[k]), stored(dtype)) for m in held)
        for k, dtype in enumerate(first.expression.outputs)
    ]
    effort = Effort("elementwise.many", total * first.expression.weight, total * first.value_bytes)
    return launch(
        elementwise_many,
        Grid.line(greatest(end, 1), first.units),
        effort,
        sources=sources,
        targets=targets,
        places=places,
        chunk=chunk,
        by=by,
        moving=moving,
    )


def _source(member: Member, k: int, moving: bool) -> Bound:
    dtype = member.problem.views[k].dtype
    start = 0 if moving else member.start(k) * parts(dtype)
    return Bound(Input(member.sources[k], start), stored(dtype))
