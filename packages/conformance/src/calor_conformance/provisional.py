"""New checks are provisional: they are reported and do not decide for one minor release.

A vendor who passed yesterday must not fail today because the suite grew. A new row or check names
the release that added it, and counts from the next minor release on.
"""

from __future__ import annotations

import re

import calor


def provisional(since: str, version: str | None = None) -> str:
    """Return the release that added a check while the check is provisional, else "".

    Parameters
    ----------
    since : str
        The release that added the check, such as "0.2"; "" for none.
    version : str, default None
        The current release. None is that of calor.

    Returns
    -------
    str
        `since` or "".

    Examples
    --------
    >>> provisional("0.2", "0.2.3"), provisional("0.2", "0.3.0"), provisional("", "0.2.3")
    ('0.2', '', '')
    """
    if not since:
        return ""
    return since if _minor(since) >= _minor(version or calor.__version__) else ""


def _minor(version: str) -> tuple[int, int]:
    """Return (X, Y) of a version X.Y…."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
