"""Batching rules of attention and its gradients."""

from __future__ import annotations

from typing import Any

from calor.dtypes import bool_
from calor.ops.attention import attention, attention_bias_gradient, attention_gradient
from calor.ops.movement import expand, reshape
from calor.ops.reductions import sum as sum_
from calor.transforms.batching.movement import Mapped, leading, moved


def attention_rule(
    size: int,
    mapped: Mapped,
    query: Any,
    key: Any,
    value: Any,
    *extras: Any,
    causal: bool,
    **a: Any,
) -> Any:
    """Fold the mapped axis into the batch, or into the queries if only they are mapped."""
    shared = all(x.shape[2] == 1 for x in extras)
    if mapped[0] and not any(mapped[1:]) and shared and not causal:
        return _more_queries(query, key, value, extras, a)
    operands = _folded(size, mapped, (query, key, value), extras)
    return tuple(_unfolded(size, x) for x in attention(*operands, causal=causal, **a))


def _more_queries(query: Any, key: Any, value: Any, extras: Any, attributes: Any) -> Any:
    """Attend to the same keys, which are not repeated."""
    size, n, heads, length, features = query.shape
    rows = reshape(moved(query, 0, 2), shape=(n, heads, size * length, features))
    made = attention(rows, key, value, *extras, causal=False, **attributes)
    apart = (reshape(x, shape=(n, heads, size, length, *x.shape[3:])) for x in made)
    return tuple(moved(x, 2, 0) for x in apart)


def attention_gradient_rule(
    size: int, mapped: Mapped, g: Any, delta: Any, total: Any, query: Any, key: Any, value: Any,
    *extras: Any, **attributes: Any,
) -> Any:  # fmt: skip
    """Fold the mapped axis into the batch."""
    operands = _folded(size, mapped, (g, delta, total, query, key, value), extras)
    return tuple(_unfolded(size, x) for x in attention_gradient(*operands, **attributes))


def attention_bias_gradient_rule(
    size: int, mapped: Mapped, g: Any, delta: Any, total: Any, query: Any, key: Any, value: Any,
    *extras: Any, **attributes: Any,
) -> Any:  # fmt: skip
    """Fold the mapped axis into the batch; a bias that its batch shares gets the sum."""
    batch = _batch(mapped[3], query)
    forced = tuple(m or x.dtype is not bool_ for m, x in zip(mapped[6:], extras, strict=True))
    extras = tuple(
        leading(size, m, x) if f else x for f, m, x in zip(forced, mapped[6:], extras, strict=True)
    )
    bias = next(x for x in extras if x.dtype is not bool_)
    operands = _folded(size, (*mapped[:6], *forced), (g, delta, total, query, key, value), extras)
    made = _unfolded(size, attention_bias_gradient(*operands, **attributes))
    if bias.shape[1] != batch:
        made = reshape(sum_(made, axes=(1,), dtype=made.dtype), shape=bias.shape)
    return made


def _batch(mapped: bool, x: Any) -> int:
    """Return the size of the batch that an operand has for one element of the mapped axis."""
    size: int = x.shape[int(mapped)]
    return size


def _folded(
    size: int, mapped: Mapped, operands: tuple[Any, ...], extras: tuple[Any, ...]
) -> list[Any]:
    """Return operands (size, N, *) as (size · N, *); extras may be 1 in place of N."""
    count = len(operands)
    batch = _batch(mapped[count - 3], operands[-3])
    made = []
    for i, x in enumerate((*operands, *extras)):
        if not mapped[i] and i >= count and x.shape[0] == 1:
            # It repeats along the larger batch as it does along the smaller one.
            made.append(x)
            continue
        x = leading(size, mapped[i], x)
        shape = (size, batch, *x.shape[2:])
        x = x if x.shape == shape else expand(x, shape=shape)
        made.append(reshape(x, shape=(size * batch, *shape[2:])))
    return made


def _unfolded(size: int, x: Any) -> Any:
    return reshape(x, shape=(size, x.shape[0] // size, *x.shape[1:]))
