"""Convolutions and their gradients: one problem, and one body for each method."""

from calor_kernel.library.conv.conv_chain import lower_conv_chain
from calor_kernel.library.conv.lowering import (
    lower_conv,
    lower_conv_input_gradient,
    lower_conv_weight_gradient,
)

__all__ = [
    "lower_conv",
    "lower_conv_chain",
    "lower_conv_input_gradient",
    "lower_conv_weight_gradient",
]
