"""The user's line: the innermost frame outside calor's own packages."""

from __future__ import annotations

import os
import sys

_OWN = os.path.dirname(os.path.abspath(__file__))
_SIBLING = f"{os.sep}calor_"


def user_line() -> str:
    """Return ``file:line`` of the code that called into calor."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(_OWN) and _SIBLING not in filename:
            return f"{filename}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "an unknown line"
