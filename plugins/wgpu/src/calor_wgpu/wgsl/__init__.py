"""Kernels as text of WGSL."""

from .dialect import WGSL
from .printer import COUNTS, MOST_CUBES, arguments, print_wgsl

__all__ = ["COUNTS", "MOST_CUBES", "WGSL", "arguments", "print_wgsl"]
