"""Rows of matrix products, convolutions and windows: where the arithmetic is."""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.movement import expand, number_like, permute
from calor.reference import contraction as reference
from calor.reference import convolution as conv_reference
from calor.reference import windows as window_reference
from calor.specs import Spec, spec

Axes = tuple[int, ...]
Pair = tuple[Axes, Axes]
Padding = tuple[tuple[int, int], ...]


def _dot_rule(
    a: Spec, b: Spec, *, contract: Pair, batch: Pair, dtype: DType, precision: str = "highest"
) -> Spec:
    # Float8 types are factors, each of its own, of products that are summed in another type.
    factors = a.dtype.kind == b.dtype.kind == "storage" and dtype.kind == "float"
    if not factors and (a.dtype is not b.dtype or a.dtype.kind == "storage"):
        raise DTypeError(
            f"dot_general: operands {a} and {b} must share an arithmetic dtype, or be of float8 "
            f"with a result of a floating one, not {dtype.name}"
        )
    rules.check_axes(a, contract[0] + batch[0])
    rules.check_axes(b, contract[1] + batch[1])
    for what, (left, right) in (("contracted", contract), ("batch", batch)):
        sizes = [a.shape[i] for i in left], [b.shape[i] for i in right]
        if sizes[0] != sizes[1]:
            raise ShapeError(
                f"dot_general: {what} axes {left} of {a} and {right} of {b} have sizes "
                f"{sizes[0]} and {sizes[1]}"
            )
    free_a = _free(a, contract[0] + batch[0])
    free_b = _free(b, contract[1] + batch[1])
    shape = [a.shape[i] for i in batch[0] + free_a] + [b.shape[i] for i in free_b]
    return spec(tuple(shape), dtype)


def _free(x: Any, used: Axes) -> Axes:
    return tuple(i for i in range(x.ndim) if i not in used)


def _dot_left(
    g: Any, y: Any, a: Any, b: Any, *, contract: Pair, batch: Pair, dtype: DType, **precision: str
) -> Any:
    free_a, free_b = _free(a, contract[0] + batch[0]), _free(b, contract[1] + batch[1])
    nb, nf = len(batch[0]), len(free_a)
    lead = tuple(range(nb))
    g_free_b = tuple(range(nb + nf, nb + nf + len(free_b)))
    if g.dtype is not b.dtype:
        b = e.cast(b, dtype=g.dtype)
    # batch + free of a + contracted axes, the last in the order of b's axes.
    summed = [contract[0][i] for i in sorted(range(len(contract[1])), key=contract[1].__getitem__)]
    left, right = (g, g_free_b, lead), (e.conjugate(b), free_b, batch[1])
    orders = [*batch[0], *free_a, *summed], [*batch[0], *summed, *free_a]
    part = _gradient(left, right, orders, g.dtype, precision)
    return part if part.dtype is a.dtype else e.cast(part, dtype=a.dtype)


def _dot_right(
    g: Any, y: Any, a: Any, b: Any, *, contract: Pair, batch: Pair, dtype: DType, **precision: str
) -> Any:
    free_a, free_b = _free(a, contract[0] + batch[0]), _free(b, contract[1] + batch[1])
    nb, nf = len(batch[0]), len(free_a)
    lead = tuple(range(nb))
    g_free_a = tuple(range(nb, nb + nf))
    if g.dtype is not a.dtype:
        a = e.cast(a, dtype=g.dtype)
    # batch + contracted axes in the order of a's axes + free of b.
    summed = [contract[1][i] for i in sorted(range(len(contract[0])), key=contract[0].__getitem__)]
    left, right = (e.conjugate(a), free_a, batch[0]), (g, g_free_a, lead)
    orders = [*batch[1], *summed, *free_b], [*batch[1], *free_b, *summed]
    part = _gradient(left, right, orders, g.dtype, precision)
    return part if part.dtype is b.dtype else e.cast(part, dtype=b.dtype)


