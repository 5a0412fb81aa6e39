"""Matrix products: one problem, and one body for each method."""

from calor_kernel.library.matmul.lowering import lower_dot_general

__all__ = ["lower_dot_general"]
