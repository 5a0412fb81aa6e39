"""The least time of a launch on a device, and ratios without it.

Requirements: drivers differ in the time between dependent launches, which no kernel changes. So
the launches of both sides are counted, and the least launch is timed by the clock that times the
cases: calls of one value that is added to, in a queue or a graph as a case's calls are. What
remains of a case without its launches tells how fast the kernels are; the peer's kernels between
launches of here tell how far the launches alone keep a device from its peer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fuzzing.cases import Operand, Sample, Work
from fuzzing.clocks import least
from fuzzing.families._common import library
from fuzzing.sides import Calor

# What remains of a case is at least this part of the dearer launch: less is the clock's noise.
_LEAST = 0.1
_SECONDS = 0.1  # of the samples of a floor
# The least launch reads a value and writes one; its sets of operands take turns as a case's do.
_ONE = Work((Operand((1,)),), lambda x: x + 1.0, lambda x: x + 1.0, (1,))
_CASE = Sample("launch", "f32", False, {})


@dataclass(frozen=True)
class Launches:
    """The launches of a call of each side, and the seconds of the least launch of each."""

    ours: int
    peer: int
    ours_s: float
    peer_s: float

    def ratio(self, ours_s: float, peer_s: float) -> float:
        """Return the ratio of what remains of both times without the launches.

        >>> launches = Launches(ours=1, peer=1, ours_s=3e-6, peer_s=1e-6)
        >>> round(launches.ratio(13e-6, 9e-6), 3)
        0.8
        >>> launches.ratio(3e-6, 1e-6)
        1.0
        """
        nothing = _LEAST * max(self.ours_s, self.peer_s)
        ours = max(ours_s - self.ours * self.ours_s, nothing)
        return max(peer_s - self.peer * self.peer_s, nothing) / ours

    def bound(self, peer_s: float) -> float:
        """Return the ratio if the peer's kernels ran here, as many, between launches of here.

        >>> Launches(ours=2, peer=1, ours_s=3e-6, peer_s=1e-6).bound(2e-6)
        0.5
        """
        return peer_s / (peer_s + self.peer * (self.ours_s - self.peer_s))


def launches_of(ours: Calor, theirs: Calor) -> Launches:
    """Return the launches of a case whose both sides are devices of calor."""
    floors = least_launch(ours.device), least_launch(theirs.device)
    return Launches(count(ours), count(theirs), *floors)


def count(side: Calor) -> int:
    """Return the launches of a call."""
    (call, *_) = side.calls()
    with library("calor_kernel").profile(side.device) as profile:
        call()
    return len(profile.events)


@cache
def least_launch(device: str) -> float:
    """Return the seconds of the least launch on a device, between others that wait for each other.

    Raises
    ------
    NotCaptured
        If the device's launches have no clock.
    """
    runner = Calor(device, _CASE, _ONE, 2).runner(0.0, captured=True)
    try:
        return least({device: runner}, _SECONDS)[device]
    finally:
        runner.close()


def without_launches(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a row with the ratio without its launches; None if they were not counted."""
    if row.get("launches") is None:
        return None
    return {**row, "ratio": Launches(**row["launches"]).ratio(row["ours_s"], row["peer_s"])}


def with_equal_kernels(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a row with the ratio that the peer's kernels would have here; None as above."""
    if row.get("launches") is None:
        return None
    return {**row, "ratio": Launches(**row["launches"]).bound(row["peer_s"])}
