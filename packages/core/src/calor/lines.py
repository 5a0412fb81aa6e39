"""The user's line: the innermost frame outside calor's own packages."""

from __future__ import annotations

import os
import sys
from types import FrameType

_OWN = os.path.dirname(os.path.abspath(__file__))
_SIBLING = f"{os.sep}calor_"


def user_frame() -> FrameType | None:
    """Return the frame of the code that called into calor, None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(_OWN) and _SIBLING not in filename:
            return frame
        frame = frame.f_back
    return None


def user_line() -> str:
    """Return ``file:line`` of the code that called into calor."""
    frame = user_frame()
    if frame is None:
        return "an unknown line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
