"""Contracts of the suite on devices that are made of others: a router, one with limits, a server.

What a device tells of its memory, features and errors, how values come, go and are copied, what
threads and large values do: the checks of each device that need little time are run on a router of
two members of which the first lacks ops, on one whose members may hold little, and on the tested
device behind a server. Values of drawn sizes, most of them larger than what two bytes count, come
and go in a drawn order: what is there is what was put there, and when all are gone, all memory is
given back.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor
from calor.backends.device import Device, device_of
from calor.backends.protocol import Info
from calor.errors import CalorError, DeviceError
from calor.local import local
from calor.recording.trace import flush_all

from . import errors, features, graphs, history, memory, state, threads, transfers
from .base import Array, Check, Place
from .device_subjects import device_subjects
from .routed_programs import PACKAGE as ROUTER
from .routed_programs import Member, router

CONTRACT: Final = "a device that is made of others keeps the contracts of every device"
SERVED: Final = "calor_http"
_FAMILIES: Final = (features, memory, transfers, errors, state, threads, graphs, history)
# Checks that take long, or that look at the process and not at the device.
_LONG: Final = (
    "*any_size*", "memory/process_*", "memory/tables_*", "*_change", "features/serialize",
    "transfers/dlpack*", "history/drawn*", "memory/announced*", "transfers/round_trip/*",
    "transfers/shapes/*", "*-variables-of-*", "history/digits*", "history/large_programs*",
    "history/same_memory*", "history/sources*", "errors/ends_of_index*",
)  # fmt: skip
# How many of the others are run, and how many turns the values come and go.
_ASKED, _TURNS, _COMPILED = 48, 24, 8
Rng = np.random.Generator


def contracts() -> list[Check]:
    """Return the contracts that take little time."""
    every: Sequence[Check] = [check for family in _FAMILIES for check in family.CHECKS]
    return [c for c in every if not any(fnmatchcase(c.name, p) for p in _LONG)]


def _can(info: Info, check: Check) -> bool:
    """Whether a device has what a check needs."""
    features = all(info.feature(f) for f in check.features)
    return features and all(info.dtypes.get(d) for d in check.dtypes)


def _ask(device: Device, rng: Rng, place: Place) -> None:
    """Run some of the contracts on a device, and raise what they find."""
    there = Place(device, device, place.seed)
    every = [c for c in contracts() if _can(device.info, c)]
    for number in rng.permutation(len(every))[: _ASKED if place.interpreted else _COMPILED]:
        check = every[number]
        try:
            with calor.device(device):
                check.run(there)
        except (AssertionError, CalorError) as error:
            raise AssertionError(f"{check.name} on {device.name}: {error}") from error
        finally:
            flush_all()


def _size(rng: Rng) -> int:
    """Return a number of elements: small, or about what one or two bytes count."""
    about = int(rng.choice([3, 63, 255, 256, 16_383, 16_384, 65_535, 65_536, 200_000]))
    return about + int(rng.integers(0, 3))


def _come_and_go(device: Device, rng: Rng) -> None:
    """Upload, compute, read and drop values of drawn sizes."""
    gc.collect()
    calor.synchronize(device)
    before = device.memory.in_use
    held: list[tuple[Any, Array]] = []
    with calor.device(device):
        for _ in range(_TURNS):
            turn = rng.random()
            if not held or turn < 0.4:
                array = rng.integers(-99, 99, _size(rng)).astype(np.float32)
                held.append((calor.asarray(array) + 1, array + 1))
            elif turn < 0.6:
                made, array = held[int(rng.integers(len(held)))]
                held.append((made - 2, array - 2))
            elif turn < 0.85:
                held.pop(int(rng.integers(len(held))))
            if held:
                made, array = held[int(rng.integers(len(held)))]
                calor.eval(made)
                off = int((made.numpy() != array).sum())
                assert not off, f"{off} of {array.size} elements on {device.name} are others"
        calor.eval(*(t for t, _ in held))
        most = sum(a.nbytes for _, a in held)
        gc.collect()
        calor.synchronize(device)
        there = device.memory.in_use - before
        assert most <= there <= 3 * most + (1 << 20), (
            f"{there} bytes are told on {device.name}, and {most} are held"
        )
        held.clear()
        del made
    flush_all()
    gc.collect()
    calor.synchronize(device)
    left = device.memory.in_use - before
    assert left <= 1024, f"{left} bytes are held on {device.name} by nobody"


class _First(Member):
    """The first member, which lacks ops that many contracts need."""

    def __init__(self, rng: Rng) -> None:
        names = ("mul", "tanh", "exp", "sum", "where", "dot_general", "sort", "cumsum")
        super().__init__("first", [n for n in names if rng.random() < 0.5])


def _routers(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 931])
    device = router([device_of(_First(rng), 0), device_of(Member("second"), 0)])
    _ask(device, rng, place)
    _come_and_go(device, rng)


def _limited(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 932])
    members = [device_of(_First(rng), 0), device_of(Member("second"), 0)]
    import_module(f"{ROUTER}.speeds").measure(members, (64 << 20, None))
    device = router(members, (64 << 20, None))
    _ask(device, rng, place)
    _come_and_go(device, rng)


def _served(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 933])
    try:
        calor.device(place.plain.name)
    except DeviceError:
        # A device that is in no registry has no name by which it could be served.
        return
    with import_module(f"{SERVED}.server.local").LocalServer(place.plain.name) as server:
        device = calor.device(f"{server.address}/{place.plain.name}")
        _ask(device, rng, place)
        _come_and_go(device, rng)
        for known in [d for d in local.traces if d.name.startswith("http://")]:
            del local.traces[known]
        import_module(SERVED).close(device)


_ROUTED: Final[dict[str, Callable[[Place], None]]] = {
    "contracts-of-a-router": _routers, "contracts-within-limits": _limited,
}  # fmt: skip


def contracts_of_devices() -> Iterator[Check]:
    """Yield the checks of each package that is installed."""
    yield from device_subjects(ROUTER, _ROUTED, CONTRACT)
    yield from device_subjects(SERVED, {"contracts-of-a-served-device": _served}, CONTRACT)
