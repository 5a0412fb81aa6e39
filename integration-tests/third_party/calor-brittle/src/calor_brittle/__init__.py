"""The device ``brittle`` for calor: little memory, and failures when they are asked for."""

from .faults import FAULTS, inject

__all__ = ["FAULTS", "inject"]
