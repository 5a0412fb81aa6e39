"""Row programs: elementwise steps and reductions along a row, as data, in dependency order.

Requirements: sums, extremes, softmax, norms and a fuser's groups have one form, so that one body
runs them all. A program is a key of kernels, also on disk. The program alone determines which pass
over the row computes a value: a reduction is known after its pass, and steps that need it run in
the next pass. A program whose passes do not fit one launch becomes one launch a pass. A reduction
of few long rows is divided among cubes, and another launch joins their totals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.elementwise.operations import Step, apply
from calor_kernel.library.elementwise.values import Complex, Value
from calor_kernel.library.math.base import exactly
from calor_kernel.library.reduce.reduction_ops import ReductionOp

Role = Literal["along", "row", "number", "joined"]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: values along the row, one value a row, or a scalar of the launch.

    A "joined" operand is one value a row that the kernel itself computes, from parts.
    """

    dtype: DType
    role: Role = "along"


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction of a value along the row; ``operands`` holds its number."""

    op: ReductionOp
    operands: tuple[int]

    @property
    def dtype(self) -> DType:
        """The dtype of the accumulation."""
        return self.op.dtype


@dataclass(frozen=True, slots=True)
class Program:
    """A program. Values are numbered: operands first, then the steps, each after its inputs.

    ``results`` are the values that are written: along the row if they vary along it, else one a
    row. ``kept``: values that a later pass reads from memory instead of recomputing them.
    """

    operands: tuple[Operand, ...]
    steps: tuple[Step | Fold, ...]
    results: tuple[int, ...]
    kept: tuple[int, ...] = ()

    def dtype(self, number: int) -> DType:
        """Return the dtype of a value."""
        count = len(self.operands)
        return self.operands[number].dtype if number < count else self.steps[number - count].dtype

    def step(self, number: int) -> Step | Fold | None:
        """Return the step that computes a value, None for an operand."""
        count = len(self.operands)
        return None if number < count else self.steps[number - count]

    def fold(self, number: int) -> Fold:
        """Return the reduction that computes a value."""
        found = self.step(number)
        assert isinstance(found, Fold)
        return found

    @property
    def memory(self) -> tuple[int, ...]:
        """The operands in memory."""
        return tuple(i for i, o in enumerate(self.operands) if o.role in ("along", "row"))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The scalar operands of the launch."""
        return tuple(i for i, o in enumerate(self.operands) if o.role == "number")

    @property
    def joined(self) -> tuple[int, ...]:
        """The operands that the kernel joins from parts."""
        return tuple(i for i, o in enumerate(self.operands) if o.role == "joined")

    @property
    def folds(self) -> tuple[int, ...]:
        """The values that are reductions."""
        return tuple(n for n, step in self.numbered() if isinstance(step, Fold))

    @property
    def values(self) -> int:
        """The number of values."""
        return len(self.operands) + len(self.steps)

    @property
    def itemsize(self) -> int:
        """The bytes of an element of all operands in memory."""
        return sum(self.operands[i].dtype.itemsize for i in self.memory)

    def numbered(self) -> Iterable[tuple[int, Step | Fold]]:
        """Return the steps with the numbers of their values."""
        return enumerate(self.steps, len(self.operands))


