"""Attention, its gradients, and the gradient of its bias."""

from calor_kernel.library.attention.lowering import (
    lower_attention,
    lower_attention_bias_gradient,
    lower_attention_gradient,
)

__all__ = ["lower_attention", "lower_attention_bias_gradient", "lower_attention_gradient"]
