"""New checks do not decide at once: for the minor release that brings one, it is only reported.

A vendor who passed yesterday must not fail today because the suite learned something. So a new row
or check says since which release it is there, and counts from the next minor release on.
"""

from __future__ import annotations

import re

import calor


def provisional(since: str, version: str | None = None) -> str:
    """Return the release that brought a check while it is only reported, "" from then on.

    >>> provisional("0.2", "0.2.3"), provisional("0.2", "0.3.0"), provisional("", "0.2.3")
    ('0.2', '', '')
    """
    if not since:
        return ""
    return since if _minor(since) >= _minor(version or calor.__version__) else ""


def _minor(version: str) -> tuple[int, int]:
    """Return (X, Y) of a version X.Y…"""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
