"""What a status word says: the failure of a kernel, and the number that caused it.

Requirements: one word of 32 bits, which any unit may store, so that the number costs nothing where
nothing fails. The host makes the error of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from calor.errors import DeviceError, ElementIndexError

# The low bits of a word number the failure, from 1; the rest is a signed number, the detail.
_BITS: Final = 4
LAST_FAILURE: Final = (1 << _BITS) - 1
FIRST_DETAIL: Final = 1 << _BITS
MOST_DETAIL: Final = (1 << (31 - _BITS)) - 1


class Failure(NamedTuple):
    """An error that a kernel reports; ``{detail}`` in its message is the number in the word.

    ``axis`` and ``size``: the indexed axis of an index out of range, if it is known.
    """

    kind: type[DeviceError]
    message: str
    axis: int | None = None
    size: int | None = None


Failures = Mapping[int, tuple[Sequence[Failure], str]]
"""The errors and the op of each fallible task."""


def error_of(failures: Sequence[Failure], word: int, op: str | None) -> DeviceError:
    """Return the error that a word of an op reports.

    >>> made = Failure(ElementIndexError, "index {detail} is out of range", 0, 5)
    >>> error_of([made], 7 * FIRST_DETAIL + 1, "gather")
    ElementIndexError('index 7 is out of range for axis 0 of size 5')
    """
    # Words are read as int32 or as uint32.
    word = (word & 0xFFFFFFFF) - ((word & 0x80000000) << 1)
    kind, message, axis, size = failures[(word & LAST_FAILURE) - 1]
    detail = word >> _BITS
    shown = str(detail) if abs(detail) < MOST_DETAIL else f"{detail} or beyond"
    text = message.replace("{detail}", shown)
    if axis is not None:
        text += f" for axis {axis} of size {size}"
    if issubclass(kind, ElementIndexError):
        return kind(text, op=op, index=detail, axis=axis, size=size)
    return kind(text, op=op)
