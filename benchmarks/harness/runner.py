"""Run the cases of a suite beside the peers that the user named."""

import gc
import importlib
import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from harness.cases import Call, Case
from harness.timing import interleaved

PACKAGES = {
    "torch": "torch",
    "cupy": "cupy-cuda13x",
    "jax": "jax",
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
}


# A peer of this name and a device's is calor there: `calor-cuda`.
OURS = "calor-"


class BenchmarkError(Exception):
    """The run cannot start; the message says what to do."""


@dataclass(frozen=True)
class Row:
    """One case beside one peer, times in seconds; a ratio above 1 means that calor is faster."""

    suite: str
    case: str
    device: str
    peer: str | None
    ours_s: float
    peer_s: float | None
    ratio: float | None
    floor_s: float | None


@dataclass
class Result:
    """What a run found."""

    rows: list[Row] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)

    def means(self) -> dict[str, float]:
        """The geometric mean of the ratios, by peer."""
        ratios: dict[str, list[float]] = {}
        for row in self.rows:
            if row.peer is not None and row.ratio is not None:
                ratios.setdefault(row.peer, []).append(row.ratio)
        return {
            peer: math.exp(sum(map(math.log, values)) / len(values))
            for peer, values in ratios.items()
        }


def devices_beside(peers: Sequence[str]) -> dict[str, str]:
    """The devices of calor among the peers, by the peers' names."""
    return {peer: peer.removeprefix(OURS) for peer in peers if peer.startswith(OURS)}


def load_suite(
    name: str, device: str, peers: Sequence[str] = (), only: Sequence[str] = ()
) -> list[Case]:
    """The cases of a suite on a device, beside the same cases on others of calor's.

    ``only`` takes the cases with one of these texts in their names, where there are any.
    """
    module = importlib.import_module(f"suites.{name}")
    cases: list[Case] = list(module.cases(device))
    names = [case.name for case in cases]
    if len(set(names)) != len(names):
        raise BenchmarkError(f'suite "{name}" has two cases of one name')
    cases = [c for c in cases if not only or any(text in c.name for text in only)]
    if not cases:
        raise BenchmarkError(f'no case of suite "{name}" has in its name: {", ".join(only)}')
    for peer, other in devices_beside(peers).items():
        there = {case.name: case.ours for case in module.cases(other)}
        cases = [
            replace(c, peers={**c.peers, peer: there[c.name]}) if c.name in there else c
            for c in cases
        ]
    return cases


def require_peers(peers: Sequence[str]) -> None:
    """Raise BenchmarkError for a peer that is unknown or not installed, or a device without it."""
    ours = devices_beside(peers)
    unknown = [peer for peer in peers if peer not in PACKAGES and peer not in ours]
    if unknown:
        known = ", ".join([*sorted(PACKAGES), f"{OURS}DEVICE"])
        raise BenchmarkError(f'no peer "{unknown[0]}"; known: {known}')
    missing = [
        peer for peer in peers if peer in PACKAGES and importlib.util.find_spec(peer) is None
    ]
    if missing:
        packages = " ".join(PACKAGES[peer] for peer in missing)
        raise BenchmarkError(f"not installed: {', '.join(missing)}. pip install {packages}")
    for device in ours.values():
        open_device(device)


def open_device(name: str) -> str:
    """What a device of calor says that it is; BenchmarkError where there is none."""
    import calor

    try:
        return calor.device(name).info.description
    except calor.errors.CalorError as error:
        raise BenchmarkError(str(error)) from error


def run_suite(
    suite: str,
    cases: Sequence[Case],
    device: str,
    peers: Sequence[str],
    repeats: int,
    told: Callable[[Result, Sequence[Row]], None] = lambda result, rows: None,
) -> Result:
    """Measure every case; the result names those that fail, lack a peer or disagree with one.

    ``told`` is called after each case with what was found so far, and the rows that are new.
    """
    result = Result()
    frozen = gc.get_freeze_count()
    try:
        for number, case in enumerate(cases):
            before = len(result.rows)
            try:
                run_case(result, suite, case, device, peers, repeats)
            except Exception as error:
                # The other cases are worth their time.
                result.failures.append(f"{case.name}: {type(error).__name__}: {error}")
            told(result, result.rows[before:])
            if not number:
                # The libraries are there now: what they hold is not looked through before each
                # sample, which takes longer than the sample.
                gc.collect()
                gc.freeze()
    finally:
        # What the caller froze stays frozen.
        if not frozen:
            gc.unfreeze()
    return result


def run_case(
    result: Result, suite: str, case: Case, device: str, peers: Sequence[str], repeats: int
) -> None:
    calls: dict[str, Call] = {"calor": case.ours()}
    for peer in peers:
        if peer in case.peers:
            calls[peer] = case.peers[peer]()
        else:
            result.not_run.append(f"{case.name} beside {peer}: the suite has no such peer")
    for peer, problem in disagreements(case, calls).items():
        result.disagreements.append(f"{case.name} beside {peer}: {problem}")
        del calls[peer]
    samples = interleaved(calls, repeats, case.inner, awake=case.awake)
    seconds = {name: value / case.units for name, value in samples.items()}
    floor = case.floor() if case.floor is not None else None
    ours = seconds.pop("calor")
    for peer, theirs in seconds.items():
        row = Row(suite, case.name, device, peer, ours, theirs, theirs / ours, floor)
        result.rows.append(row)
    if not seconds:
        result.rows.append(Row(suite, case.name, device, None, ours, None, None, floor))


def disagreements(case: Case, calls: dict[str, Call]) -> dict[str, str]:
    """What is wrong with the peers' results, in one line each; the calls also warm everybody up."""
    results = {name: call() for name, call in calls.items()}
    ours = results.pop("calor")
    problems = {}
    for peer, theirs in results.items():
        try:
            case.check(ours, theirs)
        except AssertionError as error:
            problems[peer] = " ".join(str(error).split())[:200] or "the results differ"
    return problems