def _gradient(
    left: tuple[Any, Axes, Axes],
    right: tuple[Any, Axes, Axes],
    orders: tuple[list[int], list[int]],
    dtype: DType,
    precision: dict[str, str],
) -> Any:
    """Return the product of two factors, each with its summed and its batch axes.

    ``orders``: the operand's axis of each axis of the product, and of that of the factors in the
    other order, which is taken if it alone needs no permutation: a permutation is a copy.
    """
    order, turned = orders
    if turned == sorted(turned) and order != turned:
        left, right, order = right, left, turned
    (a, summed_a, batch_a), (b, summed_b, batch_b) = left, right
    contract, batch = (summed_a, summed_b), (batch_a, batch_b)
    part = dot_general(a, b, contract=contract, batch=batch, dtype=dtype, **precision)
    return permute(part, axes=tuple(order.index(i) for i in range(len(order))))


dot_general: Op = op(
    "dot_general",
    _dot_rule,
    # The reference is exact, whatever is allowed.
    lambda a, b, *, contract, batch, dtype, precision="highest": reference.dot_general(
        a, b, contract=contract, batch=batch, dtype=dtype.numpy
    ),
    (_dot_left, _dot_right),
    saves=("1", "0"),
    autocast="low",
)


def _counts(
    x: Spec, window: Axes, stride: Axes, padding: Padding, dilation: Axes, what: str
) -> tuple[int, ...]:
    """Return how often a window fits along each of the last axes of x: never where it is empty."""
    result = []
    given = zip(window, stride, padding, dilation, strict=True)
    for axis, (n, s, pads, d) in enumerate(given, x.ndim - len(window)):
        reach, size = d * (n - 1) + 1, x.shape[axis] + sum(pads)
        if reach > size and x.shape[axis]:
            raise ShapeError(
                f"{what}: a window of {n} with dilation {d} reaches over {reach} elements, and "
                f"axis {axis} of {x} with padding {pads} has {size}; pad it by {reach - size} more"
            )
        result.append((size - reach) // s + 1 if reach <= size else 0)
    return tuple(result)


def _check_conv(
    x: Spec, w: Spec, stride: Axes, padding: Padding, dilation: Axes, groups: int
) -> None:
    rank = x.ndim - 2
    if rank < 1 or w.ndim != x.ndim:
        raise ShapeError(f"conv: input {x} must be (N, C, *spatial) and weight {w} of equal rank")
    if len(stride) != rank or len(padding) != rank or len(dilation) != rank:
        raise ShapeError(f"conv: stride, padding and dilation need {rank} entries for {x}")
    if min(stride) < 1 or min(dilation) < 1 or groups < 1:
        raise ArgumentError("conv: stride, dilation and groups are at least 1")
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ShapeError(
            f"conv: {x} has {x.shape[1]} channels, weight {w} with {groups} groups wants "
            f"{w.shape[1] * groups}, and its {w.shape[0]} outputs must divide by the groups"
        )
    if x.dtype is not w.dtype:
        raise DTypeError(f"conv: input {x} and weight {w} must share a dtype")
    rules.numbers(x)


def _conv_rule(
    x: Spec,
    w: Spec,
    *,
    stride: Axes,
    padding: Padding,
    dilation: Axes,
    groups: int,
    precision: str = "highest",
) -> Spec:
    _check_conv(x, w, stride, padding, dilation, groups)
    sizes = _counts(x, w.shape[2:], stride, padding, dilation, "conv")
    return spec((x.shape[0], w.shape[0], *sizes), x.dtype)


def _conv_input_rule(
    g: Spec,
    w: Spec,
    *,
    input_shape: Axes,
    stride: Axes,
    padding: Padding,
    dilation: Axes,
    groups: int,
    precision: str = "highest",
) -> Spec:
    x = spec(input_shape, g.dtype)
    out = _conv_rule(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if out.shape != g.shape:
        raise ShapeError(f"conv_input_gradient: {g} should have shape {out.shape}")
    return x


def _conv_weight_rule(
    x: Spec,
    g: Spec,
    *,
    weight_shape: Axes,
    stride: Axes,
    padding: Padding,
    dilation: Axes,
    groups: int,
    precision: str = "highest",
) -> Spec:
    w = spec(weight_shape, x.dtype)
    out = _conv_rule(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if out.shape != g.shape:
        raise ShapeError(f"conv_weight_gradient: {g} should have shape {out.shape}")
    return w


def _conj(t: Any) -> Any:
    return e.conjugate(t)


def _exact(reference: Any) -> Any:
    """Return a reference that is exact, whatever is allowed."""
    return lambda a, b, *, precision="highest", **attributes: reference(a, b, **attributes)


conv: Op = op(
    "conv",
    _conv_rule,
    _exact(conv_reference.conv),
    (
        lambda g, y, x, w, **a: conv_input_gradient(g, _conj(w), input_shape=x.shape, **a),
        lambda g, y, x, w, **a: conv_weight_gradient(_conj(x), g, weight_shape=w.shape, **a),
    ),
    saves=("1", "0"),
    autocast="low",
)
conv_input_gradient: Op = op(
    "conv_input_gradient",
    _conv_input_rule,
    _exact(conv_reference.conv_input_gradient),
    (
        lambda u, y, g, w, *, input_shape, **a: conv(u, _conj(w), **a),
        lambda u, y, g, w, *, input_shape, **a: conv_weight_gradient(
            u, _conj(g), weight_shape=w.shape, **a
        ),
    ),
    saves=("1", "0"),
)
conv_weight_gradient: Op = op(
    "conv_weight_gradient",
    _conv_weight_rule,
    _exact(conv_reference.conv_weight_gradient),
    (
        lambda u, y, x, g, *, weight_shape, **a: conv_input_gradient(
            _conj(g), u, input_shape=x.shape, **a
        ),
        lambda u, y, x, g, *, weight_shape, **a: conv(_conj(x), u, **a),
    ),
    saves=("1", "0"),
)

WINDOW_KINDS = ("max", "min", "sum")


def _window_rule(
    x: Spec, *, kind: str, window: Axes, stride: Axes, padding: Padding, dilation: Axes
) -> Spec:
    rank = len(window)
    if kind not in WINDOW_KINDS:
        raise ArgumentError(f"window_reduce: kind {kind!r} is none of {', '.join(WINDOW_KINDS)}")
    if not 1 <= rank <= x.ndim or not len(stride) == len(padding) == len(dilation) == rank:
        raise ShapeError(f"window_reduce: window {window} over the last axes of {x} does not fit")
    rules.reals(x)
    sizes = _counts(x, window, stride, padding, dilation, "window_reduce")
    return spec(x.shape[:-rank] + sizes, x.dtype)


def _window_gradient_rule(g: Spec, x: Spec, **attributes: Any) -> Spec:
    if _window_rule(x, **attributes).shape != g.shape:
        raise ShapeError(f"window_gradient: {g} does not have the shape of the reduced {x}")
    return spec(x.shape, g.dtype)


def _window_pick_rule(u: Spec, x: Spec, **attributes: Any) -> Spec:
    if u.shape != x.shape:
        raise ShapeError(f"window_pick: {u} and {x} must have one shape")
    return spec(_window_rule(x, **attributes).shape, u.dtype)


def _places(x: Any, g: Any, kind: str) -> Any:
    """Return what tells the extremes' places; sums have none, so of x only the shape is needed."""
    if kind != "sum":
        return x
    return expand(number_like(g, 0), shape=x.shape)


def _window_saves(operand: str) -> Any:
    return lambda *specs, kind, **attributes: (operand if kind != "sum" else "", "")[: len(specs)]


window_reduce: Op = op(
    "window_reduce",
    _window_rule,
    window_reference.window_reduce,
    (lambda g, y, x, *, kind, **a: window_gradient(g, _places(x, g, kind), kind=kind, **a),),
    saves=_window_saves("0"),
)
# For max and min the gradient goes to the first extreme of each window, in row-major order.
window_gradient: Op = op(
    "window_gradient",
    _window_gradient_rule,
    window_reference.window_reduce_gradient,
    (lambda u, y, g, x, *, kind, **a: window_pick(u, _places(x, u, kind), kind=kind, **a), None),
    saves=_window_saves("1"),
)
# The transpose of window_gradient: u at each window's first extreme of x (its sum for "sum").
window_pick: Op = op(
    "window_pick",
    _window_pick_rule,
    window_reference.window_pick,
    (
        lambda g, y, u, x, *, kind, **a: window_gradient(g, _places(x, g, kind), kind=kind, **a),
        None,
    ),
    saves=_window_saves("1"),
)
