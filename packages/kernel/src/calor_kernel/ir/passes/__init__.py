"""Passes: each takes a kernel and returns another that does the same."""

from __future__ import annotations

from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes.accesses import atomics_of, hands_over, lower_accesses
from calor_kernel.ir.passes.align import align, align_accesses
from calor_kernel.ir.passes.counting import count_vectors
from calor_kernel.ir.passes.cubes import fold_cubes
from calor_kernel.ir.passes.dead import eliminate_dead, sweep
from calor_kernel.ir.passes.halves import lower_bfloat16, lower_float16
from calor_kernel.ir.passes.hoist import hoist, hoist_invariants
from calor_kernel.ir.passes.joining import flag_unjoined
from calor_kernel.ir.passes.rewriting import Rewriter, clone
from calor_kernel.ir.passes.simplify import simplify
from calor_kernel.ir.passes.unroll import unroll_loops
from calor_kernel.ir.passes.vectors import lower_vreduce, split_vectors

__all__ = [
    "Rewriter",
    "align_accesses",
    "atomics_of",
    "clone",
    "count_vectors",
    "eliminate_dead",
    "flag_unjoined",
    "fold_cubes",
    "hands_over",
    "hoist_invariants",
    "lower_accesses",
    "lower_bfloat16",
    "lower_float16",
    "lower_vreduce",
    "optimize",
    "simplify",
    "split_vectors",
    "unroll_loops",
]


def optimize(kernel: Kernel) -> Kernel:
    """Return the kernel with nothing in it that need not be, and loops that do what must be.

    What every printer is given; what only some devices need is a pass of its own.
    """
    made = simplify(kernel)
    sweep(made)
    hoist(made)
    # Two loops may have had the same operation, which now stands twice before them.
    made = simplify(made)
    sweep(made)
    align(made)
    return made
