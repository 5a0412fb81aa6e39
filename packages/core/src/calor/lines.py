"""The user's line: the innermost frame outside calor's own packages."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

# Whether a file is calor's own, by its name.
_known: dict[str, bool] = {}
_OWN = os.path.dirname(os.path.abspath(__file__))
_SIBLING = f"{os.sep}calor_"
# How many names are remembered.
_FILES = 4096


def is_own(filename: str) -> bool:
    """Return whether a file is one of calor's own packages."""
    found = _known.get(filename)
    if found is None:
        if len(_known) >= _FILES:
            _known.clear()
        found = _known[filename] = filename.startswith(_OWN) or _SIBLING in filename
    return found


def line_of(code: CodeType, at: int) -> str:
    """Return ``file:line`` of an instruction, ``at`` as a frame's ``f_lasti`` tells it."""
    spans = code.co_lines()
    line = next((n for start, end, n in spans if start <= at < end and n), code.co_firstlineno)
    return f"{code.co_filename}:{line}"


def user_frame() -> FrameType | None:
    """Return the frame of the code that called into calor, None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_own(filename):
            return frame
        frame = frame.f_back
    return None


def user_line() -> str:
    """Return ``file:line`` of the code that called into calor."""
    frame = user_frame()
    if frame is None:
        return "an unknown line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
