"""Which failures happen next: at an op, a given number of times.

``with inject("lost", "exp"):`` chooses one for a while, CALOR_BRITTLE for a process:
``CALOR_BRITTLE=out_of_memory:exp,compile:tanh``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final, Literal, get_args

Kind = Literal["out_of_memory", "compile", "lost"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
VARIABLE: Final = "CALOR_BRITTLE"


@dataclass
class Fault:
    """A failure at an op: after ``skip`` good runs of it, ``times`` times (None: from then on)."""

    kind: Kind
    op: str
    skip: int = 0
    times: int | None = None
    happened: int = 0

    def strikes(self) -> bool:
        """Count one run of the op, and return whether it fails."""
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None and self.happened >= self.times:
            return False
        self.happened += 1
        return True


class Faults:
    """The failures that are still to come."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.waiting: list[Fault] = list(_parsed(environment.get(VARIABLE, "")))
        self._lock = Lock()

    def strikes(self, kind: Kind, op: str) -> bool:
        """Return whether an op fails now in some way."""
        with self._lock:
            # Each of them counts the run, also behind one that strikes.
            struck = [f.strikes() for f in self.waiting if (f.kind, f.op) == (kind, op)]
            return any(struck)


def _parsed(text: str) -> Iterator[Fault]:
    for part in filter(None, text.split(",")):
        kind, _, op = part.partition(":")
        if kind not in KINDS or not op:
            known = ", ".join(f"{k}:OP" for k in KINDS)
            raise ValueError(f"{VARIABLE} has {part!r}; what can be asked for: {known}")
        yield Fault(kind, op)


FAULTS: Final = Faults(os.environ)


@contextmanager
def inject(kind: Kind, op: str, *, skip: int = 0, times: int | None = None) -> Iterator[Fault]:
    """Let an op fail as long as the context lasts."""
    fault = Fault(kind, op, skip, times)
    FAULTS.waiting.append(fault)
    try:
        yield fault
    finally:
        FAULTS.waiting.remove(fault)
