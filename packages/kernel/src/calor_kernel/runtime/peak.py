"""What is in memory when a program needs the most of it, and which op made each part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import calor
from calor.compiling.host_numbers import WithHostNumbers
from calor.errors import UnsupportedError
from calor.transforms.jit import Jitted
from calor.units import bytes_text
from calor_kernel.planning.plan import Plan
from calor_kernel.planning.values import Draft, Piece, Task

# Of the ops that one launch computes, so many are named.
_OPS: Final = 8


@dataclass(frozen=True, slots=True)
class Held:
    """Values of one kind that are in memory at the peak.

    Attributes
    ----------
    nbytes : int
        The bytes of all of them.
    count : int
        How many there are.
    made : str
        The ops that one launch computes together, or "scratch of" the op at the peak.
    value : str
        Dtype and shape.
    read : str
        The op that reads it last.
    """

    nbytes: int
    count: int
    made: str
    value: str
    read: str


@dataclass(frozen=True, slots=True)
class Peak:
    """The most memory that a call of a program takes; its text is a table.

    Attributes
    ----------
    given : int
        The bytes of arguments and state; state that is written in place counts once.
    results : int
        The bytes of results in fresh memory.
    between : int
        The bytes of the memory for values in between, gaps included.
    live : int
        The bytes of that memory in use at the peak.
    op : str
        The op at the peak.
    held : tuple of Held
        What is in use there, the most first.
    """

    given: int
    results: int
    between: int
    live: int
    op: str
    held: tuple[Held, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of a call in all."""
        return self.given + self.results + self.between

    def __str__(self) -> str:
        head = (
            f"{bytes_text(self.nbytes)}: arguments and state {bytes_text(self.given)}, results "
            f"{bytes_text(self.results)}, between them {bytes_text(self.between)}, of which "
            f"{bytes_text(self.live)} are in use at {self.op}"
        )
        lines = [head]
        for one in self.held:
            lines.append(
                f"{bytes_text(one.nbytes):>12}  {one.count} x {one.value} of {one.made}, "
                f"until {one.read}"
            )
        return "\n".join(lines)


def peak(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Peak:
    """Return what is in memory when a call of a function needs the most.

    Nothing is computed: the function is traced and compiled for its arguments.

    Parameters
    ----------
    function : callable
        A function, jitted or not; one with a memory limit is planned within it.
    *args : Any
        Its arguments.
    **kwargs : Any
        Its keyword arguments.

    Returns
    -------
    Peak
        The bytes, and the values that they belong to with the ops that made them.

    Raises
    ------
    UnsupportedError
        If the device runs no kernels of calor's, or the program has control flow.
    MemoryLimitError
        If the function has a memory limit that cannot be kept.

    Examples
    --------
    >>> import calor, calor_kernel
    >>> x = calor.ones((1024, 1024), device="cpu")  # doctest: +SKIP
    >>> print(calor_kernel.peak(lambda x: calor.sum(x @ x), x))  # doctest: +SKIP
    8.0 MiB: arguments and state 4.0 MiB, results 4 B, between them 4.0 MiB, of which 4.0 MiB are
    """
    jitted = function if isinstance(function, Jitted) else calor.jit(function)
    jitted.trace_again(args, kwargs)
    program = jitted.programs[0]
    plan, in_place = program.executable, program.traced.in_place()
    if isinstance(plan, WithHostNumbers):
        in_place, plan = plan.parts.moved(in_place), plan.executable
    if not isinstance(plan, Plan):
        raise UnsupportedError(
            f"{program.device.name} has no plan of {program.name} as a whole; a program without "
            f"control flow on a device that runs calor's kernels has one"
        )
    return of_plan(plan, in_place)


def of_plan(plan: Plan, in_place: Mapping[int, int]) -> Peak:
    """Return what is in memory at the peak of a plan.

    Parameters
    ----------
    plan : Plan
        The plan.
    in_place : mapping of int to int
        For each output that is written to the memory of an input, that input.

    Returns
    -------
    Peak
        The bytes, and the values that they belong to.
    """
    graph = plan.graph
    lives = plan.recorder.lives(in_place)
    tasks = plan.draft.tasks
    live = lives.live(len(tasks) + 1)
    place = max(range(len(live)), key=live.__getitem__)
    given = sum(s.nbytes for i, s in zip(graph.inputs, graph.input_specs, strict=True)
                if i not in graph.host)  # fmt: skip
    fresh = sum(n for o, n in enumerate(plan.output_bytes) if o not in in_place)
    op = tasks[place].op if place < len(tasks) else "the end"
    held = [
        (piece, last)
        for piece, (first, last) in lives.spans.items()
        if first <= place <= last and piece.nbytes
    ]
    arena = plan.recorder.layout(in_place)[0].nbytes
    return Peak(given, fresh, arena, live[place], op, _grouped(plan.draft, held, op))


def _grouped(draft: Draft, held: Sequence[tuple[Piece, int]], op: str) -> tuple[Held, ...]:
    """Return pieces with the tasks that read them last, those of one kind together."""
    makers = {
        piece: (task, spec)
        for several in draft.tasks
        for task in several.members or (several,)
        for piece, spec in zip(task.outputs, task.results, strict=True)
    }
    found: dict[tuple[str, str, str], list[int]] = {}
    for piece, last in held:
        read = _title(draft.tasks[last]) if last < len(draft.tasks) else "the end"
        if piece in makers:
            task, spec = makers[piece]
            key = _title(task), f"{spec.dtype.name}{list(spec.shape)}", read
        else:
            key = f"scratch of {op}", "bytes", op
        found.setdefault(key, []).append(piece.nbytes)
    rows = [Held(sum(sizes), len(sizes), *key) for key, sizes in found.items()]
    return tuple(sorted(rows, key=lambda row: -row.nbytes))


def _title(task: Task) -> str:
    """Return the ops of a task, of many those that stand at its ends."""
    ops = [*task.covers]
    if not ops:
        return task.op
    if len(ops) > _OPS:
        half = _OPS // 2
        ops[half:-half] = [f"{len(ops) - 2 * half} more"]
    return " + ".join(ops)
