"""Sorting on the device."""

from calor_kernel.library.sort.lowering import lower_sort

__all__ = ["lower_sort"]
