"""Gradients of functions and of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor.errors import DTypeError, GradientError, ShapeError
from calor.transforms.records import backpropagate, reachable

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


def backward(output: Tensor, gradient: Tensor | None, create_graph: bool) -> None:
    """Add the gradients of ``output`` to ``.grad`` of the leaves below it."""
    if output._record is None:
        raise GradientError(
            "this tensor depends on no tensor that requires gradients; make one with "
            "calor.asarray(..., requires_grad=True) or x.requires_grad_()"
        )
    seed = seed_for(output, gradient)
    found = backpropagate([(output._record, seed)], None, create_graph)
    for record in reachable([output._record]):
        g = found.get(id(record))
        leaf = None if g is None else record.tensor()
        if leaf is not None:
            leaf._grad = g if leaf._grad is None else leaf._grad + g


def seed_for(output: Tensor, gradient: Tensor | None) -> Any:
    """Return the gradient to start from: the one given, or 1 for a scalar."""
    from calor.functions.creation import ones

    if gradient is None:
        if output.size != 1:
            raise GradientError(
                f"the gradient of a tensor of shape {output.shape} needs a gradient to start "
                f"from; reduce it first (x.sum()), or pass one of the same shape"
            )
        return ones(output.shape, dtype=output.dtype, device=output.device)
    if gradient.shape != output.shape:
        raise ShapeError(f"the gradient has shape {gradient.shape}, the tensor {output.shape}")
    if gradient.dtype is not output.dtype:
        raise DTypeError(f"the gradient is {gradient.dtype}, the tensor {output.dtype}")
    return gradient
