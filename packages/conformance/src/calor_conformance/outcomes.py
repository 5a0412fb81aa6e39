"""What came of a check on a device: passed, failed, or not asked of it, with the reason."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from typing import Literal

import calor
from calor.backends.protocol import Info, State, impossible
from calor.dtypes import DType
from calor.errors import CalorError, UnsupportedError
from calor.local import local
from calor.recording.trace import flush_all

from .checks.base import Check, Place

# ``not_run`` is what a time budget left over.
Outcome = Literal["passed", "failed", "impossible", "not_yet", "not_run"]
OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "impossible", "not_yet", "not_run")


@dataclass(frozen=True)
class Result:
    """One check's outcome; ``detail`` is the failure or the reason, ``seconds`` what it took."""

    name: str
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0


def excused(check: Check, info: Info) -> Result | None:
    """Return why a device need not answer a check, or None when it must."""
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
    # What can never be is the stronger excuse.
    what, state = min(missing, key=lambda pair: pair[1].level != "impossible")
    return _skipped(check, what, state)


def _dtype(info: Info, dtype: DType) -> State:
    return info.dtypes.get(dtype, impossible("the device does not name it"))


def _skipped(check: Check, what: str, state: State) -> Result:
    level: Outcome = "impossible" if state.level == "impossible" else "not_yet"
    return Result(check.name, level, f"{what} is {state}")


def run(check: Check, place: Place) -> Result:
    """Ask one check of a device."""
    excuse = excused(check, place.plain.info)
    if excuse is not None:
        return excuse
    start = time.perf_counter()
    outcome, detail = _asked(check, place)
    return Result(check.name, outcome, detail, time.perf_counter() - start)


def _asked(check: Check, place: Place) -> tuple[Outcome, str]:
    try:
        with calor.device(place.device):
            try:
                check.run(place)
            finally:
                clear()
    except UnsupportedError as error:
        return _refused(check, place, error)
    except (AssertionError, CalorError) as error:
        return "failed", _told(check, place, error)
    except Exception as error:
        # A backend that raises anything else has broken the contract of typed errors.
        last = traceback.format_exception(error)[-4:]
        return "failed", _told(check, place, error) + "\n" + "".join(last)
    return "passed", ""


def clear() -> None:
    """Leave no pending work behind, whatever became of it."""
    try:
        flush_all()
    except Exception:
        # What failed has been told, also where a backend raised no error of calor's.
        for trace in local.traces.values():
            trace.reset()


def _refused(check: Check, place: Place, error: UnsupportedError) -> tuple[Outcome, str]:
    """Tell a device that says it cannot from one that says it can and does not."""
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
    """Return the failure, the contract that it breaks, and the smallest case where one is known."""
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    lines = [f"{kind}{error}", f"Contract: {check.contract}."]
    if check.explain is not None:
        try:
            lines.append(check.explain(place))
        except Exception as failure:
            lines.append(f"(no smaller case: {type(failure).__name__}: {failure})")
    return "\n".join(lines)
