"""Matrix products: one problem, and one body for each method."""

from calor_kernel.library.matmul.lowering import lower_dot_general
from calor_kernel.library.matmul.product_chain import lower_product_chain
from calor_kernel.library.matmul.product_fuser import ProductFuser
from calor_kernel.library.matmul.row_product import lower_row_product

__all__ = [
    "ProductFuser",
    "lower_dot_general",
    "lower_product_chain",
    "lower_row_product",
]
