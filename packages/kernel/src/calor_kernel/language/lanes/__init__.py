"""*Lanes*: the reference interpreter of kernels on NumPy, with checks.

Requirements: it defines the exact results for every printer and device. It detects out-of-bounds
accesses, races and missing barriers, which hardware ignores silently. It is fast enough to run the
whole kernel library in tests.
"""

from calor_kernel.language.lanes.launch import run_on_lanes
from calor_kernel.language.lanes.program import Program

__all__ = ["Program", "run_on_lanes"]
