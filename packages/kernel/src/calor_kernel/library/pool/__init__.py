"""Sliding windows: reductions, their gradients, and values at the windows' extremes.

Requirements: modules are imported at the first use of their ops.
"""

from __future__ import annotations

from calor_kernel.contract import work

for _op in ("window_reduce", "window_pick", "window_gradient"):
    work.lowering(_op, strided=True)(
        work.deferred("calor_kernel.library.pool.lowering", f"lower_{_op}")
    )
