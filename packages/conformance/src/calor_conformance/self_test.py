"""The self-test: the suite catches each broken backend with the checks of the broken feature.

Requirements: each fault runs few checks, so that all faults take a minute: the checks of its ops
and the contracts. Searches do not count, because they find a fault only by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache

from calor.backends.device import device_of, known_devices
from calor.backends.protocol import Backend
from calor.dtypes import ALL
from calor.local import local

from . import outcomes, suite
from .checks.base import Check, Place
from .collecting import quick_collections
from .faults import FAULTS
from .faults.base import Fault
from .outcomes import Result

# Kinds of checks without an op, which run on every broken backend.
CONTRACTS = (
    "errors", "features", "graphs", "history", "memory", "random", "sizes", "state", "threads",
    "transfers",
)  # fmt: skip
# Contracts of seconds, which run on the backends that they have to catch.
LONG = ("memory/process_*", "memory/tables_*", "*_of_any_size*", "history/*_change",
        "history/same_memory_other_numbers")  # fmt: skip
# Kinds that no fault runs for its ops, because a search may not find the fault again.
SEARCHES = ("properties",)


@dataclass(frozen=True)
class Finding:
    """Result for a fault: the failed checks, and the fault's patterns without one."""

    fault: Fault
    seed: int
    failed: tuple[str, ...]

    @property
    def unmet(self) -> tuple[str, ...]:
        """The patterns of the fault that match no failed check."""
        return tuple(p for p in self.fault.caught_by if not any(_fits(n, p) for n in self.failed))

    @property
    def first(self) -> str:
        """The first failed check that the fault names, else the first failed one."""
        named = (n for n in self.failed if any(_fits(n, p) for p in self.fault.caught_by))
        return next(named, self.failed[0] if self.failed else "")


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern)


def asked(fault: Fault) -> list[Check]:
    """Return the checks for a fault: contracts, and checks of its ops in its dtypes."""
    tails = {pattern.rpartition("/")[2] for pattern in fault.caught_by}
    dtypes = [None, *([d for d in ALL if d.name in tails] or ALL)]
    about = [c for op in fault.ops for c in _by_op()[op] if c.dtype in dtypes]
    contracts = (c for c in _by_op()[""] if c.kind in CONTRACTS)
    long = _long()
    return [*(c for c in contracts if c.name not in long or _names(fault, c)), *about]


def named(fault: Fault) -> list[Check]:
    """Return the checks of a fault that it names: those that have to catch it."""
    return [c for c in asked(fault) if _names(fault, c)]


def _names(fault: Fault, check: Check) -> bool:
    return any(_fits(check.name, p) for p in fault.caught_by)


@cache
def _long() -> frozenset[str]:
    """Return the names of contracts of seconds."""
    return frozenset(c.name for c in _by_op()[""] if any(_fits(c.name, p) for p in LONG))


@cache
def _by_op() -> Mapping[str, list[Check]]:
    found: dict[str, list[Check]] = {}
    for check in suite.checks().values():
        if check.kind not in SEARCHES:
            found.setdefault(check.op, []).append(check)
    return found


def results(backend: Backend, checks: Sequence[Check], seed: int = 0) -> list[Result]:
    """Return the outcomes of checks on an unregistered backend."""
    with _known(backend) as place:
        at = replace(place, seed=seed)
        # Without a search for the smallest case: only failures count.
        return [outcomes.run(replace(c, explain=None), at) for c in checks]


@contextmanager
def _known(backend: Backend) -> Iterator[Place]:
    device = device_of(backend, 0)
    try:
        with quick_collections():
            yield Place(device, device)
    finally:
        _forget(backend)


def _forget(backend: Backend) -> None:
    """Remove a broken backend's device and proxy from the caches."""
    for key, device in list(known_devices.items()):
        if backend in (device.backend, getattr(device.backend, "inner", None)):
            del known_devices[key]
            local.traces.pop(device, None)


def find(fault: Fault, seed: int = 0, checks: Sequence[Check] | None = None) -> Finding:
    """Run the checks of a fault, or these, on its backend."""
    made = results(fault.make(), asked(fault) if checks is None else checks, seed)
    return Finding(fault, seed, tuple(r.name for r in made if r.outcome == "failed"))


def findings(seeds: int = 1) -> Iterator[Finding]:
    """Yield the finding of each fault with each seed."""
    for fault in FAULTS:
        for seed in range(seeds):
            yield find(fault, seed)


def line(finding: Finding) -> str:
    """Return one line about a finding: the fault, the number of failed checks and the first."""
    seed = f" (seed {finding.seed})" if finding.seed else ""
    text = f"{finding.fault.name + seed:40} {len(finding.failed):4}  {finding.first}"
    if finding.unmet:
        text += f"\n  NOT CAUGHT by {', '.join(finding.unmet)}: {finding.fault.about}"
    return text.rstrip()
