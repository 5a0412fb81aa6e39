"""The plugin of calor-tuned: the folder of its bundles. It imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from calor.plugins import hookimpl


def folder() -> Path:
    """Return the folder with a file for each device, which ``python -m calor tune --export`` wrote.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> folder().name
    'bundles'
    """
    return Path(__file__).parent / "bundles"


@hookimpl
def calor_tuned() -> Mapping[str, Callable[[], Path]]:
    """Return the folder of the bundles."""
    return {"calor": folder}
