"""Attention, its gradients, and the gradient of its bias.

Requirements: few programs use attention, so its modules are imported at its first use.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.contract.work import Refusal, Request, Work, lowering

__all__ = ["lower_attention", "lower_attention_bias_gradient", "lower_attention_gradient"]


@lowering("attention", strided=True)
def lower_attention(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of attention, the likeliest first."""
    from calor_kernel.library.attention.lowering import attention

    return attention(request)


@lowering("attention_gradient", dense=(0, 1, 2))
def lower_attention_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the gradients of query, key and value, the likeliest first."""
    from calor_kernel.library.attention.lowering import gradient

    return gradient(request)


@lowering("attention_bias_gradient", dense=(0, 1, 2))
def lower_attention_bias_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the gradient of the bias, the likeliest first."""
    from calor_kernel.library.attention.lowering import bias_gradient

    return bias_gradient(request)