class Schedule:
    """The pass in which each value of a program can be computed.

    ``along``: whether a value varies along the row. ``walks``: for such a value, the first pass
    that can compute it; for others, the pass after which it is known, −1 before all. ``count``: the
    number of passes.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.along: list[bool] = [o.role == "along" for o in program.operands]
        self.walks: list[int] = [along - 1 for along in self.along]
        for step in program.steps:
            firsts = [self.walks[n] + (not self.along[n]) for n in step.operands]
            if isinstance(step, Fold):
                self.along.append(False)
                self.walks.append(firsts[0])
                continue
            along = any(self.along[n] for n in step.operands)
            made = firsts if along else [self.walks[n] for n in step.operands]
            self.along.append(along)
            self.walks.append(max(made, default=-1))
        wanted = [*program.results, *program.folds]
        self.count = max((self.walks[n] for n in wanted), default=-1) + 1

    def folds(self, walk: int) -> list[int]:
        """Return the reductions of a pass."""
        return [n for n in self.program.folds if self.walks[n] == walk]

    def written(self, walk: int) -> list[tuple[int, int]]:
        """Return the values that a pass writes along the row: indices of results and values."""
        results = enumerate(self.program.results)
        return [(k, n) for k, n in results if self.along[n] and self.walks[n] == walk]

    def rowwise(self, walk: int) -> list[int]:
        """Return the steps with one value a row that are known after a pass."""
        return [
            n
            for n, step in self.program.numbered()
            if isinstance(step, Step) and not self.along[n] and self.walks[n] == walk
        ]

    def spread(self) -> list[int]:
        """Return the values, one a row each, that steps along the row read."""
        read = {
            v
            for n, step in self.program.numbered()
            if isinstance(step, Step) and self.along[n]
            for v in step.operands
        }
        return sorted(v for v in read if not self.along[v])

    def stored(self, walk: int) -> list[int]:
        """Return the values that a pass keeps in memory for later ones."""
        return [n for n in self.program.kept if self.walks[n] == walk < self.count - 1]


def applied(program: Program, step: Step, values: Sequence[Value]) -> kl.Number:
    """Return the result of a step; beside the ops there is "reciprocal"."""
    if step.op == "reciprocal":
        made: Value = 1.0 / real(values[0])
    else:
        made = apply(step, values, [program.dtype(n) for n in step.operands])
    return real(made)


def real(value: Value) -> kl.Number:
    """Return a value of a program as a number; programs have no complex values."""
    assert not isinstance(value, Complex)
    return value


@exactly
def evaluated(
    program: Program,
    wanted: Sequence[int],
    known: dict[int, kl.Number],
    read: Callable[[int], kl.Number | None] = lambda number: None,
) -> list[kl.Number]:
    """Return values of the program, and keep each value that is computed among the known ones.

    ``read`` is called for operands and kept values, and returns None for a value to compute.
    """

    def find(number: int) -> kl.Number:
        if number not in known:
            value, step = read(number), program.step(number)
            if value is None:
                assert isinstance(step, Step)
                value = applied(program, step, [find(n) for n in step.operands])
            known[number] = value
        return known[number]

    return [find(n) for n in wanted]


class Recipe:
    """Writes a program step by step; its methods return the indices of values, in order.

    >>> from calor.dtypes import float32
    >>> recipe = Recipe()
    >>> x = recipe.operand(float32)
    >>> total = recipe.fold("sum", x)
    >>> program = recipe.program([recipe.step("mul", x, total)])
    >>> Schedule(program).count
    2
    """

    def __init__(self) -> None:
        self._made: list[Operand | Step | Fold] = []

    def add(self, made: Operand | Step | Fold) -> int:
        """Add an operand, step or reduction."""
        self._made.append(made)
        return len(self._made) - 1

    def dtype(self, value: int) -> DType:
        """Return the dtype of a value."""
        return self._made[value].dtype

    def made(self, value: int) -> Operand | Step | Fold:
        """Return what makes a value."""
        return self._made[value]

    def along(self, value: int) -> bool:
        """Return whether a value varies along the row."""
        made = self._made[value]
        if isinstance(made, Operand):
            return made.role == "along"
        return isinstance(made, Step) and any(map(self.along, made.operands))

    def operand(self, dtype: DType, role: Role = "along") -> int:
        """Add an operand."""
        return self.add(Operand(dtype, role))

    def step(self, op: str, *values: int, dtype: DType | None = None) -> int:
        """Add an elementwise op; its dtype is by default that of its first operand."""
        return self.add(Step(op, values, dtype or self.dtype(values[0])))

    def cast(self, value: int, dtype: DType) -> int:
        """Return a value in a dtype."""
        return value if self.dtype(value) is dtype else self.step("cast", value, dtype=dtype)

    def fold(self, kind: str, value: int) -> int:
        """Add a reduction along the row."""
        return self.add(Fold(ReductionOp(kind, self.dtype(value)), (value,)))

    def program(self, results: Sequence[int], kept: Sequence[int] = ()) -> Program:
        """Return the program, with operands before steps."""
        operands = {i: made for i, made in enumerate(self._made) if isinstance(made, Operand)}
        steps = {i: made for i, made in enumerate(self._made) if not isinstance(made, Operand)}
        places = {i: k for k, i in enumerate((*operands, *steps))}
        return Program(
            tuple(operands.values()),
            tuple(moved(made, places) for made in steps.values()),
            tuple(places[i] for i in results),
            tuple(places[i] for i in kept),
        )


def moved(step: Step | Fold, places: Mapping[int, int]) -> Step | Fold:
    """Return a step with its values renumbered."""
    if isinstance(step, Fold):
        return Fold(step.op, (places[step.operands[0]],))
    return replace(step, operands=tuple(places[n] for n in step.operands))


def part_of(
    program: Program, wanted: Sequence[int], known: Collection[int] = (), first: Sequence[int] = ()
) -> tuple[Program, tuple[int, ...]]:
    """Return the program that computes some values from known ones, and the values it reads.

    ``first``: the values that are its first operands; others follow in their order.
    """
    schedule = Schedule(program)
    needed: set[int] = set()
    leaves: set[int] = set()
    todo = list(wanted)
    while todo:
        number = todo.pop()
        step = program.step(number)
        if step is None or number in known:
            leaves.add(number)
        elif number not in needed:
            needed.add(number)
            todo += step.operands
    order = [*first, *sorted(leaves.difference(first))]
    places = {n: i for i, n in enumerate(order)}
    steps: list[Step | Fold] = []
    for number in sorted(needed):
        step = program.step(number)
        assert step is not None
        steps.append(moved(step, places))
        places[number] = len(places)
    operands = tuple(
        program.operands[n]
        if program.step(n) is None
        else Operand(program.dtype(n), "along" if schedule.along[n] else "row")
        for n in order
    )
    return Program(operands, tuple(steps), tuple(places[n] for n in wanted)), tuple(order)


def joining(program: Program) -> tuple[Program, tuple[int, ...]]:
    """Return the program that joins partial results of a one-pass program, and what it reads.

    Its operands are the reductions, by their indices, then the other operands it needs. Its results
    are those with one value a row.
    """
    folds, along = program.folds, Schedule(program).along
    results = [n for n in program.results if not along[n]]
    inner, operands = part_of(program, results, folds, folds)
    count, first = len(folds), len(inner.operands)
    # The joined reductions come before the other steps and take the place of the first operands.
    joined = [Fold(program.fold(n).op, (k,)) for k, n in enumerate(folds)]
    places = {k: first + k if k < count else k for k in range(first)}
    places |= {first + k: first + count + k for k in range(len(inner.steps))}
    made = Program(
        (*(Operand(program.dtype(n)) for n in folds), *inner.operands[count:]),
        (*joined, *(moved(step, places) for step in inner.steps)),
        tuple(places[n] for n in inner.results),
    )
    return made, operands


def found_by(schedule: Schedule, walk: int) -> list[int]:
    """Return the values that a pass must store: results, and values needed later.

    A value known before all passes is computed where needed, and written with the first pass.
    """
    program, walks = schedule.program, schedule.walks
    steps = dict(program.numbered())
    mine = {n for n in steps if not schedule.along[n] and max(walks[n], 0) == walk}
    wanted = mine.intersection(program.results)
    for n, step in steps.items():
        if n not in mine and walks[n] >= walk:
            wanted.update(v for v in step.operands if v in mine and walks[v] >= walk)
    return sorted(wanted)


def numbers_along(schedule: Schedule) -> list[int]:
    """Return the launch's scalars for the values that are written along rows."""
    program = schedule.program
    written = [n for n in program.results if schedule.along[n]]
    rows = [n for n, _ in program.numbered() if not schedule.along[n]]
    return [n for n in part_of(program, written, rows)[1] if n in program.numbers]
