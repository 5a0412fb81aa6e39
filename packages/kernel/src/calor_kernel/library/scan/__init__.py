"""Running sums, products and extremes.

Requirements: few programs scan, so what does is imported with the first question.
"""

from __future__ import annotations

from calor_kernel.contract import work

work.lowering("cumsum", "cumprod", "cummax", "cummin")(
    work.deferred("calor_kernel.library.scan.lowering", "lower_scan")
)
