"""The reference interpreter of kernels, on NumPy and with checks, and its devices.

Requirements: it defines the exact results for every printer and device. It detects out-of-bounds
accesses, races and missing barriers, which hardware ignores silently. It is fast enough to run the
whole kernel library in tests.
"""

__all__: list[str] = []
