"""Batching rules of products, convolutions and attention.

Requirements: the batched graph is what one writes with batch axes by hand. A product with one
mapped operand is one larger product, with two a batched one. A convolution of mapped images has
more images, one of mapped weights more channels, one of both more groups. Attention has a larger
batch, or more queries where only these are mapped.
"""

from __future__ import annotations

from typing import Any

from calor.ops import elementwise as e
from calor.ops.contraction import (
    conv,
    conv_input_gradient,
    conv_weight_gradient,
    dot_general,
)
from calor.ops.movement import expand, permute, reshape
from calor.transforms.batching.movement import Mapped, leading, moved

Axes = tuple[int, ...]
Pair = tuple[Axes, Axes]


def _next(axes: Axes, mapped: bool) -> Axes:
    return tuple(a + 1 for a in axes) if mapped else axes


def dot_rule(
    size: int, mapped: Mapped, a: Any, b: Any, *, contract: Pair, batch: Pair, **attributes: Any
) -> Any:
    """Make a batch axis of two mapped axes, and a free axis of one."""
    contract = _next(contract[0], mapped[0]), _next(contract[1], mapped[1])
    batch = _next(batch[0], mapped[0]), _next(batch[1], mapped[1])
    if mapped[0] and mapped[1]:
        batch = (0, *batch[0]), (0, *batch[1])
        if all(a.shape[i] == 1 for i in contract[0]) and a.dtype.kind != "storage":
            return _outer(a, b, contract, batch, attributes["dtype"])
        return dot_general(a, b, contract=contract, batch=batch, **attributes)
    shared = len(batch[0])
    free_a = a.ndim - len(contract[0]) - shared
    free_b = b.ndim - len(contract[1]) - shared
    if mapped[1] and free_b == 1:
        # b has no other free axis, so as the first factor its mapped axis comes out first.
        a, b, contract, batch, free_a = b, a, contract[::-1], batch[::-1], 0
    elif mapped[0]:
        free_a = 0
    made = dot_general(a, b, contract=contract, batch=batch, **attributes)
    return moved(made, shared + free_a, 0)


def _outer(a: Any, b: Any, contract: Pair, batch: Pair, dtype: Any) -> Any:
    """Return a product that sums nothing as a multiplication, which fuses with what follows.

    Gradients of weights by single examples are such products.
    """
    parts = []
    for x, summed, shared in zip((a, b), contract, batch, strict=True):
        free = tuple(i for i in range(x.ndim) if i not in summed and i not in shared)
        x = permute(x, axes=(*shared, *free, *summed))
        x = reshape(x, shape=x.shape[: len(shared) + len(free)])
        parts.append(x if x.dtype is dtype else e.cast(x, dtype=dtype))
    left, right = parts
    n = len(batch[0])
    shape = (*left.shape, *right.shape[n:])
    ones = (1,) * (right.ndim - n)
    left = reshape(left, shape=(*left.shape, *ones))
    right = reshape(
        right, shape=(*right.shape[:n], *(1,) * (len(shape) - right.ndim), *right.shape[n:])
    )
    return e.mul(expand(left, shape=shape), expand(right, shape=shape))


def _joined(x: Any, axis: int) -> Any:
    """Return x (size, *) with its first axis joined in front of another one."""
    x = moved(x, 0, axis)
    shape = (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :])
    return reshape(x, shape=shape)


def _parted(x: Any, axis: int, size: int) -> Any:
    """Return x with the axis parted into (size, rest), size first: the inverse of `_joined`."""
    shape = (*x.shape[:axis], size, x.shape[axis] // size, *x.shape[axis + 1 :])
    return moved(reshape(x, shape=shape), axis, 0)


def conv_rule(size: int, mapped: Mapped, x: Any, w: Any, *, groups: int, **attributes: Any) -> Any:
    """Mapped images are more images, mapped weights more channels, both more groups."""
    if not mapped[1]:
        made = conv(_joined(x, 0), w, groups=groups, **attributes)
        return _parted(made, 0, size)
    if mapped[0] or groups > 1:
        x = _joined(leading(size, mapped[0], x), 1)
        groups *= size
    made = conv(x, _joined(w, 0), groups=groups, **attributes)
    return _parted(made, 1, size)


def conv_input_gradient_rule(
    size: int,
    mapped: Mapped,
    g: Any,
    w: Any,
    *,
    input_shape: Axes,
    groups: int,
    **attributes: Any,
) -> Any:
    """Mapped gradients are more images; mapped weights are groups."""
    n, channels, *sizes = input_shape
    if not mapped[1]:
        shape = (size * n, channels, *sizes)
        made = conv_input_gradient(_joined(g, 0), w, input_shape=shape, groups=groups, **attributes)
        return _parted(made, 0, size)
    made = conv_input_gradient(
        _joined(leading(size, mapped[0], g), 1),
        _joined(w, 0),
        input_shape=(n, size * channels, *sizes),
        groups=groups * size,
        **attributes,
    )
    return _parted(made, 1, size)


def conv_weight_gradient_rule(
    size: int,
    mapped: Mapped,
    x: Any,
    g: Any,
    *,
    weight_shape: Axes,
    groups: int,
    **attributes: Any,
) -> Any:
    """Both mapped are groups; without groups, one that is mapped has more channels."""
    outputs, inputs, *sizes = weight_shape
    alone = groups == 1
    if alone and not mapped[1]:
        shape = (outputs, size * inputs, *sizes)
        made = conv_weight_gradient(_joined(x, 1), g, weight_shape=shape, groups=1, **attributes)
        return _parted(made, 1, size)
    if mapped[0] or not alone:
        x = _joined(leading(size, mapped[0], x), 1)
        groups *= size
    made = conv_weight_gradient(
        x,
        _joined(leading(size, mapped[1], g), 1),
        weight_shape=(size * outputs, inputs, *sizes),
        groups=groups,
        **attributes,
    )
    return _parted(made, 0, size)
