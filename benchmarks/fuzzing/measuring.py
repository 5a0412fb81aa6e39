"""The measurement of one case, in the process of a worker."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

from fuzzing import checking, clocks
from fuzzing.cases import DTYPES, Sample, Work
from fuzzing.families import work_of
from fuzzing.families._common import library
from fuzzing.graphs import NotCaptured
from fuzzing.launch_floor import Launches, launches_of
from fuzzing.operands import array
from fuzzing.sides import HOSTS, Calor, CalorBeside, Side, Torch

# Bytes of all sets together: more than the caches of a GPU, and at most so many sets.
_CACHES, _SETS = 1.5e8, 6
# Seconds that the samples of one case take.
_BUDGET = 0.35
# Calls that tell how long one takes, roughly.
_TIMES = 8


@dataclass
class Measured:
    """What is known of a case; times in seconds.

    ``problem``: why there is no time: an error, or our wrong results. ``note``: what a reader of
    the times should know. ``launches``: of both sides, where both are devices of calor and the
    device's clock counted.
    """

    ours_s: float | None = None
    peer_s: float | None = None
    floor_s: float | None = None
    first_s: float | None = None
    problem: str = ""
    wrong: bool = False
    note: str = ""
    launches: Launches | None = None


def measure(
    sample: Sample,
    device: str,
    peer: str,
    turn: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Measured:
    """Return the times of a case by calor on a device and by a peer, after a check.

    ``turn``: a context in which this process alone measures, of those on a device.
    """
    work = work_of(sample)
    on_host = device.partition(":")[0] in HOSTS
    nbytes = work.nbytes(sample.dtype, sample.gradient)
    groups = 2 if on_host else max(2, min(_SETS, int(_CACHES / max(nbytes, 1))))
    measured = Measured(floor_s=floor(sample, work, device))
    ours = Calor(device, sample, work, groups)
    measured.first_s = ours.first_s
    theirs = _peer(peer, device, sample, work, groups)
    mine, others = ours.results(), theirs.results()
    near = checking.tolerance(sample, work, on_host)
    given = array(work.operands[0], 0) if work.checked == "picks" else mine[0]
    wrong, note = checking.problems(
        work, near, mine, others, _rounded(given, sample), lambda: _exact(theirs, sample, work),
        checking.single_of(sample, near),
    )  # fmt: skip
    measured.note = note
    if wrong:
        measured.problem, measured.wrong = wrong, True
        return measured
    with turn():
        times, why = _times(ours, theirs)
    measured.ours_s, measured.peer_s = times["ours"], times["peer"]
    measured.note = "; ".join(filter(None, (note, why)))
    if isinstance(theirs, CalorBeside) and not (ours.on_host or why):
        # A case is no failure if only the least launch has no clock.
        with turn(), suppress(NotCaptured):
            measured.launches = launches_of(ours, theirs)
    return measured


def _peer(peer: str, device: str, sample: Sample, work: Work, groups: int) -> Side:
    if peer == "torch":
        return Torch(device, sample, work, groups)
    return CalorBeside(peer.removeprefix("calor-"), sample, work, groups)


def _times(ours: Any, theirs: Any) -> tuple[dict[str, float], str]:
    """Return the seconds of both by the device's clock, or by the host's with the reason."""
    guess = _rough(theirs)
    captured = not ours.on_host
    if captured and isinstance(theirs, Torch) and (why := theirs.work.uncaptured):
        return _least(ours, theirs, guess, False), f"not captured: {why}"
    try:
        return _least(ours, theirs, guess, captured), ""
    except NotCaptured as error:
        return _least(ours, theirs, guess, False), f"not captured: {error}"


def _least(ours: Any, theirs: Any, guess: float, captured: bool) -> dict[str, float]:
    runners: dict[str, clocks.Runner] = {}
    try:
        for name, side in (("ours", ours), ("peer", theirs)):
            runners[name] = side.runner(guess, captured)
        return clocks.least(runners, _BUDGET)
    finally:
        for runner in runners.values():
            runner.close()


def _rough(side: Any) -> float:
    """Return the seconds of a call, roughly, after the first: they decide what a graph holds."""
    times = 1
    if isinstance(side, Calor):
        (call, *_) = side.calls()
        # Of one call the waiting would count too, and short calls would be too few.
        times = 1 if side.on_host else _TIMES
    else:
        call = lambda: side.call(side.sets[0])  # noqa: E731 - the shortest there is
    call()
    side.wait()
    begin = perf_counter()
    for _ in range(times):
        call()
    side.wait()
    return (perf_counter() - begin) / times


def _rounded(array: Any, sample: Sample) -> Any:
    """Return numbers as the case's dtype has them."""
    if DTYPES[sample.dtype] == "float32":
        return array
    ml_dtypes = library("ml_dtypes")
    kind = ml_dtypes.bfloat16 if sample.dtype == "bf16" else "float16"
    return array.astype(kind).astype("float32")


def _exact(side: Side, sample: Sample, work: Work) -> Any:
    if not isinstance(side, Torch):
        return None
    flops = work.flops * (3 if sample.gradient else 1)
    return side.exact() if flops <= checking.MOST_FLOPS else None


def floor(sample: Sample, work: Work, device: str) -> float | None:
    """Return the seconds that the device's measured bandwidth allows, and in float32 its flops."""
    try:
        ceilings = _ceilings(device)
    except Exception:
        return None
    nbytes = work.traffic(sample.dtype, sample.gradient)
    flops = work.flops * (3 if sample.gradient else 1)
    # Matrix units and half types compute faster by factors that are not measured here.
    counted = flops if sample.dtype == "f32" else 0.0
    return float(max(nbytes / ceilings.bandwidth, counted / ceilings.flops))


@cache
def _ceilings(device: str) -> Any:
    calor = library("calor")
    with calor.device(device) as found:
        backend = library("calor_kernel.runtime.backend")
        return backend.engine_of(found, "fuzzing").ceilings
