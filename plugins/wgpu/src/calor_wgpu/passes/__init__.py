"""Passes for WGSL: each takes a kernel of calor-kernel and returns an equivalent one.

Requirements: WGSL has storage of whole words, vectors of two to four elements and no jumps, and its
compilers read loops better whose counts are constants or in a variable.
"""

from calor_wgpu.passes.accesses import BEYOND, atomics_of, lower_accesses, touched
from calor_wgpu.passes.advancing import advance_loads
from calor_wgpu.passes.choosing import choose_memory
from calor_wgpu.passes.counting import count_vectors
from calor_wgpu.passes.dividing import divide_by_products
from calor_wgpu.passes.fencing import check_fences, has_fences
from calor_wgpu.passes.joining import flag_unjoined
from calor_wgpu.passes.masking import branch_chosen_loads, mask_branched_loads
from calor_wgpu.passes.ordering import ordering_barriers
from calor_wgpu.passes.unroll import unroll_loops

__all__ = [
    "BEYOND",
    "advance_loads",
    "atomics_of",
    "branch_chosen_loads",
    "check_fences",
    "choose_memory",
    "count_vectors",
    "divide_by_products",
    "flag_unjoined",
    "has_fences",
    "lower_accesses",
    "mask_branched_loads",
    "ordering_barriers",
    "touched",
    "unroll_loops",
]
