"""Gradient clipping, by value and by global norm.

Two forms of each: on the ``.grad`` of parameters (names and meaning as in PyTorch), and on a tree
of gradients as ``calor.grad`` returns it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import calor
from calor import Tensor
from calor.errors import ArgumentError
from calor_train.optimizers.base import named_parameters
from calor_train.optimizers.working import working_dtype


def global_norm(grads: Any, norm_type: float = 2.0) -> Tensor:
    """Return the norm of all tensors of a tree taken as one vector, of shape ().

    ``norm_type`` is the p of the p-norm; ``inf`` gives the largest absolute value. Half types are
    added up in float32. Raises ArgumentError when the tree has no tensor.

    >>> import calor
    >>> from calor_train import global_norm
    >>> global_norm({"a": calor.asarray([3.0]), "b": calor.asarray([0.0, 4.0])}).item()
    5.0
    """
    tensors = [g for g in calor.tree.leaves(grads) if isinstance(g, Tensor)]
    return _norm(tensors, norm_type)


def clip_by_global_norm(grads: Any, max_norm: float, norm_type: float = 2.0) -> tuple[Any, Tensor]:
    """Return the tree with its gradients scaled so that their norm is at most ``max_norm``, and
    the norm that they had before.

    >>> import calor
    >>> from calor_train import clip_by_global_norm
    >>> grads, norm = clip_by_global_norm([calor.asarray([3.0, 4.0])], 1.0)
    >>> norm.item()
    5.0
    """
    norm = global_norm(grads, norm_type)
    factor = _factor(norm, max_norm)
    return calor.tree.map(lambda g: _scaled(g, factor) if isinstance(g, Tensor) else g, grads), norm


def clip_by_value(grads: Any, limit: float) -> Any:
    """Return the tree with every element of its gradients brought into [−limit, limit].

    >>> import calor
    >>> from calor_train import clip_by_value
    >>> clip_by_value([calor.asarray([3.0, -0.5])], 1.0)[0].tolist()
    [1.0, -0.5]
    """
    _check_limit("the limit", limit)
    return calor.tree.map(
        lambda g: calor.clip(g, -limit, limit) if isinstance(g, Tensor) else g, grads
    )


def clip_grad_norm_(params: Any, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale the ``.grad`` of parameters so that their norm, taken as one vector, is at most
    ``max_norm``; return the norm that they had before, of shape ().

    ``params`` is a module, a tensor, or an iterable of tensors; those without a gradient are passed
    over. Formula as in PyTorch: the factor is max_norm / (norm + 1e-6), at most 1.

    >>> import calor
    >>> from calor_train import clip_grad_norm_
    >>> w = calor.asarray([3.0, 4.0], requires_grad=True)
    >>> w.sum().backward()
    >>> round(clip_grad_norm_([w], 1.0).item(), 4)
    1.4142
    """
    held = _with_grad(params)
    with calor.no_grad():
        norm = _norm([p.grad for p in held if p.grad is not None], norm_type)
        factor = _factor(norm, max_norm)
        for p in held:
            assert p.grad is not None
            p.grad = _scaled(p.grad, factor)
    return norm


def clip_grad_value_(params: Any, clip_value: float) -> None:
    """Bring every element of the ``.grad`` of parameters into [−clip_value, clip_value].

    >>> import calor
    >>> from calor_train import clip_grad_value_
    >>> w = calor.asarray([3.0, 4.0], requires_grad=True)
    >>> w.sum().backward()
    >>> clip_grad_value_([w], 0.5)
    >>> w.grad.tolist()
    [0.5, 0.5]
    """
    _check_limit("clip_value", clip_value)
    with calor.no_grad():
        for p in _with_grad(params):
            assert p.grad is not None
            p.grad = calor.clip(p.grad, -clip_value, clip_value)


def _with_grad(params: Any) -> list[Tensor]:
    return [p for _, p in named_parameters(params) if p.grad is not None]


def _norm(tensors: list[Tensor], norm_type: float) -> Tensor:
    if not norm_type > 0:
        raise ArgumentError(f"norm_type is positive, not {norm_type!r}")
    if not tensors:
        raise ArgumentError("there are no gradients to clip; call backward() first")
    device = tensors[0].device
    parts = [calor.abs(x.astype(working_dtype(x.dtype), copy=False)) for x in tensors]
    if math.isinf(norm_type):
        largest = calor.stack([calor.max(x).to(device=device) for x in parts if x.size])
        return calor.max(largest)
    if norm_type == 2:
        return calor.sqrt(_total([calor.sum(x * x) for x in parts], device))
    return _total([calor.sum(x**norm_type) for x in parts], device) ** (1.0 / norm_type)


def _total(parts: Iterable[Tensor], device: Any) -> Tensor:
    first, *rest = (x.to(device=device) for x in parts)
    for x in rest:
        first = first + x
    return first


def _factor(norm: Tensor, max_norm: float) -> Tensor:
    _check_limit("max_norm", max_norm)
    return calor.minimum(max_norm / (norm + 1e-6), 1.0)


def _scaled(g: Tensor, factor: Tensor) -> Tensor:
    # Multiplied in the wider type and rounded once, so that a half gradient keeps its dtype.
    return (g * factor.to(device=g.device)).astype(g.dtype, copy=False)


def _check_limit(name: str, limit: Any) -> None:
    if not isinstance(limit, Tensor) and not limit >= 0:
        raise ArgumentError(f"{name} is at least 0, not {limit!r}")
