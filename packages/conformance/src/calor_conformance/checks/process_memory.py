"""The memory of the process beside the device's figures: what a driver keeps and does not count.

The resident size of the process is read before and after many rounds of work. A device whose
figures stay and whose process grows keeps something for each call, upload or graph.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import calor

from ..collecting import quick_collections
from .base import Place, compiled, plain_array
from .contract import Contracts
from .memory import in_use

contract = Contracts("memory")
ROUNDS = 120
TIMES = 3
# An allocator may keep pages; what grows by so much is kept for each round.
_ALLOWED = 3 << 20
_STATM = Path("/proc/self/statm")


def resident() -> int | None:
    """Return the resident bytes of this process; None where the system does not tell."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _trim() -> None:
    """Give the free pages of the process's heap back: what takes them again is seen as growth."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def _flat(
    place: Place, work: Callable[[int], Any], rounds: int = ROUNDS, allowed: int = _ALLOWED
) -> None:
    """Raise AssertionError if rounds of work grow the process by more than the device's figures."""
    with quick_collections():
        for n in range(rounds // 2):
            work(n)
        _trim()
        # What is kept for each round grows every time; a heap that finds its size does not.
        more, grown = min(_growth(place, work, rounds * (k + 1), rounds) for k in range(TIMES))
    assert more <= allowed, (
        f"{rounds} rounds made the process {more} bytes larger, {more // rounds} each, and "
        f"memory() counts {grown}"
    )


def _growth(place: Place, work: Callable[[int], Any], first: int, rounds: int) -> tuple[int, int]:
    """Return how much more the process grows than the figures, and how much they grow."""
    used, before = in_use(place), resident()
    if before is None:
        return 0, 0
    for n in range(rounds):
        work(first + n)
    grown = in_use(place) - used
    gc.collect()
    return (resident() or before) - before - max(grown, 0), grown


@contract("calls keep no memory of the host that the figures do not count", tier="full")
def process_stays_small_over_calls(place: Place) -> None:
    x = calor.asarray(plain_array(np.ones(1500)))
    step = calor.jit(lambda x: (x * 2, calor.sum(x)))
    _flat(place, lambda n: step(x)[1].numpy())


@contract("transfers keep no memory of the host that the figures do not count", tier="full",
          looks=False)  # fmt: skip
def process_stays_small_over_transfers(place: Place) -> None:
    array = plain_array(np.ones(20_000))
    _flat(place, lambda n: calor.asarray(array).numpy().sum())


@contract("sizes that come and go keep no memory of the host", tier="full", looks=False)
def process_stays_small_over_sizes(place: Place) -> None:
    def work(n: int) -> None:
        calor.asarray(plain_array(np.ones((n * 7919) % 100_000 + 1))).numpy()

    _flat(place, work)


@contract("graphs that have died keep no memory of the host", tier="full", looks=False)
def process_stays_small_over_graphs(place: Place) -> None:
    def work(n: int) -> None:
        x = calor.asarray(plain_array(np.ones(n % 50 + 1)))
        executable = compiled(place, calor.trace(lambda x: x * 2 + x, x))
        executable([place.plain.backend.upload(place.plain.index, plain_array(np.ones(x.shape)))])

    _flat(place, work, 60)


@contract(
    "memory that the device gave back does not stay in the process", tier="full",
    features=("memory_limit",), looks=False,
)  # fmt: skip
def process_stays_small_over_limits(place: Place) -> None:
    backend, index = place.plain.backend, place.plain.index
    most = place.plain.info.limits.get("max_buffer_bytes", 1 << 40)
    array = plain_array(np.ones(1 << 20))
    if array.nbytes > most:
        return

    def work(n: int) -> None:
        calor.asarray(array[: (1 << 19) + 1024 * (n % 17)]).numpy()
        before = place.plain.memory.limit
        # A device returns idle memory to the system when the limit is below what it holds.
        backend.set_memory_limit(index, in_use(place) + 1024)
        backend.set_memory_limit(index, before)

    # What is kept each time is two mebibytes or more.
    _flat(place, work, 30, 8 * _ALLOWED)


CHECKS = contract.checks
