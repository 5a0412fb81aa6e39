"""Passes: each takes a kernel and returns an equivalent one."""

from __future__ import annotations

from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes.align import align
from calor_kernel.ir.passes.cubes import fold_cubes
from calor_kernel.ir.passes.dead import sweep
from calor_kernel.ir.passes.early_loads import load_early
from calor_kernel.ir.passes.hoist import hoist
from calor_kernel.ir.passes.rewriting import Rewriter, clone, on_copy
from calor_kernel.ir.passes.simplify import simplify
from calor_kernel.ir.passes.uniform_masks import branch_uniform_masks
from calor_kernel.ir.passes.vectors import split_vectors

__all__ = [
    "Rewriter",
    "branch_uniform_masks",
    "clone",
    "eliminate_dead",
    "fold_cubes",
    "load_early",
    "optimize",
    "simplify",
    "split_vectors",
    "sweep",
]


eliminate_dead = on_copy(sweep)


def optimize(kernel: Kernel) -> Kernel:
    """Return the kernel without redundant operations, and with simplified loops.

    Every printer receives the result; lowerings for some devices are separate passes.
    """
    made = simplify(kernel)
    sweep(made)
    hoist(made)
    # Hoisting from two loops may leave the same operation twice before them.
    made = simplify(made)
    sweep(made)
    align(made)
    return made
