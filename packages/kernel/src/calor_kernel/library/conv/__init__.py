"""Convolutions and their gradients: one problem, and one body for each method.

Requirements: modules are imported at the first use of their ops.
"""

from __future__ import annotations

from calor_kernel.contract import work

for _op in ("conv", "conv_input_gradient", "conv_weight_gradient"):
    work.lowering(_op, strided=True, roomy=True)(
        work.deferred("calor_kernel.library.conv.lowering", f"lower_{_op}")
    )
work.lowering("conv_chain", strided=True, roomy=True)(
    work.deferred("calor_kernel.library.conv.conv_chain", "lower_conv_chain")
)
