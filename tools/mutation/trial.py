"""A mutant before the checks: in a child of the process, within a limit of time and memory."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .drawing import Mutant
from .planting import Planted
from .reach import Reach

# Bytes that a child may take beyond what its parent has.
_ROOM: Final = 6 << 30
# A child may take so much longer than its processor time, and so many seconds more.
_PATIENCE: Final = 8.0, 20.0


@dataclass(frozen=True)
class Trial:
    """What became of a mutant.

    Parameters
    ----------
    mutant : Mutant
        The mutant.
    outcome : str
        "named": a check fails. "survived": none that ran does. "unreached": none of them comes to
        the place. "untold": no check of the record enters the function.
    checks : tuple of str
        The checks that fail, or else those that ran.
    detail : str, default ""
        What the first failing check says.
    seconds : float, default 0.0
        Processor time of the child.
    """

    mutant: Mutant
    outcome: str
    checks: tuple[str, ...] = ()
    detail: str = ""
    seconds: float = 0.0


def asked(reach: Reach, functions: Sequence[str], seconds: float) -> list[str]:
    """Return checks that enter functions, of all kinds in turn, the cheap ones of each first.

    Parameters
    ----------
    reach : Reach
        The record.
    functions : sequence of str
        Names of functions in it.
    seconds : float
        Processor time that the checks may take together.

    Returns
    -------
    list of str
        The names of checks; at least one of each kind that fits.
    """
    kinds: dict[str, list[int]] = defaultdict(list)
    for n in reach.of(functions):
        kinds[reach.checks[n].partition("/")[0]].append(n)
    queues = [sorted(found, key=lambda n: reach.seconds[n]) for _, found in sorted(kinds.items())]
    made, left = [], seconds
    for n in _in_turn(queues):
        if reach.seconds[n] <= left:
            left -= reach.seconds[n]
            made.append(reach.checks[n])
    return made


def _in_turn(queues: list[list[int]]) -> Iterator[int]:
    for place in range(max(map(len, queues), default=0)):
        for queue in queues:
            if place < len(queue):
                yield queue[place]


# Runs checks and yields the name of each, and what it says where it fails.
Ask = Callable[[Sequence[str]], Iterator[tuple[str, str | None]]]


def tried(
    mutant: Mutant,
    change: Planted,
    checks: Sequence[str],
    ask: Ask,
    seconds: float,
    forget: Sequence[Callable[[], None]] = (),
) -> Trial:
    """Ask checks about a mutant in a child of this process.

    Parameters
    ----------
    mutant : Mutant
        The mutant.
    change : Planted
        What it changes.
    checks : sequence of str
        Names of checks, in the order in which they run.
    ask : callable
        Runs checks.
    seconds : float
        Processor time after which no further check begins.
    forget : sequence of callable
        What empties caches that were filled before.

    Returns
    -------
    Trial
        The outcome. A child that crashes or does not end has named the fault.
    """
    if not checks:
        return Trial(mutant, "untold")
    source, drain = os.pipe()
    child = os.fork()
    if not child:
        os.close(source)
        _child(change, checks, ask, seconds, forget, drain)
    os.close(drain)
    said, ended = _heard(child, source, _PATIENCE[0] * seconds + _PATIENCE[1])
    lines = [json.loads(line) for line in said.splitlines() if line.endswith(b"}")]
    last: dict[str, Any] = lines[-1] if lines else {}
    ran = tuple(line["check"] for line in lines if "check" in line)
    spent = float(last.get("seconds", 0.0))
    wrong = [line for line in lines if line.get("wrong") is not None]
    if wrong:
        return Trial(
            mutant, "named", tuple(line["check"] for line in wrong), wrong[0]["wrong"], spent
        )
    if not ended or "reached" not in last:
        why = "the process ends" if ended else "it does not end"
        return Trial(mutant, "named", (checks[min(len(ran), len(checks) - 1)],), why, spent)
    outcome = "survived" if last["reached"] else "unreached"
    return Trial(mutant, outcome, ran, "", spent)


def _child(
    change: Planted,
    checks: Sequence[str],
    ask: Ask,
    seconds: float,
    forget: Sequence[Callable[[], None]],
    drain: int,
) -> None:
    status = 1
    try:
        os.setsid()
        _limited()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        reached = [not change.tells]
        for clear in forget:
            clear()
        change.plant(lambda: reached.__setitem__(0, True))
        begin = time.process_time()
        for name, wrong in ask(checks):
            spent = time.process_time() - begin
            line = {"check": name, "wrong": wrong, "seconds": spent}
            os.write(drain, json.dumps(line).encode() + b"\n")
            if wrong is not None or spent > seconds:
                break
        last = {"reached": reached[0], "seconds": time.process_time() - begin}
        os.write(drain, json.dumps(last).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def _limited() -> None:
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
        most = pages * resource.getpagesize() + _ROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _heard(child: int, source: int, patience: float) -> tuple[bytes, bool]:
    """Return what a child wrote, and whether it ended by itself."""
    end, parts, ended = time.monotonic() + patience, [], False
    while not ended:
        left = end - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            break
        part = os.read(source, 1 << 16)
        parts.append(part)
        ended = not part
    os.close(source)
    if not ended:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return b"".join(parts), ended
