"""The ways of kernel families, and the modules and names under which they stand."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from calor_kernel.contract.ways import Row, Table, Way
from kernels_on_lanes import PACKAGES


def values() -> Iterator[tuple[str, Any]]:
    """Yield what stands in the modules of kernels, with its place: ``module.NAME``."""
    for package in map(importlib.import_module, PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module: ModuleType = importlib.import_module(found.name)
            for name, value in vars(module).items():
                yield f"{found.name}.{name}", value


def _listed(value: Any) -> list[Way[Any]]:
    """Return the ways of a table, or of a tuple of ways or of rows."""
    several = value.own if isinstance(value, Table) else value
    if not isinstance(several, tuple | list):
        return []
    ways = (one.way if isinstance(one, Row) else one for one in several)
    return [way for way in ways if isinstance(way, Way)]


@cache
def places() -> dict[str, Way[Any]]:
    """Return each way by its place: that of its constant, or ``module.TABLE[name]``."""
    found: dict[str, Way[Any]] = {}
    constants = [(place, value) for place, value in values() if isinstance(value, Way)]
    members = [(f"{p}[{way.name}]", way) for p, value in values() for way in _listed(value)]
    known: set[int] = set()
    for place, way in constants + members:
        if id(way) not in known:
            assert place not in found, f"two ways stand at {place}; give one a name of its own"
            known.add(id(way))
            found[place] = way
    return found


@cache
def _numbers() -> dict[int, str]:
    return {id(way): place for place, way in places().items()}


def place_of(way: object) -> str:
    """Return the place of a way, or its name with a question mark if it stands in no module."""
    return _numbers().get(id(way), f"?{getattr(way, 'name', way)}")
