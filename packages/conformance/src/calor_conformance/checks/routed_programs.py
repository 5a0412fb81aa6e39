"""Devices made of others: drawn programs on routers whose members take some ops or little memory.

A router of members with different tables, and one with a limit of memory, compute what a single
device computes. What is told of the placement is what happens: each node has one member that takes
it, and a call moves the values that are named, with their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor
from calor.backends.device import Device, device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.errors import CalorError, UnsupportedError
from calor.ops.base import TABLE
from calor.recording.trace import flush_all

from ..rows.tables import CASES
from . import gradients, history, mapping, modes, values
from .base import Array, Check, Place
from .device_subjects import device_subjects

CONTRACT: Final = (
    "a router computes what its members do, where it says, with the moves that it says"
)
PACKAGE: Final = "calor_router"
_PROGRAMS, _STREAMED, _ASKED = 10, 4, 60
Rng = np.random.Generator


class Member(NumpyBackend):
    """The reference with some of its ops."""

    def __init__(self, name: str, without: Collection[str] = ()) -> None:
        super().__init__()
        self.name = name
        self.without = frozenset(without)

    def table(self, index: int) -> Mapping[str, Any]:
        return {n: f for n, f in super().table(index).items() if n not in self.without}


# Ops without which a member cannot hold and view values.
_HELD: Final = frozenset(("reshape", "permute", "expand", "slice", "cast", "full", "iota", "input"))


def _members(rng: Rng) -> list[Device]:
    """Return members that lack other ops each; the last has all."""
    names = sorted(set(TABLE) - _HELD)
    made = []
    for number in range(int(rng.integers(1, 3))):
        without = [n for n in names if rng.random() < 0.4]
        made.append(device_of(Member(f"some{number}", without), 0))
    return [*made, device_of(Member("all"), 0)]


def router(members: list[Device], limits: tuple[int | None, ...] = ()) -> Device:
    device: Device = import_module("calor_router.backend").RouterBackend(members, limits).device
    return device


_UNARY: Final[tuple[Callable[[Any], Any], ...]] = (
    calor.tanh, calor.exp, calor.abs, calor.negative, calor.sin, calor.sigmoid, calor.square,
    lambda x: calor.flip(x, axis=0), lambda x: x.mT.mT, lambda x: calor.cumulative_sum(x, axis=1),
    lambda x: calor.softmax(x, axis=-1), lambda x: x - calor.max(x, axis=0, keepdims=True),
)  # fmt: skip
_BINARY: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    calor.add, calor.subtract, calor.multiply, calor.maximum, lambda a, b: a @ b.mT @ b,
    lambda a, b: calor.where(a > b, a, b), lambda a, b: calor.concat([a, b])[: a.shape[0]],
    lambda a, b: calor.atan2(a, b),
)  # fmt: skip


def _program(rng: Rng) -> Callable[..., Any]:
    """Return a program of two operands of one shape, with values that are used several times."""
    steps: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
    for count in range(2, 2 + int(rng.integers(2, 9))):
        if rng.random() < 0.5:
            steps.append((_UNARY[int(rng.integers(len(_UNARY)))], (int(rng.integers(count)),)))
        else:
            pair = int(rng.integers(count)), int(rng.integers(count))
            steps.append((_BINARY[int(rng.integers(len(_BINARY)))], pair))
    kept = sorted({int(n) for n in rng.integers(0, len(steps), 2)})

    def program(*operands: Any) -> list[Any]:
        values = list(operands)
        for function, places in steps:
            values.append(calor.tanh(function(*(values[p] for p in places))))
        return [values[-1], *(values[2 + k] for k in kept)]

    return program


def _given(rng: Rng) -> list[Array]:
    shape = tuple(int(n) for n in rng.integers(1, 6, 2))
    return [rng.normal(size=shape).astype(np.float32) for _ in range(2)]


def _results(function: Any, arrays: list[Array], device: Any) -> list[Array]:
    with calor.device(device):
        return [t.numpy() for t in function(*(calor.asarray(a) for a in arrays))]


def _told(told: Any, device: Device, members: list[Device]) -> None:
    """Require that each node is on one member that takes it, and that others have reasons."""
    nodes = told.graph.nodes
    names = [*(m.name for m in members), device.name]
    assert list(told.members) == names, f"members {told.members}, not {names}"
    placed = [i for _, part in told.stages for i in part]
    assert sorted(placed) == list(range(len(nodes))), f"nodes {placed} of {len(nodes)}"
    for member, part in told.stages:
        for i in part:
            assert told.chosen[i] == member, f"node {i} is on {told.chosen[i]} and in {member}"
            lacks = getattr(members[member].backend, "without", ())
            assert nodes[i].op.name not in lacks, f"{names[member]} has no {nodes[i].op.name}"
    elsewhere = {i for i, member in enumerate(told.chosen) if member}
    assert set(told.reasons) == elsewhere, f"reasons of {set(told.reasons)}, not {elsewhere}"
    made: set[int] = set(told.graph.inputs)
    for _, part in told.stages:
        for i in part:
            assert made.issuperset(nodes[i].inputs), f"node {i} runs before what it reads"
            made.update(nodes[i].outputs)
    total = sum(told.graph.specs[v].nbytes for v in told.moved)
    assert told.moved_bytes == total, f"{told.moved_bytes} bytes of {told.moved}, not {total}"
    lines = str(told).splitlines()
    count = len(told.stages)
    head = f"{count} part{'s' * (count != 1)} on "
    assert lines[0].startswith(head), lines[0]
    assert f"; a call moves {len(told.moved)} values, " in lines[0], lines[0]
    for number, (member, part) in enumerate(told.stages, 1):
        ops = [nodes[i].op.name for i in part]
        line = lines[number + len(told.peaks)]
        assert line.startswith(f"  {number}. {names[member]}: "), line
        for op in set(ops):
            assert f"{ops.count(op)} {op}" in line, f"{line} misses {ops.count(op)} {op}"


def _routed(place: Place) -> None:
    package = import_module(PACKAGE)
    for number in range(_PROGRAMS):
        rng = np.random.default_rng([place.seed, 901, number])
        program, arrays, members = _program(rng), _given(rng), _members(rng)
        device = router(members)
        wants = _results(program, arrays, members[-1])
        jitted = calor.jit(program)
        for function in (program, jitted, jitted):
            got = _results(function, arrays, device)
            for a, b in zip(got, wants, strict=True):
                assert a.tobytes() == b.tobytes(), f"on a router: {a.tolist()}, not {b.tolist()}"
        with calor.device(device):
            calor.eval(jitted(*(calor.asarray(a) for a in arrays)))
            # Operands that were moved stay there, so these are new ones.
            operands = [calor.asarray(a) for a in arrays]
            before = device.transfers, device.transferred_bytes, device.fallbacks
            calor.eval(jitted(*operands))
            after = device.transfers, device.transferred_bytes, device.fallbacks
            told = package.explain(jitted, *operands)
        _told(told, device, members)
        moves, nbytes, fell = (b - a for a, b in zip(before, after, strict=True))
        assert moves == len(told.moved), f"{moves} moves, and {len(told.moved)} are told"
        assert nbytes == told.moved_bytes, f"{nbytes} bytes, and {told.moved_bytes} are told"
        elsewhere = sum(member > 0 for member in told.chosen)
        assert fell == elsewhere, f"{fell} ops elsewhere are counted, not {elsewhere}"
        _strictly(package, program, arrays, device, elsewhere)


def _strictly(package: Any, program: Any, arrays: list[Array], device: Device, off: int) -> None:
    try:
        with package.strict():
            _results(calor.jit(program), arrays, device)
    except UnsupportedError:
        assert off, "strict refuses a program that is on the first member"
    else:
        assert not off, f"strict takes a program of which {off} ops are elsewhere"


def _streamed(place: Place) -> None:
    """Layers with more weights than a member may hold."""
    package, measure = import_module(PACKAGE), import_module("calor_router.speeds").measure
    for number in range(_STREAMED):
        rng = np.random.default_rng([place.seed, 902, number])
        width, deep = int(rng.choice([16, 24])), int(rng.integers(4, 9))
        weights = [rng.normal(size=(width, width)).astype(np.float32) / 4 for _ in range(deep)]
        limit = max(deep // int(rng.integers(2, 4)), 3) * width * width * 4 + 4096
        member = device_of(Member("small"), 0)
        measure([member], (limit,))
        device = router([member], (limit,))
        x = rng.normal(size=(2, width)).astype(np.float32)

        def program(x: Any, *weights: Any) -> list[Any]:
            for w in weights:
                x = calor.tanh(x @ w)
            return [x]

        jitted = calor.jit(program)
        want = _results(program, [x, *weights], "numpy")[0]
        for _ in range(2):
            got = _results(jitted, [x, *weights], device)[0]
            assert got.tobytes() == want.tobytes(), f"streamed: {got.tolist()}"
        peak = member.memory.peak
        assert peak <= limit, f"{peak} bytes of a member that may hold {limit}"
        with calor.device(device):
            told = package.explain(jitted, *(calor.asarray(a) for a in [x, *weights]))
        _told(told, device, [member])
        assert all(most <= limit for most in told.peaks.values()), f"{told.peaks} of {limit}"


def _as_a_device(place: Place) -> None:
    """Checks of the suite, drawn, with a router in the place of the device."""
    rng = np.random.default_rng([place.seed, 903])
    device = router(_members(rng))
    run_some(Place(device, device, place.seed), rng, _ASKED)


def run_some(place: Place, rng: Rng, count: int) -> None:
    """Run checks of some rows, and of histories, on another device, and raise what they find.

    Parameters
    ----------
    place : Place
        The other device.
    rng : Generator
        Draws the checks.
    count : int
        How many.
    """
    rows = [CASES[int(n)] for n in rng.choice(len(CASES), count, replace=False)]
    families = (values.values, values.views, modes.modes, mapping.mapping, gradients.gradients)
    checks = [c for family in families for c in family(rows)]
    checks += [c for c in history.CHECKS if not c.name.endswith("_change")]
    for number in rng.permutation(len(checks))[:count]:
        check = checks[number]
        try:
            with calor.device(place.device):
                check.run(place)
        except (AssertionError, CalorError) as error:
            raise AssertionError(f"{check.name} on {place.device.name}: {error}") from error
        finally:
            flush_all()


_SUBJECTS: Final[dict[str, Callable[[Place], None]]] = {
    "routed-programs": _routed, "streamed-programs": _streamed,
    "a-router-as-a-device": _as_a_device,
}  # fmt: skip


def routed_programs() -> Iterator[Check]:
    """Yield the checks, if calor-router is installed."""
    yield from device_subjects(PACKAGE, _SUBJECTS, CONTRACT)
