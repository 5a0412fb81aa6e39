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
from calor_train.optimizers.base import named_parameters, require_tensor
from calor_train.optimizers.working import working_dtype


def global_norm(grads: Any, norm_type: float = 2.0) -> Tensor:
    """Return the norm of all tensors of a tree taken as one vector.

    Parameters
    ----------
    grads : Any
        A tree of gradients, as `calor.grad` returns it; leaves that are not tensors are left alone.
    norm_type : float
        The p of the p-norm, above 0; infinity gives the largest absolute value.

    Returns
    -------
    Tensor
        Shape (); float32 for half types, which are added up in float32, else the dtype of the
        gradients.

    Raises
    ------
    ArgumentError
        If the tree has no tensor, or `norm_type` is not above 0.

    Examples
    --------
    >>> import calor
    >>> from calor_train import global_norm
    >>> global_norm({"a": calor.asarray([3.0]), "b": calor.asarray([0.0, 4.0])}).item()
    5.0
    """
    tensors = [g for g in calor.tree.leaves(grads) if isinstance(g, Tensor)]
    return _norm(tensors, norm_type)


def clip_by_global_norm(grads: Any, max_norm: float, norm_type: float = 2.0) -> tuple[Any, Tensor]:
    """Return gradients scaled so that their norm does not exceed a limit.

    Parameters
    ----------
    grads : Any
        A tree of gradients, as `calor.grad` returns it; leaves that are not tensors are left alone.
    max_norm : float or Tensor
        The limit; not negative.
    norm_type : float
        The p of the p-norm, above 0; infinity gives the largest absolute value.

    Returns
    -------
    grads : Any
        The tree with its gradients times max_norm / (norm + 1e-6), at most 1.
    norm : Tensor
        The norm before, shape ().

    Raises
    ------
    ArgumentError
        If the tree has no tensor, `norm_type` is not above 0, or `max_norm` is negative.

    References
    ----------
    Pascanu et al., "On the Difficulty of Training Recurrent Neural Networks", 2013.

    Examples
    --------
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
    """Return gradients with every element clamped to [−limit, limit].

    Parameters
    ----------
    grads : Any
        A tree of gradients, as `calor.grad` returns it; leaves that are not tensors are left alone.
    limit : float or Tensor
        The bound; not negative.

    Returns
    -------
    Any
        The tree with its gradients clamped.

    Raises
    ------
    ArgumentError
        If `limit` is negative.

    Examples
    --------
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
    """Scale the `.grad` of parameters so that their norm does not exceed a limit.

    The gradients are taken as one vector. As in PyTorch, the factor is max_norm / (norm + 1e-6), at
    most 1.

    Parameters
    ----------
    params : Module, Tensor or iterable of Tensor
        The parameters; those without a gradient are left alone.
    max_norm : float or Tensor
        The limit; not negative.
    norm_type : float
        The p of the p-norm, above 0; infinity gives the largest absolute value.

    Returns
    -------
    Tensor
        The norm before, shape ().

    Raises
    ------
    ArgumentError
        If no parameter has a gradient, `norm_type` is not above 0, or `max_norm` is negative.

    References
    ----------
    Pascanu et al., "On the Difficulty of Training Recurrent Neural Networks", 2013.

    Examples
    --------
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
    """Clamp every element of the `.grad` of parameters to [−clip_value, clip_value].

    Parameters
    ----------
    params : Module, Tensor or iterable of Tensor
        The parameters; those without a gradient are left alone.
    clip_value : float or Tensor
        The bound; not negative.

    Raises
    ------
    ArgumentError
        If `clip_value` is negative.

    Examples
    --------
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
    found = named_parameters(params)
    for name, p in found:
        require_tensor(name, p)
    return [p for _, p in found if p.grad is not None]


def _norm(tensors: list[Tensor], norm_type: float) -> Tensor:
    if not norm_type > 0:
        raise ArgumentError(f"norm_type must be above 0, not {norm_type!r}")
    if not tensors:
        raise ArgumentError("there are no gradients to clip; call backward() first")
    device = tensors[0].device
    parts = [calor.abs(x.astype(working_dtype(x.dtype), copy=False)) for x in tensors]
    if math.isinf(norm_type):
        largest = [calor.max(x).to(device=device) for x in parts if x.size]
        # A vector without elements has norm 0, as of every other order.
        return calor.max(calor.stack(largest)) if largest else _total(map(calor.sum, parts), device)
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
        raise ArgumentError(f"{name} must be at least 0, not {limit!r}")
