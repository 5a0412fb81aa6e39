"""A program on the operands and results of one or more launches, for a device; their layout.

Requirements: adjacent axes are merged if all views allow it, so that most problems have one axis of
the rows and one axis of a row. The order of a row's axes is free if nothing is written along it and
no index is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Typed, launch
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Input, Launch, Output, Scratch, View
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.elementwise.values import parts, stored
from calor_kernel.library.reduce.program import Program, Schedule

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Strides(Generic[N]):
    """A view's strides in elements along the axes of the rows, and of a row, () if it has none."""

    kept: tuple[kl.StrideOf[N], ...]
    along: tuple[kl.StrideOf[N], ...] = ()


@dataclass(frozen=True, slots=True)
class Strided(Generic[N]):
    """Axes of a view: their sizes and its strides."""

    sizes: tuple[kl.SizeOf[N], ...]
    strides: tuple[kl.StrideOf[N], ...]


@dataclass(frozen=True, slots=True)
class Axes:
    """Axes: their sizes, and their strides in each view, 0 if the view has none of them."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.sizes)

    @property
    def first(self) -> Strided[int]:
        """The axes of the first view."""
        return Strided(self.sizes, self.strides[0])


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of the rows, and those of a row."""

    kept: Axes
    along: Axes


def layout_of(
    shape: Sequence[int],
    axes: Sequence[int],
    views: Sequence[View],
    along: Sequence[bool] = (True,),
    *,
    free: bool = False,
) -> Layout:
    """Return the layout of views, which have all axes if ``along``, else only those of the rows.

    ``free``: whether a row's axes may be reordered to the first view's memory order.

    >>> from calor.dtypes import float32
    >>> layout_of((2, 3, 4), (1, 2), [View((2, 3, 4), (12, 4, 1), float32)]).along.first
    Strided(sizes=(12,), strides=(1,))
    """
    rows = [a for a in range(len(shape)) if a not in axes]
    within = sorted(axes)
    strides = [
        dict.fromkeys(within, 0)
        | dict(zip(range(len(shape)) if varies else rows, view.strides, strict=True))
        for view, varies in zip(views, along, strict=True)
    ]
    if free:
        first = next(k for k, varies in enumerate(along) if varies)
        within.sort(key=lambda a: -abs(strides[first][a]))
    return Layout(_merged(rows, shape, strides), _merged(within, shape, strides))


def _merged(
    axes: Sequence[int], shape: Sequence[int], strides: Sequence[Mapping[int, int]]
) -> Axes:
    sizes, merged = coalesced([shape[a] for a in axes], *([s[a] for a in axes] for s in strides))
    return Axes(sizes or (1,), merged if sizes else ((0,),) * len(strides))


Memory = Input | Output | Scratch


@dataclass(frozen=True, slots=True)
class Placed:
    """A view of a buffer argument; the offsets of both are added."""

    memory: Memory
    view: View

    @property
    def bound(self) -> Bound:
        """The launch's argument, from the view's first element on."""
        dtype = self.view.dtype
        offset = self.memory.offset + self.view.offset * parts(dtype)
        return Bound(replace(self.memory, offset=offset), stored(dtype))

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        size: int = self.view.dtype.itemsize
        return self.view.size * size


@dataclass(frozen=True, slots=True)
class Job:
    """The task of one or more launches: a program's operands, results and numbers.

    ``shape`` and ``axes``: the elements, and the axes of a row. ``sources`` are in the order of the
    program's operands in memory, ``numbers`` in that of its scalar operands. A view of one value a
    row lacks the axes. ``pitched``: whether a result has a pitch that the planner chose.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    sources: tuple[Placed, ...]
    targets: tuple[Placed, ...]
    numbers: tuple[float, ...]
    label: str
    pitched: bool = False

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape without the axes of a row."""
        return tuple(n for a, n in enumerate(self.shape) if a not in self.axes)

    @property
    def placed(self) -> tuple[Placed, ...]:
        """The sources and the targets."""
        return (*self.sources, *self.targets)


class Problem:
    """A program on a job's operands, and what the choice of launches asks about both."""

    def __init__(self, program: Program, job: Job, info: DeviceInfo) -> None:
        self.program, self.job, self.info = program, job, info
        self.many = info.max_units > 1
        self.schedule = Schedule(program)

    @cached_property
    def along(self) -> list[bool]:
        """Which of the operands in memory, and of the results, vary along a row."""
        program = self.program
        made = [program.operands[i].role == "along" for i in program.memory]
        return made + [self.schedule.along[n] for n in program.results]

    @cached_property
    def layout(self) -> Layout:
        """The layout of the operands in memory, and of the results."""
        job = self.job
        free = not any(self.along[len(job.sources) :])
        return layout_of(job.shape, job.axes, [p.view for p in job.placed], self.along, free=free)

    @cached_property
    def width(self) -> int:
        """The vector width in the widest dtype that varies along a row."""
        along, program = self.schedule.along, self.program
        types = [program.dtype(n) for n in range(program.values) if along[n]]
        widest: int = max(stored(dtype).itemsize for dtype in types)
        return max(self.info.vector_bytes // widest, 1)

    @cached_property
    def numbers(self) -> list[Typed]:
        """The scalar operands, as arguments of a launch."""
        operands = self.program.operands
        pairs = zip(self.job.numbers, self.program.numbers, strict=True)
        return [Typed(n, operands[i].dtype) for n, i in pairs]

    @cached_property
    def compensated(self) -> bool:
        """Whether a reduction rounds so that its blocks are set aside."""
        return any(self.program.fold(n).op.compensated for n in self.program.folds)

    def views(self, copies: int = 1) -> Iterable[Strides[int]]:
        """Yield the strides of sources, and those of targets times ``copies``."""
        kept, along = self.layout.kept.strides, self.layout.along.strides
        for k, varies in enumerate(self.along):
            times = 1 if k < len(self.job.sources) else copies
            yield Strides(tuple(s * times for s in kept[k]), along[k] if varies else ())

    def launch(
        self, kernel: KernelFunction, grid: Grid, program: Program, **given: object
    ) -> Launch:
        """Return a launch of a kernel of programs."""
        job, found = self.job, self.layout
        flops = found.kept.count * found.along.count * len(program.steps)
        return launch(
            kernel,
            grid,
            Effort(job.label, flops, sum(p.nbytes for p in job.placed)),
            sources=[p.bound for p in job.sources],
            targets=[p.bound for p in job.targets],
            numbers=self.numbers,
            program=program,
            **given,
        )

    def part(
        self,
        operands: Sequence[int],
        targets: Sequence[Placed],
        known: Mapping[int, Placed] | None = None,
    ) -> Job:
        """Return the job of a part of the program, which reads the operands among known values."""
        places = dict(zip(self.program.memory, self.job.sources, strict=True)) | dict(known or {})
        numbers = dict(zip(self.program.numbers, self.job.numbers, strict=True))
        return replace(
            self.job,
            sources=tuple(places[n] for n in operands if n in places),
            numbers=tuple(numbers[n] for n in operands if n in numbers),
            targets=tuple(targets),
        )
