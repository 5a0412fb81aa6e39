"""What plugins say to ``python -m calor doctor``: what was looked for, and what was found.

Requirements: nothing here raises, whatever is broken, and a look opens no device that was not open;
a finding that needs something says what to install or to do, so that a look may raise the error
which says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version

from calor.errors import CalorError
from calor_kernel.device.images import image_storage

Row = tuple[str, str]
Look = Callable[[], str]


def said(look: Look) -> str:
    """Return what a look found, or the error that it met.

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
    """Return a row for each look: its name, and what it found.

    >>> found([("driver", lambda: "of CUDA 13.0")])
    [('driver', 'of CUDA 13.0')]
    """
    return [(name, said(look)) for name, look in looks]


def package(name: str, missing: str) -> str:
    """Return the version of a distribution, or that it is not installed, and what to do then.

    >>> package("no-such-package", "pip install it")
    'not installed; pip install it'
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return f"not installed; {missing}"


def kernels_kept() -> str:
    """Return where compiled kernels are kept, and what to do where that cannot be."""
    directory = image_storage().directory
    if directory is None:
        return "CALOR_CACHE says that none are kept: each process compiles its own"
    # What is not there yet is made in the nearest folder that is.
    nearest = next(p for p in (directory, *directory.parents) if p.exists())
    if os.access(nearest, os.W_OK):
        return f"kept in {directory}"
    return f"{directory} cannot be written: each process compiles its own; set CALOR_CACHE_DIR"
