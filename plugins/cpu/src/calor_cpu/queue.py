"""Recorded launches, run by the native pool in the calling thread and its workers.

Requirements: a run is one native call that ends when everything is done, so there is nothing to
wait for afterwards; a launch is divided among threads only where its work is worth their waking,
which its figures of work say; an assertion that failed in a kernel is an error with its text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf, prod
from typing import Any, Final

from calor.dtypes import DType
from calor.interning import remember
from calor_cpu.forms import Form
from calor_cpu.loader import LoadedImage
from calor_cpu.pool import Layout, Plan, Pool, Record, bits
from calor_kernel.device.protocol import Queue, Slot, Step, Varying, filled
from calor_kernel.errors import KernelCheckError, KernelTypeError
from calor_kernel.ir.nodes import Kernel

# What a core does in a second at least, of arithmetic and of memory: work is not overestimated so.
_FLOPS: Final = 20e9
_BYTES: Final = 10e9
# What is small is in a core's own caches if it is used over and over, as it has to be to matter.
_NEAR: Final = 256 << 10
_NEAR_BYTES: Final = 40e9
_CHUNK_S: Final = 4e-6  # the work that is worth handing to a thread


class Function:
    """A loaded kernel: its image, and the dtype of each number among its parameters."""

    def __init__(self, image: bytes, kernel: Kernel | Any) -> None:
        self.image = LoadedImage(image, kernel.name)
        self.name: str = kernel.name
        self.numbers: tuple[DType | None, ...] = tuple(
            None if p.memory is not None else p.declared.dtype for p in kernel.parameters
        )

    def arguments(self, step: Step) -> tuple[Slot | int, ...]:
        """Return a step's arguments as slots and the bits of numbers."""
        if len(self.numbers) != len(step.arguments):
            raise KernelTypeError(
                f"kernel {self.name!r} takes {len(self.numbers)} arguments, "
                f"not {len(step.arguments)}"
            )
        made: list[Slot | int] = []
        for dtype, given in zip(self.numbers, step.arguments, strict=True):
            if isinstance(given, Slot) != (dtype is None):
                wanted = "a slot" if dtype is None else f"a number of {dtype}"
                raise KernelTypeError(f"kernel {self.name!r} takes {wanted}, not {given!r}")
            made.append(given if isinstance(given, Slot) else bits(given, dtype))  # type: ignore[arg-type]
        return tuple(made)

    def takes(self, step: Step) -> bool:
        """Return whether all Varying numbers of a step are integers here."""
        return all(
            dtype is None or dtype.kind in ("int", "uint") or not isinstance(given, Varying)
            for dtype, given in zip(self.numbers, step.arguments, strict=True)
        )


def shares_of(figures: Iterable[tuple[int, int, int]]) -> tuple[list[int], list[float]]:
    """Return how launches are divided, and how many seconds each takes one core at most.

    ``figures``: cubes, operations and bytes of each. Divided they are by the fewest cubes that are
    worth a chunk, 0 for a launch that stays in one thread. What says nothing of its work takes
    infinitely long.
    """
    grains: list[int] = []
    times: list[float] = []
    for count, flops, nbytes in figures:
        computing, moving = flops / _FLOPS, nbytes / (_BYTES if nbytes > _NEAR else _NEAR_BYTES)
        seconds = (computing if computing > moving else moving) or inf
        times.append(seconds)
        if count < 2 or seconds < 2 * _CHUNK_S:
            grains.append(0)
        else:
            grains.append(min(max(1, int(_CHUNK_S * count / seconds + 0.5)), count))
    return grains, times


class CpuQueue(Queue):
    """Runs recorded launches at once."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return the function of an object file."""
        return Function(image, kernel)

    def record(self, steps: Sequence[Step], slots: int) -> Plan:
        """Return the launches as one plan of the pool."""
        functions: list[Function] = [step.function for step in steps]
        grains, times = shares_of([(prod(s.cubes), s.flops, s.nbytes) for s in steps])
        records = [
            Record(f.image.address, f.arguments(step), step.cubes, grain)
            for f, step, grain in zip(functions, steps, grains, strict=True)
        ]
        explain = partial(_explained, functions)
        return Plan(self.pool, records, slots, seconds=sum(times), keep=functions, explain=explain)

    def form(self, steps: Sequence[Step], slots: int) -> Callable[..., Any]:
        """Return what makes plans of known launches with other numbers."""
        if not all(step.function.takes(step) for step in steps):
            return super().form(steps, slots)
        known = [filled(step, defaultdict(int)) for step in steps]
        records = [
            Record(s.function.image.address, s.function.arguments(s), s.cubes, 0) for s in known
        ]
        layout = Layout.of(self.pool, records, slots, False)
        rates = _FLOPS, _BYTES, _NEAR, _NEAR_BYTES, _CHUNK_S
        form = Form(self.pool, layout, steps, slots, rates)
        usual: list[Function] = [step.function for step in steps]
        explained = partial(_explained, usual)

        # What other functions come to, by the mapping that they are given as: mostly a known one.
        known_ones: dict[int, tuple[Any, ...]] = {}

        def record(numbers: Sequence[int], others: Mapping[int, Function]) -> Plan:
            if not others:
                return form.plan(numbers, {}, usual, explained)
            found = known_ones.get(id(others))
            if found is None or found[0] is not others:
                addresses = {i: f.image.address for i, f in others.items()}
                functions = [others.get(i, f) for i, f in enumerate(usual)]
                found = others, addresses, functions, partial(_explained, functions)
                remember(known_ones, id(others), found)
            return form.plan(numbers, found[1], found[2], found[3])

        return record

    def run(self, recorded: Plan, handles: Sequence[int]) -> None:
        """Run a plan with an address for each slot; it is finished when this returns."""
        recorded.call(*handles)

    def direct(self, recorded: Plan) -> Callable[..., None]:
        """Return the plan's built-in function."""
        return recorded.call

    def synchronize(self) -> None:
        """Return; everything that was run is finished."""

    def seconds(self, recorded: Plan, handles: Sequence[int]) -> list[float]:
        """Run a plan and return how long each launch took."""
        return recorded.seconds(handles)


def _explained(functions: Sequence[Function], record: int, code: int) -> KernelCheckError:
    return KernelCheckError(functions[record].image.message(code))
