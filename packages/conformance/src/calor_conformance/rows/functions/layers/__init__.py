"""Rows of the packages that an installation may have, by package."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Final

from .language import Row
from .reasons import REASONS

# The module of each package, and those with its rows here.
PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    "calor_linalg": ("linalg", "factors"),
    "calor_nn": ("modules", "recurrence"),
    "calor_nn.functional": ("neural", "windows", "images", "sequences"),
    "calor_nn.init": ("beginnings",),
    "calor_numerics": ("numerics", "arranging", "parts"),
    "calor_numerics.signal": ("spectrograms",),
    "calor_numerics.signal.windows": ("tapers",),
    "calor_special": ("special",),
}

__all__ = ["PACKAGES", "REASONS", "installed", "unnamed"]


def unnamed() -> list[str]:
    """Return the public functions of installed packages that have neither a row nor a reason."""
    found = []
    for name, rows in installed().items():
        asked = {row.name for row in rows}
        every = import_module(name).__all__
        found += [f"{name}.{one}" for one in every if one not in asked]
    return [name for name in found if name not in REASONS]


def installed() -> dict[str, list[Row]]:
    """Return the rows of the packages that are there, by the module with the functions."""
    there = [name for name in PACKAGES if find_spec(name.partition(".")[0]) is not None]
    return {
        name: [row for own in PACKAGES[name] for row in import_module(f"{__name__}.{own}").ROWS]
        for name in there
    }
