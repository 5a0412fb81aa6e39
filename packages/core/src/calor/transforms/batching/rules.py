"""The batching rule of each row, and what becomes of a row without one.

A rule takes the size of the mapped axis, whether each operand has it (as its first axis), the
operands and the attributes. It returns the results, each with that axis first. Rows of other
packages bring theirs (``op(..., batch=rule)``). A composite without a rule is decomposed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from calor.errors import TraceError
from calor.graph.op import Op
from calor.ops import control
from calor.ops.spectral import random_bits
from calor.recording.tracing import trace_function
from calor.specs import spec
from calor.transforms.batching import attention, contraction, indexing, movement
from calor.transforms.batching.movement import Mapped, leading

Rule = Callable[..., Any]

# Ops that take an axis before all others of every operand; elementwise ops do so, too.
_LEADING: Final = frozenset((
    "all", "any", "argmax", "argmin", "barrier", "bitcast", "cast", "concat", "cummax", "cummin",
    "cumprod", "cumsum", "elu", "fft", "flip", "log_softmax", "max", "min", "prod", "rms_norm",
    "scatter_along", "softmax", "softplus", "sort", "standardize", "stop_gradient", "sum",
    "take_along", "window_gradient", "window_pick", "window_reduce",
))  # fmt: skip


def _random_bits_rule(
    size: int, mapped: Mapped, key: Any, counter: Any, *, shape: tuple[int, ...], bits: int
) -> Any:
    """Draw for one key after the other: each has the numbers that it has alone."""
    operands = key, counter
    held = [x for x, m in zip(operands, mapped, strict=True) if not m]
    rows = [x for x, m in zip(operands, mapped, strict=True) if m]
    turned = mapped == (False, True)

    def draw(*given: Any) -> Any:
        pair = given[::-1] if turned else given
        return random_bits(*pair, shape=shape, bits=bits)

    specs = [spec(x.shape[1:], x.dtype) for x in rows] + [spec(x.shape, x.dtype) for x in held]
    return control.scan(
        *held,
        *rows,
        body=trace_function(draw, specs, {}),
        captures=len(held),
        carries=0,
        length=size,
        reverse=False,
        keep=False,
    )


_RULES: Final[dict[str, Rule]] = {
    "attention": attention.attention_rule,
    "attention_bias_gradient": attention.attention_bias_gradient_rule,
    "attention_gradient": attention.attention_gradient_rule,
    "conv": contraction.conv_rule,
    "conv_input_gradient": contraction.conv_input_gradient_rule,
    "conv_weight_gradient": contraction.conv_weight_gradient_rule,
    "dot_general": contraction.dot_rule,
    "dynamic_slice": movement.dynamic_slice_rule,
    "dynamic_update_slice": movement.dynamic_update_slice_rule,
    "expand": movement.expand_rule,
    "gather": indexing.gather_rule,
    "gather_nd": indexing.gather_nd_rule,
    "pad": movement.pad_rule,
    "permute": movement.permute_rule,
    "random_bits": _random_bits_rule,
    "reshape": movement.reshape_rule,
    "scatter_nd": indexing.scatter_nd_rule,
    "slice": movement.slice_rule,
}


def rule_of(row: Op) -> Rule | None:
    """Return the batching rule of a row; None for a composite that is to be decomposed.

    Raises
    ------
    TraceError
        If the row has neither a rule nor a decomposition.
    """
    if row.batch is not None and row.batch != "leading":
        return row.batch
    if row.batch == "leading" or row.promotion != "none" or row.name in _LEADING:
        return _leading_rule(row)
    found = _RULES.get(row.name)
    if found is None and row.decompose is None:
        raise TraceError(
            f"calor.vmap: op {row.name!r} has neither a batching rule nor a decomposition; its "
            f"package can give it one: op({row.name!r}, ..., batch=rule)"
        )
    return found


def _leading_rule(row: Op) -> Rule:
    def rule(size: int, mapped: Mapped, *x: Any, **attributes: Any) -> Any:
        operands = [leading(size, m, t) for t, m in zip(x, mapped, strict=True)]
        return row(*operands, **_next_axes(attributes))

    return rule


def _next_axes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with each axis one further."""
    made = dict(attributes)
    if "axis" in made:
        made["axis"] += 1
    if "axes" in made:
        made["axes"] = tuple(a + 1 for a in made["axes"])
    return made
