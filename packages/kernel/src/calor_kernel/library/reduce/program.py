"""Row programs: elementwise steps and reductions along a row, as data, in dependency order.

Requirements: sums, extremes, softmax, norms and a fuser's groups have one form, so that one body
runs them all. A program is a key of kernels, also on disk. The program alone determines which pass
over the row computes a value: a reduction is known after its pass, and steps that need it run in
the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from calor.dtypes import DType
from calor_kernel.library.elementwise.operations import apply
from calor_kernel.library.elementwise.step import Step
from calor_kernel.library.elementwise.values import Value
from calor_kernel.library.math.base import exactly

Place = Literal["along", "row", "number"]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: values along the row, one value a row, or a scalar of the launch."""

    dtype: DType
    place: Place = "along"


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction of a value along the row: sum, prod, max, min, any, all, or peak.

    ``peak`` is a maximum that ignores NaN, which costs less.
    """

    kind: str
    operand: int
    dtype: DType


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
        return tuple(i for i, o in enumerate(self.operands) if o.place != "number")

    @property
    def numbers(self) -> tuple[int, ...]:
        """The scalar operands of the launch."""
        return tuple(i for i, o in enumerate(self.operands) if o.place == "number")

    @property
    def folds(self) -> tuple[int, ...]:
        """The values that are reductions."""
        return tuple(n for n in range(self.values) if isinstance(self.step(n), Fold))

    @property
    def values(self) -> int:
        """The number of values."""
        return len(self.operands) + len(self.steps)


@dataclass(slots=True)
class Schedule:
    """The pass in which each value of a program can be computed.

    ``along``: whether a value varies along the row. ``walks``: for such a value, the first pass
    that can compute it; for others, the pass after which it is known, −1 before all.
    """

    along: list[bool] = field(default_factory=list)
    walks: list[int] = field(default_factory=list)

    @staticmethod
    def of(program: Program) -> Schedule:
        """Return the schedule of a program."""
        made = Schedule()
        for operand in program.operands:
            made._add(operand.place == "along", 0 if operand.place == "along" else -1)
        for step in program.steps:
            if isinstance(step, Fold):
                made._add(False, made._first(step.operand))
            else:
                along = any(made.along[n] for n in step.operands)
                firsts = [made._first(n) if along else made.walks[n] for n in step.operands]
                made._add(along, max(firsts, default=-1))
        return made

    def _add(self, along: bool, walk: int) -> None:
        self.along.append(along)
        self.walks.append(walk)

    def _first(self, number: int) -> int:
        """Return the first pass that can use a value."""
        return self.walks[number] if self.along[number] else self.walks[number] + 1

    def count(self, program: Program) -> int:
        """Return the number of passes of a program."""
        wanted = [*program.results, *program.folds]
        return max((self.walks[n] for n in wanted), default=-1) + 1

    def folds(self, program: Program, walk: int) -> list[int]:
        """Return the reductions of a pass."""
        return [n for n in program.folds if self.walks[n] == walk]

    def written(self, program: Program, walk: int) -> list[tuple[int, int]]:
        """Return the values that a pass writes along the row: indices of results and values."""
        return [
            (k, n) for k, n in enumerate(program.results) if self.along[n] and self.walks[n] == walk
        ]

    def rowwise(self, program: Program, walk: int) -> list[int]:
        """Return the steps with one value a row that are known after a pass."""
        return [
            n
            for n in range(program.values)
            if isinstance(program.step(n), Step) and not self.along[n] and self.walks[n] == walk
        ]

    def spread(self, program: Program) -> list[int]:
        """Return the values, one a row each, that steps along the row read."""
        read = {
            v
            for n in range(program.values)
            if isinstance(step := program.step(n), Step) and self.along[n]
            for v in step.operands
        }
        return sorted(v for v in read if not self.along[v])

    def stored(self, program: Program, walk: int, last: int) -> list[int]:
        """Return the values that a pass keeps in memory for later ones."""
        return [n for n in program.kept if self.walks[n] == walk < last]


def applied(program: Program, step: Step, values: Sequence[Any]) -> Value:
    """Return the result of a step; beside the ops there is "reciprocal"."""
    if step.op == "reciprocal":
        made: Value = 1.0 / values[0]
        return made
    return apply(step, values, [program.dtype(n) for n in step.operands])


@exactly
def evaluated(
    program: Program, wanted: Sequence[int], known: Mapping[int, Any], read: Callable[[int], Any]
) -> list[Any]:
    """Return values of a program, from known values and those that ``read`` returns.

    ``read`` is called for operands and kept values, and returns None for a value to compute.
    """
    made = dict(known)

    def find(number: int) -> Any:
        if number not in made:
            value, step = read(number), program.step(number)
            if value is None:
                assert isinstance(step, Step)
                value = applied(program, step, [find(n) for n in step.operands])
            made[number] = value
        return made[number]

    return [find(n) for n in wanted]


class Recipe:
    """Writes a program step by step; its methods return the indices of values, in order.

    >>> from calor.dtypes import float32
    >>> recipe = Recipe()
    >>> x = recipe.operand(float32)
    >>> total = recipe.fold("sum", x)
    >>> program = recipe.program([recipe.step("mul", x, total)])
    >>> Schedule.of(program).count(program)
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

    def operand(self, dtype: DType, place: Place = "along") -> int:
        """Add an operand."""
        return self.add(Operand(dtype, place))

    def step(self, op: str, *values: int, dtype: DType | None = None, **attributes: Any) -> int:
        """Add an elementwise op; its dtype is by default that of its first operand."""
        items = tuple(sorted(attributes.items()))
        return self.add(Step(op, values, dtype or self.dtype(values[0]), items))

    def cast(self, value: int, dtype: DType) -> int:
        """Return a value in a dtype."""
        return value if self.dtype(value) is dtype else self.step("cast", value, dtype=dtype)

    def fold(self, kind: str, value: int) -> int:
        """Add a reduction along the row."""
        return self.add(Fold(kind, value, self.dtype(value)))

    def program(self, results: Sequence[int], kept: Sequence[int] = ()) -> Program:
        """Return the program, with operands before steps."""
        operands = [i for i, made in enumerate(self._made) if isinstance(made, Operand)]
        steps = [i for i, made in enumerate(self._made) if not isinstance(made, Operand)]
        places = {i: k for k, i in enumerate((*operands, *steps))}
        return Program(
            tuple(made for made in self._made if isinstance(made, Operand)),
            tuple(moved(made, places) for made in self._made if not isinstance(made, Operand)),
            tuple(places[i] for i in results),
            tuple(places[i] for i in kept),
        )


def moved(step: Step | Fold, places: Mapping[int, int]) -> Step | Fold:
    """Return a step with its values renumbered."""
    if isinstance(step, Fold):
        return replace(step, operand=places[step.operand])
    return replace(step, operands=tuple(places[n] for n in step.operands))
