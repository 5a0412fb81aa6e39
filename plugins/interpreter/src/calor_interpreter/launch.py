"""Launches on lanes: arguments to memories, cubes to batches.

Requirements: arguments are as for a device, an array per buffer or an array and an element offset,
and are checked against the signature. A batch fits the processor's caches and is large enough to
hide Python's overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from calor_interpreter.machine import Batch, Launch, cluster_of, run_steps
from calor_interpreter.program import Program
from calor_interpreter.state import State
from calor_interpreter.states import own_states, watch_arguments
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Kernel, Memory, Parameter
from calor_kernel.ir.types import Scalar

Array = np.ndarray[Any, Any]
Argument = Array | tuple[Array, int] | int | float

# The elements of a batch's widest value, if the batch size is not given.
LANES = 16384


def run_on_lanes(
    kernel: Kernel | Program,
    cubes: tuple[int, int, int],
    arguments: Sequence[Argument],
    *,
    checks: bool = True,
    batch: int | None = None,
    output: Callable[[str], object] = print,
) -> None:
    """Run a kernel over NumPy arrays; results are written in place.

    ``arguments``: per parameter a contiguous array of its dtype, an (array, element offset), or a
    number. ``checks``: look for races, uninitialized memory and other violations, each a
    KernelCheckError; bounds are always checked. ``batch``: the cubes that run in lock step; one at
    a time if a kernel waits for earlier cubes, all if it waits for any. ``output`` receives the
    kernels' prints.

    >>> import numpy as np
    >>> from calor.dtypes import float32, int64
    >>> from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
    >>> @kernel
    ... def double(x, n):
    ...     i = absolute_position()
    ...     if i < n:
    ...         x[i] = x[i] * 2.0
    >>> x = np.arange(3, dtype=np.float32)
    >>> built = double.build([Buffer(float32), Scalar(int64)])  # doctest: +SKIP
    >>> run_on_lanes(built, (3, 1, 1), [x, 3])  # doctest: +SKIP
    >>> x  # doctest: +SKIP
    array([0., 2., 4.], dtype=float32)
    """
    program = kernel if isinstance(kernel, Program) else Program(kernel)
    launch = Launch(program.kernel, cubes, checks, output)
    values = list(program.values)
    states = _bind(program, arguments, values)
    if checks:
        watch_arguments(program, states)
    count, units = prod(cubes), program.kernel.units
    crew = cluster_of(program.kernel)
    if count % crew:
        raise KernelTypeError(f"{count} cubes are no whole number of clusters of {crew}")
    if batch is None:
        # Named barriers keep a number for each pair of units.
        each = program.width * (units * units * crew if program.named else units)
        batch = 1 if program.in_order else max(1, LANES // each)
    if program.kernel.attributes.get("together"):
        batch = max(count, 1)
    # The cubes of a cluster wait for each other.
    batch = -(-batch // crew) * crew
    with np.errstate(all="ignore"):
        for first in range(0, count, batch):
            size = min(batch, count - first)
            own = own_states(program, states, size, checks)
            run = Batch(launch, first, size, list(values), own, program.named)
            run_steps(program.steps, run)


def _bind(program: Program, arguments: Sequence[Argument], values: list[Any]) -> list[State]:
    parameters = program.kernel.parameters
    if len(arguments) != len(parameters):
        raise KernelTypeError(
            f"kernel {program.kernel.name} takes {len(parameters)} arguments, not {len(arguments)}"
        )
    states = []
    for parameter, slot, given in zip(parameters, program.parameters, arguments, strict=True):
        if parameter.memory is None:
            values[slot] = _number(parameter, given)
        else:
            states.append(_state(program, parameter, parameter.memory, given))
    return states


def _number(parameter: Parameter, given: Any) -> Array:
    declared = parameter.declared
    assert isinstance(declared, Scalar)
    try:
        made = np.array([given], declared.dtype.numpy)
    except (OverflowError, TypeError, ValueError) as error:
        raise KernelTypeError(f"{parameter.name} takes a number of {declared}: {error}") from error
    if declared.divisible > 1 and given % declared.divisible:
        raise KernelTypeError(
            f"{parameter.name} is declared to divide by {declared.divisible}, and is {given}"
        )
    if declared.nonnegative and given < 0:
        raise KernelTypeError(f"{parameter.name} is declared as never negative, and is {given}")
    return made


def _state(program: Program, parameter: Parameter, memory: Memory, given: Any) -> State:
    array, offset = given if isinstance(given, tuple) else (given, 0)
    wanted = memory.type.dtype.numpy
    if not isinstance(array, np.ndarray) or array.dtype != wanted:
        found = getattr(array, "dtype", type(array).__name__)
        raise KernelTypeError(f"{parameter.name} takes an array of {wanted}, not {found}")
    if not array.flags.c_contiguous:
        raise KernelTypeError(f"{parameter.name} takes a contiguous array; copy it first")
    if memory in program.written and not array.flags.writeable:
        raise KernelTypeError(f"{parameter.name} is written, and its array is read-only")
    align = getattr(parameter.declared, "align", 0)
    if align and offset * wanted.itemsize % align:
        raise KernelTypeError(
            f"{parameter.name} is declared as aligned to {align} bytes, and starts "
            f"{offset * wanted.itemsize} bytes into its memory"
        )
    return State(memory, array.reshape(-1), int(offset), -int(offset), array.size - int(offset))
