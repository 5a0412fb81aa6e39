"""Running sums, products and extremes."""

from calor_kernel.library.scan.lowering import lower_scan

__all__ = ["lower_scan"]
