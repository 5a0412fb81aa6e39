"""Kernels as text of WGSL."""

from .dialect import WGSL
from .printer import MOST_CUBES, arguments, print_wgsl
from .probe import probe

__all__ = ["MOST_CUBES", "WGSL", "arguments", "print_wgsl", "probe"]
