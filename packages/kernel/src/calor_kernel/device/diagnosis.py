"""Findings of plugins for ``python -m calor doctor``.

Requirements: nothing here raises, whatever is broken, and no look opens a device. A finding about a
missing part says which package to install or which step to take; a look may therefore raise the
error with that advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version

from calor.errors import CalorError

Row = tuple[str, str]
Look = Callable[[], str]


def said(look: Look) -> str:
    """Return a look's finding, or the message of its error.

    >>> said(lambda: "version 3")
    'version 3'
    >>> said(lambda: [][0])
    'it fails: IndexError: list index out of range'
    """
    try:
        return look()
    except CalorError as error:
        return str(error)
    except Exception as error:
        return f"it fails: {type(error).__name__}: {error}"


def found(looks: Iterable[tuple[str, Look]]) -> list[Row]:
    """Return a row for each look: its name, and its finding.

    >>> found([("driver", lambda: "of CUDA 13.0")])
    [('driver', 'of CUDA 13.0')]
    """
    return [(name, said(look)) for name, look in looks]


def package(name: str, missing: str) -> str:
    """Return the version of a distribution, or the advice if it is not installed.

    >>> package("no-such-package", "pip install it")
    'not installed; pip install it'
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return f"not installed; {missing}"
