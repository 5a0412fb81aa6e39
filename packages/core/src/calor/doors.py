"""Doors to our own packages: where it is installed, ``calor.NAME`` is ``calor_NAME``."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from calor.errors import ExtensionError, PluginError


def open_door(name: str, package: str = "") -> None:
    """Put the package in the place of the door; PluginError says what to install.

    The package is ``calor_NAME``, or another one that a distribution has inside.
    """
    door, package = f"calor.{name}", package or f"calor_{name}"
    try:
        sys.modules[door] = import_module(package)
    except ModuleNotFoundError as error:
        raise PluginError(_advice(error, door, package)) from None
    # The modules inside have this name too, so that importing them by it makes no second copy.
    for inner in [found for found in sys.modules if found.startswith(f"{package}.")]:
        sys.modules[inner.replace(package, door, 1)] = sys.modules[inner]


def inside(module: str, asked: str) -> ModuleType:
    """Return a module of a package of ours; ExtensionError says what to install for what is asked.

    Programs ask by hasattr for what may not be there.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ExtensionError(_advice(error, asked, module)) from None


def _advice(error: ModuleNotFoundError, asked: str, module: str) -> str:
    """Return what to install for what was asked for; raise an error of another module again."""
    distribution = module.partition(".")[0]
    if not f"{module}.".startswith(f"{error.name}."):
        raise error
    return f'{asked} is not installed; pip install "calor[{distribution.removeprefix("calor_")}]"'
