"""*Lanes*: what a kernel means, run with NumPy, and what it must not do.

Requirements: this is the reference of every printer and device, so that meanings are exact; it
finds accesses out of bounds, races and missing barriers that hardware runs over silently; it is
quick enough to run the whole kernel library in tests.
"""

from calor_kernel.language.lanes.launch import run_on_lanes
from calor_kernel.language.lanes.program import Program

__all__ = ["Program", "run_on_lanes"]
