"""Scans around one product, as recurrent layers are, in one launch.

Requirements: few programs have recurrent layers, so what computes them is imported with the first
question. Control flow that no family takes is run by its steps.
"""

from __future__ import annotations

from typing import Final

from calor_kernel.contract import work

__all__ = ["CHOSEN"]

CHOSEN: Final = False
"""Whether scans run as one launch: not before that is measured beside lists of launches."""

if CHOSEN:
    work.lowering("scan")(work.deferred("calor_kernel.library.recurrence.lowering", "scan"))
