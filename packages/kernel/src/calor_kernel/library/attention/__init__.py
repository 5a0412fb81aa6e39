"""Attention, its gradients, and the gradient of its bias.

Requirements: few programs use attention, so its modules are imported at its first use.
"""

from __future__ import annotations

from typing import Final

from calor_kernel.contract import work
from calor_kernel.library.attention import delta_fuser
from calor_kernel.library.attention.cache_fuser import OP, CacheFuser
from calor_kernel.library.attention.delta_fuser import DeltaFuser

__all__ = ["CacheFuser", "DeltaFuser"]

_WAYS: Final = "calor_kernel.library.attention.lowering"

work.lowering("attention", strided=True)(work.deferred(_WAYS, "attention"))
work.lowering("attention_gradient", dense=(1, 2))(work.deferred(_WAYS, "gradient"))
work.lowering("attention_bias_gradient", dense=(0, 1, 2))(work.deferred(_WAYS, "bias_gradient"))
work.lowering(delta_fuser.OP, dense=(2,))(
    work.deferred("calor_kernel.library.attention.delta_launch", "gradient_of_result")
)
work.lowering(OP, strided=True)(
    work.deferred("calor_kernel.library.attention.cache_launch", "cached")
)
