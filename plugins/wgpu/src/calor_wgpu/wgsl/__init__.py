"""Printer of kernels as WGSL."""

from .dialect import WGSL
from .printer import MOST_CUBES, print_wgsl
from .probe import probe

__all__ = ["MOST_CUBES", "WGSL", "print_wgsl", "probe"]
