"""Scans around one product, as recurrent layers are, in one launch.

Requirements: few programs have recurrent layers, so what computes them is imported with the first
question. Control flow that no family takes is run by its steps.
"""

from __future__ import annotations

from calor_kernel.contract import work

work.lowering("scan")(work.deferred("calor_kernel.library.recurrence.lowering", "scan"))
