"""The devices of the backend "interpreter", and what ``python -m calor doctor`` says of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.device.diagnosis import Row

_DESCRIPTIONS: Final = (ONE_UNIT, MANY_UNITS)


def count() -> int:
    """Return the number of devices."""
    return len(_DESCRIPTIONS)


def opened(number: int) -> LanesDevice:
    """Return a device with all checks: 0 is like a processor, 1 like a GPU."""
    return LanesDevice(_DESCRIPTIONS[number])


def diagnosis() -> list[Row]:
    """Return rows of components and their state."""
    devices = ((f"interpreter:{i}", info.description) for i, info in enumerate(_DESCRIPTIONS))
    return [("NumPy", np.__version__), *devices]
