"""Doors to our own packages: where it is installed, ``calor.NAME`` is ``calor_NAME``."""

from __future__ import annotations

import sys
from importlib import import_module

from calor.errors import PluginError


def open_door(name: str) -> None:
    """Put the package in the place of the door; PluginError says what to install."""
    door, package = f"calor.{name}", f"calor_{name}"
    try:
        sys.modules[door] = import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise PluginError(f'{door} is not installed; pip install "calor[{name}]"') from None
    # The modules inside have this name too, so that importing them by it makes no second copy.
    for inside in [found for found in sys.modules if found.startswith(f"{package}.")]:
        sys.modules[inside.replace(package, door, 1)] = sys.modules[inside]
