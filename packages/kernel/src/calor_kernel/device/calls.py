"""Data for a device that compiles bound calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.backends.calls import BoundCall


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """Scratch memory of a run: the last item of a list of integer handles, returned afterwards.

    ``words``: byte offsets of 32-bit words that are zero. If a run leaves another value in one, its
    result is dropped, and the call is repeated in Python, where it fails.
    """

    idle: list[Any]
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NativeCall(BoundCall):
    """A call for compilation, whose ``operands`` lead to handles.

    ``recorded`` is a recorded list. It runs with the handles of the operands numbered by ``slots``,
    then the handles ``fixed`` (some may be those of ``scratch``), then the handle of the result,
    which is the last item of ``idle``, a list of integer handles. The first field of ``made`` holds
    it. The ``in_use`` of ``pool`` grows by ``nbytes``; the call is refused if ``in_use`` plus
    ``required`` would exceed the pool's ``ceiling``.
    """

    slots: tuple[int, ...]
    fixed: tuple[Any | Scratch, ...]
    scratch: tuple[Scratch, ...]
    recorded: Any
    pool: Any
    idle: list[Any]
    nbytes: int
    required: int
