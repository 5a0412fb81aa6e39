"""Rows of the packages that an installation may have, by package."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Final

from .language import Row

# The module of each package, and those with its rows here.
PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    "calor_numerics": ("numerics", "arranging"),
}

# Functions without a row, and why.
REASONS: Final[dict[str, str]] = {
    "calor_numerics.random": "a module; its numbers are asked for by checks of distributions",
    "calor_numerics.signal": "a module; its transforms are those of Fourier",
    "calor_numerics.apply_along_axis": "calls a function of the caller",
    "calor_numerics.cartesian_prod": "a stack of meshgrid, which has a row",
    "calor_numerics.complex": "joins parts; rows of complex numbers do",
    "calor_numerics.geomspace": "powers of linspace, which has a row",
    "calor_numerics.histogramdd": "counts of histogram's edges by bincount, which have rows",
    "calor_numerics.logspace": "powers of linspace, which has a row",
    "calor_numerics.polar": "products of cos and sin, which have rows",
    "calor_numerics.put": "scatter_nd of a flat tensor, which has a row",
}


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
