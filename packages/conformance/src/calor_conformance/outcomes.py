"""The outcome of a check on a device: passed, failed, or skipped with a reason."""

from __future__ import annotations

import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import calor
from calor.backends.protocol import Info, State, impossible
from calor.dtypes import DType
from calor.errors import CalorError, UnsupportedError
from calor.local import local
from calor.recording.trace import flush_all

from .checks.base import Check, Place
from .watchdog import UNWATCHED, Watchdog

# ``not_run``: the check was beyond the time budget.
Outcome = Literal["passed", "failed", "impossible", "not_yet", "not_run"]
OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "impossible", "not_yet", "not_run")


@dataclass(frozen=True)
class Result:
    """The outcome of one check.

    Parameters
    ----------
    name : str
        Name of the check.
    outcome : {"passed", "failed", "impossible", "not_yet", "not_run"}
        "impossible" and "not_yet" are declarations of the device; "not_run" exceeded the time
        budget.
    detail : str, default ""
        The failure or the reason.
    seconds : float, default 0.0
        Duration in seconds.
    """

    name: str
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0


def excused(check: Check, info: Info) -> Result | None:
    """Return the result of a check that the device need not pass, or None.

    Parameters
    ----------
    check : Check
        The check.
    info : Info
        The declarations of the device.

    Returns
    -------
    Result or None
        An outcome "impossible" or "not_yet" if the device declares that it lacks a needed feature,
        dtype or op.
    """
    states = [(f"feature {f}", info.feature(f)) for f in check.features]
    states += [(d.name, _dtype(info, d)) for d in check.dtypes]
    if check.op and check.dtype is not None:
        states.append((f"{check.op} in {check.dtype.name}", info.supports(check.op, check.dtype)))
    most = info.limits.get("max_buffer_bytes")
    if most is not None and check.nbytes > most:
        states.append((f"an array of {check.nbytes} bytes", impossible(f"at most {most} fit")))
    if check.looks and info.feature("interactive").level == "impossible":
        states.append(("a look at pending work", info.feature("interactive")))
    missing = [(what, state) for what, state in states if not state]
    if not missing:
        return None
    # "impossible" is the stronger excuse.
    what, state = min(missing, key=lambda pair: pair[1].level != "impossible")
    return _skipped(check, what, state)


def _dtype(info: Info, dtype: DType) -> State:
    return info.dtypes.get(dtype, impossible("the device does not name it"))


def _skipped(check: Check, what: str, state: State) -> Result:
    level: Outcome = "impossible" if state.level == "impossible" else "not_yet"
    return Result(check.name, level, f"{what} is {state}")


def run(check: Check, place: Place, watchdog: Watchdog = UNWATCHED) -> Result:
    """Run one check on a device.

    Parameters
    ----------
    check : Check
        The check.
    place : Place
        The device and the seed.
    watchdog : Watchdog, default UNWATCHED
        Limits the time of the check.

    Returns
    -------
    Result
        The outcome. Errors of the device are failures, never exceptions.
    """
    excuse = excused(check, place.plain.info)
    if excuse is not None:
        return excuse
    start = time.perf_counter()
    outcome, detail = _asked(check, place, watchdog)
    return Result(check.name, outcome, detail, time.perf_counter() - start)


def _asked(check: Check, place: Place, watchdog: Watchdog) -> tuple[Outcome, str]:
    try:
        with calor.device(place.device):
            try:
                with watchdog.watched(check.name):
                    _settle(place)
                    check.run(place)
            finally:
                clear()
    except UnsupportedError as error:
        return _refused(check, place, error)
    except (AssertionError, CalorError) as error:
        if watchdog.fired:
            return "failed", _hung(check, error)
        return "failed", _told(check, place, error)
    except Exception as error:
        if watchdog.fired:
            return "failed", _hung(check, error)
        # Any other error of a backend breaks the contract of typed errors.
        last = traceback.format_exception(error)[-4:]
        return "failed", _told(check, place, error) + "\n" + "".join(last)
    return "passed", ""


def _hung(check: Check, error: Exception) -> str:
    """Return what is told of a check that got an alarm; a smaller case might hang once more."""
    return f"{error}\nContract: {check.contract}."


def _settle(place: Place) -> None:
    """Wait for what the checks before have queued; an error that nobody read is not this one's."""
    with suppress(CalorError):
        calor.synchronize(place.device)


def clear() -> None:
    """Discard pending work, whatever its state."""
    try:
        flush_all()
    except Exception:
        # The failure is reported already, even if a backend raised an untyped error.
        for trace in local.traces.values():
            trace.reset()


def _refused(check: Check, place: Place, error: UnsupportedError) -> tuple[Outcome, str]:
    """Return the outcome of an UnsupportedError: a declared gap, or a broken declaration."""
    info = place.plain.info
    if not error.refused:
        return "failed", _told(check, place, error)
    outcome: Outcome = "impossible"
    for op, names, reason in error.refused:
        dtypes = [d for d in calor.dtypes.ALL if d.name in names]
        states = [info.supports(op, d) for d in dtypes]
        if any(s.level == "impossible" for s in states):
            continue
        explicit = [info.ops.get((op, d), info.ops.get(op)) for d in dtypes]
        if any(s is not None and s.level == "full" for s in explicit):
            told = f"info says that {op} is full, and claim refuses it: {reason}"
            return "failed", _told(check, place, AssertionError(told))
        outcome = "not_yet"
    reasons = dict.fromkeys(f"{op}: {reason}" for op, _, reason in error.refused)
    return outcome, "; ".join(reasons)


def _told(check: Check, place: Place, error: BaseException) -> str:
    """Return the failure, the broken contract, and the smallest failing case if one is known."""
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    lines = [f"{kind}{error}", f"Contract: {check.contract}."]
    if check.explain is not None:
        try:
            lines.append(check.explain(place))
        except Exception as failure:
            lines.append(f"(no smaller case: {type(failure).__name__}: {failure})")
    return "\n".join(lines)
