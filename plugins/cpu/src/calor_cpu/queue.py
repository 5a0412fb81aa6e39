"""Recorded launches, run by the native pool in the calling thread and its workers.

Requirements: a run is one native call that returns after all work, so nothing is left to wait for.
A launch is divided among threads only if its figures of work exceed the cost of waking them. A
failed assertion of a kernel is an error with its text.
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

# Lower bounds of a core's arithmetic and memory rates per second, so durations are upper bounds.
_FLOPS: Final = 20e9
_BYTES: Final = 10e9
# Small data are in a core's own caches when they are used repeatedly, which is when time matters.
_NEAR: Final = 256 << 10
_NEAR_BYTES: Final = 40e9
_CHUNK_S: Final = 4e-6  # seconds of work that are worth a chunk for another thread
# Seconds of a launch that are worth a hand-over, by the number of threads: two threads gain half of
# a launch, and lose up to 2 us for a hand-over where their processors share no cache.
_SHARED_S: Final = 64e-6


class Function:
    """A loaded kernel: its image, and the dtypes of its number parameters."""

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
        """Return whether all Varying numbers of a step are integer parameters."""
        return all(
            dtype is None or dtype.kind in ("int", "uint") or not isinstance(given, Varying)
            for dtype, given in zip(self.numbers, step.arguments, strict=True)
        )


def shortest_shared(threads: int) -> float:
    """Return the seconds from which on so many threads share a launch."""
    return max(2 * _CHUNK_S, _SHARED_S / threads)


def shares_of(
    figures: Iterable[tuple[int, int, int]], threads: int
) -> tuple[list[int], list[float]]:
    """Return the grain of each launch and an upper bound of its seconds on one core.

    ``figures`` are cubes, operations and bytes of each. The grain is the smallest number of cubes
    that is worth a chunk, 0 for a launch that stays in one thread. A launch without figures takes
    infinitely long.
    """
    grains: list[int] = []
    times: list[float] = []
    shortest = shortest_shared(threads)
    for count, flops, nbytes in figures:
        computing, moving = flops / _FLOPS, nbytes / (_BYTES if nbytes > _NEAR else _NEAR_BYTES)
        seconds = (computing if computing > moving else moving) or inf
        times.append(seconds)
        if count < 2 or seconds < shortest:
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
        grains, times = shares_of(
            [(prod(s.cubes), s.flops, s.nbytes) for s in steps], self.pool.threads
        )
        records = [
            Record(f.image.address, f.arguments(step), step.cubes, grain, step.loop, step.moves)
            for f, step, grain in zip(functions, steps, grains, strict=True)
        ]
        explain = partial(_explained, functions)
        return Plan(self.pool, records, slots, seconds=sum(times), keep=functions, explain=explain)

    def form(self, steps: Sequence[Step], slots: int) -> Callable[..., Any]:
        """Return the function that creates plans of known launches with other numbers."""
        if not all(step.function.takes(step) for step in steps):
            return super().form(steps, slots)
        # Addresses that vary in how they move are among the shifts, whatever they move by.
        known = [filled(step, defaultdict(lambda: 1)) for step in steps]
        records = [
            Record(s.function.image.address, s.function.arguments(s), s.cubes, 0, s.loop, s.moves)
            for s in known
        ]
        layout = Layout.of(self.pool, records, slots, False)
        rates = _FLOPS, _BYTES, _NEAR, _NEAR_BYTES, shortest_shared(self.pool.threads), _CHUNK_S
        form = Form(self.pool, layout, steps, slots, rates)
        usual: list[Function] = [step.function for step in steps]
        explained = partial(_explained, usual)

        # Addresses of other functions, cached by their mapping, which is mostly a known one.
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
        """Run a plan with an address for each slot; it is finished on return."""
        recorded.call(*handles)

    def direct(self, recorded: Plan) -> Callable[..., None]:
        """Return the plan's built-in function."""
        return recorded.call

    def synchronize(self) -> None:
        """Return at once, because every run is finished."""

    def seconds(self, recorded: Plan, handles: Sequence[int]) -> list[float]:
        """Run a plan and return the duration of each launch in seconds."""
        return recorded.seconds(handles)


def _explained(functions: Sequence[Function], record: int, code: int) -> KernelCheckError:
    return KernelCheckError(functions[record].image.message(code))
