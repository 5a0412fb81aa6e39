"""Postponing Python's cyclic garbage collection while many long-lived objects are made.

Requirements: imports, traces and plans make tens of thousands of objects that all stay alive, and
each full collection then costs as much as planning a large network. Nothing is postponed for longer
than one of these takes, so a program that plans all the time is still collected.
"""

from __future__ import annotations

import gc
from types import TracebackType
from typing import Final

# What the first ones of a process make is taken for old at once: modules, devices, the first plans.
_FIRST: Final = 16


class collecting_later:
    """Put off looking for cyclic garbage in the body of a ``with`` statement.

    >>> import gc
    >>> with collecting_later():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """

    __slots__ = ("_was",)
    _ended = 0

    def __enter__(self) -> None:
        # Of nested ones, and of several threads, the first switches off, and it switches on again.
        self._was = gc.isenabled()
        gc.disable()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._was:
            return
        collecting_later._ended += 1
        if collecting_later._ended <= _FIRST:
            if gc.get_freeze_count():
                # Others freeze what is old. Their objects are counted one by one, so only once.
                collecting_later._ended = _FIRST
            else:
                # What was frozen for a moment is old, and nothing was looked through for that.
                gc.freeze()
                gc.unfreeze()
        gc.enable()
