"""Long programs that differ in one thing alone, planned by devices that share a cache on disk.

What a device keeps for a program is found again by what the program is. A key that leaves a part
out, such as the order of the results, an attribute of one step or the operand that it reads, gives
one program the plan of another. Programs here are long enough to be kept, each device is opened
anew, and NumPy does the same steps.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.errors import DeviceError
from calor.plugins.registry import Registry

from .base import Array, Check, Place
from .damaged_caches import cache_in

CONTRACT: Final = "a program has its own plan, whatever alike program was planned and kept before"
# Steps of a program: a device keeps the plans of long ones.
_LONG: Final = 34
_CHANGED: Final = 3
Rng = np.random.Generator


@dataclass(frozen=True)
class _Step:
    """What is done to the last value, with a value of before, a number and an axis."""

    kind: str
    operand: int
    number: float
    axis: int


@dataclass(frozen=True)
class _Program:
    """Steps on two operands of one shape, which values are results, and the shape."""

    steps: tuple[_Step, ...]
    results: tuple[int, ...]
    shape: tuple[int, int]

    def run(self, np_or_calor: Any, x: Any, y: Any) -> list[Any]:
        values = [x, y]
        for step in self.steps:
            made = _KINDS[step.kind](np_or_calor, values[-1], values[step.operand], step)
            values.append(np_or_calor.clip(made, -8, 8))
        return [values[n] for n in self.results]


def _running(lib: Any, v: Any, other: Any, step: _Step) -> Any:
    return (lib.cumsum if lib is np else lib.cumulative_sum)(v, axis=step.axis) - other


_KINDS: Final[dict[str, Callable[[Any, Any, Any, _Step], Any]]] = {
    "sum": lambda lib, v, other, step: v + other * step.number,
    "difference": lambda lib, v, other, step: v * step.number - other,
    "running": _running,
    "reversed": lambda lib, v, other, step: lib.flip(v, axis=step.axis) + other,
    "rolled": lambda lib, v, other, step: lib.roll(v, 2, axis=step.axis) - other * step.number,
    "centred": lambda lib, v, other, step: other - v.max(axis=step.axis, keepdims=True),
}


def _step(rng: Rng, number: int) -> _Step:
    kinds = list(_KINDS)
    return _Step(
        kinds[int(rng.integers(len(kinds)))], int(rng.integers(number)),
        float(rng.integers(1, 8)) / 4, int(rng.integers(2)),
    )  # fmt: skip


def _program(rng: Rng) -> _Program:
    steps = tuple(_step(rng, n + 2) for n in range(_LONG))
    results = sorted(int(n) for n in rng.choice(np.arange(2, _LONG + 1), 3, replace=False))
    return _Program(steps, (*results, _LONG + 1), (5, 7))


def _alike(rng: Rng, program: _Program, change: str) -> _Program:
    """Return the program with one thing changed."""
    at = int(rng.integers(_LONG))
    step = program.steps[at]
    if change == "order of results":
        return replace(program, results=program.results[::-1])
    if change == "results":
        return replace(program, results=(*program.results[:-1], program.results[-1] - 1))
    if change == "shape":
        return replace(program, shape=(7, 5))
    if change == "kind":
        others = [kind for kind in _KINDS if kind != step.kind]
        changed = replace(step, kind=others[int(rng.integers(len(others)))])
    elif change == "operand":
        changed = replace(step, operand=(step.operand + 1) % (at + 2))
    elif change == "number":
        changed = replace(step, kind="sum", number=step.number + 2)
    else:
        changed = replace(step, kind="running", axis=1 - step.axis)
    return replace(program, steps=(*program.steps[:at], changed, *program.steps[at + 1 :]))


_CHANGES: Final = ("order of results", "results", "shape", "kind", "operand", "number", "axis")


def _compare(name: str, rng: Rng, program: _Program, told: str) -> None:
    x, y = rng.integers(-9, 10, (2, *program.shape)).astype(np.float32) / 2
    wants: list[Array] = program.run(np, x, y)
    registry = Registry()
    device = registry.device(name)
    try:
        with calor.device(device):
            jitted = calor.jit(lambda x, y: program.run(calor, x, y))
            found = jitted(calor.asarray(x), calor.asarray(y))
            gots = [t.numpy(copy=True) for t in found]
    finally:
        registry.forget(device.backend)
        device.backend.close()
    for n, (got, want) in enumerate(zip(gots, wants, strict=True)):
        assert got.shape == want.shape, f"{told}: result {n} has shape {got.shape}"
        near = np.allclose(got, want, 1e-3, 1e-3)
        assert near, f"{told}: result {n} is {got.tolist()}, not {want.tolist()}"


def _run(place: Place) -> None:
    name = place.plain.name
    try:
        if Registry().is_scheme(name.partition(":")[0]):
            return
    except DeviceError:
        # A device that is in no registry cannot be opened again.
        return
    rng = np.random.default_rng([place.seed, 991])
    program = _program(rng)
    changes = ["order of results", *rng.permutation(_CHANGES[1:])[:_CHANGED]]
    with tempfile.TemporaryDirectory() as folder, cache_in(folder):
        _compare(name, rng, program, "a program")
        for change in changes:
            _compare(name, rng, _alike(rng, program, change), f"it with another {change}")
        _compare(name, rng, program, "the program again, after ones alike")


def alike_plans() -> Iterator[Check]:
    """Yield the check of long programs that are alike."""
    yield Check(
        kind="stored",
        subject="plans-of-alike-programs",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, inspect.getmodule(_run) or _run),
        dtypes=(float32,),
        looks=True,
    )
