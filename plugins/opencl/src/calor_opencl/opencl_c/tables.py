"""Words and templates of OpenCL C.

Requirements: functions with implementation-defined results are not among the templates; the common
printer's functions in plain C replace them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from calor_kernel.printers.dialect import words

SPACES: Final = MappingProxyType(
    {"global": "__global", "shared": "__local", "private": "__private"}
)
FENCES: Final = "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE"
# Release and acquire for all cubes (PTX ISA, 9.7.13, of compute capability 7.0 and newer).
DEVICE_FENCE: Final = 'asm volatile("fence.acq_rel.gpu;" ::: "memory");'
# Work-item functions (6.12.1), which return size_t.
POSITIONS: Final = MappingProxyType(
    {
        "cube_position": "get_group_id({1})",
        "cube_count": "get_num_groups({1})",
        "unit_position": "get_local_id({1})",
        "lane_position": "get_sub_group_local_id()",
        "plane_position": "get_sub_group_id()",
    }
)
RESERVED: Final = words(
    "all any asm barrier bitselect clamp complex constant cross degrees distance event_t fract "
    "generic global half image2d_t imaginary kernel length local mad mix normalize pipe "
    "prefetch private ptrdiff_t radians read_only read_write rotate sampler_t sign size_t "
    "step uchar uint ulong uniform union ushort warp_ballot warp_bfly "
    "warp_bfly_64 warp_down warp_down_64 warp_idx warp_idx_64 warp_lane warp_of_cube warp_up "
    "warp_up_64 write_only"
)


def templates(double: bool, exact_sqrt: bool) -> Mapping[str, str]:
    """Return templates of the language's functions with the exact required results."""
    found = {
        "abs float": "fabs({0})",
        "abs int": "as_{T}(abs({0}))",
        "fma": "fma({0}, {1}, {2})",
        "copysign": "copysign({0}, {1})",
        "mulhi": "mul_hi({0}, {1})",
        "popcount": "popcount({0})",
    }
    for name in ("floor", "ceil", "trunc", "rint", "sqrt"):
        found[name] = f"{name}({{0}})"
    for name in ("min", "max"):
        for kind in ("int", "uint"):
            found[f"{name} {kind}"] = f"{name}({{0}}, {{1}})"
    if not exact_sqrt and double:
        # The square root in double precision, rounded to float, is correctly rounded.
        found["sqrt float32"] = "convert_{T}(sqrt(convert_double{W}({0})))"
    return found
