"""Sliding windows: reductions, their gradients, and values at the windows' extremes."""

from calor_kernel.library.pool.lowering import (
    lower_window_gradient,
    lower_window_pick,
    lower_window_reduce,
)

__all__ = ["lower_window_gradient", "lower_window_pick", "lower_window_reduce"]
