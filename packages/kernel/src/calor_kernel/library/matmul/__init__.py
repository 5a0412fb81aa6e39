"""Matrix products: one problem, and a body per way of computing it."""

from calor_kernel.library.matmul.lowering import lower_dot_general

__all__ = ["lower_dot_general"]
