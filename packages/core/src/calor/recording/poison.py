"""The stand-in for a value that could not be computed, and errors that keep no memory alive.

Requirements: an error lives as long as a value that it poisoned. So it must not hold the operands
and results in the frames that it passed through: on a device that ran out of memory, they are the
memory. Nor may each read of the value add its own frames.
"""

from __future__ import annotations

import copy

from calor.errors import CalorError


class Poison:
    """Stands where a pending value's trace would be when the plan that should make it failed."""

    __slots__ = ("error",)

    aside = False
    jit = False

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def again(self) -> BaseException:
        """Return the error to raise at a look: a copy, since what is raised gathers frames."""
        error = self.error
        try:
            made = copy.copy(error)
        except Exception:
            # An error of a backend that cannot be made from its arguments.
            return error
        made.__cause__ = error.__cause__
        made.__suppress_context__ = error.__suppress_context__
        return made


def settle(error: BaseException) -> None:
    """Make a caught error, and those that it comes from, forget the frames that they went through.

    A frame holds its operands, and those of all its callers. Where an error is not calor's own, and
    so tells of a defect, the lines of its frames stay as a note.
    """
    # Imported where something went wrong, so that ``import calor`` stays quick.
    import traceback

    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        waiting += [found.__cause__, found.__context__]
        if found.__traceback__ is not None and not isinstance(found, CalorError):
            found.add_note("".join(traceback.format_tb(found.__traceback__)).rstrip())
        found.__traceback__ = None
