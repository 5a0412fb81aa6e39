"""What the device says of itself: two types to compute in, three units, one size for a program."""

from __future__ import annotations

from typing import Final

import calor
from calor.backends.protocol import FULL, NOT_YET, Info, State, impossible, partial
from calor.dtypes import DType
from calor.graph.graph import Graph

DTYPES: Final = {
    calor.float16: FULL,
    calor.int8: FULL,
    calor.int32: partial("for sums of int8 and what is made of them"),
    calor.bool: partial("for what comparisons say"),
}
# What each unit computes, by the names of calor's ops.
PRODUCTS: Final = ("conv", "dot_general")
LOOKED_UP: Final = (
    "sqrt", "exp", "log", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh",
)  # fmt: skip
ELEMENTWISE: Final = (
    "add", "sub", "mul", "div", "neg", "abs", "maximum", "minimum", "relu", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "bit_and", "bit_or", "bit_xor", "bit_not",
    "where", "cast", "expand", "full", "floor", "ceil",
)  # fmt: skip
CLAIMED: Final = frozenset((*PRODUCTS, *LOOKED_UP, *ELEMENTWISE))
# Why the box has not got the rest. Composites of these are missing by what they are made of.
_MISSING: Final[dict[str, tuple[str, ...]]] = {
    "its memory is read and written in the order it has, so nothing changes places": (
        "reshape", "permute", "slice", "pad", "flip", "concat", "dynamic_slice",
        "dynamic_update_slice", "gather", "gather_nd", "take_along", "scatter_nd", "scatter_along",
        "sort", "bitcast", "iota", "constant",
    ),
    "no unit combines the elements of one operand": (
        "sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "cumsum", "cumprod",
        "cummax", "cummin", "window_reduce", "window_gradient", "window_pick", "fft",
    ),
    "its convolutions go forward": ("conv_input_gradient", "conv_weight_gradient"),
    "a program has no jumps": ("cond", "while_loop", "scan"),
    "a program does not wait for the host": ("callback", "ordered_callback"),
    "the box orders a program by itself": ("barrier",),
    "it draws no numbers": ("random_bits",),
    "there are no complex numbers": ("real", "imag", "conj", "join"),
    "it has no table of it": (
        "floor_divide", "remainder", "power", "atan2", "hypot", "logaddexp", "copysign",
        "nextafter", "shift_left", "shift_right", "isnan", "isinf", "isfinite", "signbit", "trunc",
        "round", "sign", "exp2", "expm1", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
        "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfinv", "lgamma", "digamma",
    ),
}  # fmt: skip
MOST_SPATIAL_AXES: Final = 2
_OPS: Final[dict[str | tuple[str, DType], State]] = {
    "conv": partial(f"up to {MOST_SPATIAL_AXES} spatial axes"),
    **{op: impossible(why) for why, ops in _MISSING.items() for op in ops},
}
INFO: Final = Info(
    description="A box of tensor units: whole programs in float16 and int8",
    dtypes=DTYPES,
    ops=_OPS,
    features={
        "interactive": impossible("a program is compiled whole, which takes its time"),
        "dynamic_shapes": impossible("a program is for one size"),
        "control_flow": impossible("a program has no jumps"),
        "host_views": impossible("the host does not see its memory"),
        "dlpack": impossible("the host does not see its memory"),
        "quantized_only": impossible("it computes in float16 too"),
        "in_place": FULL,
        "serialize": FULL,
        "fork": FULL,
        "memory_limit": NOT_YET,
    },
)


def objections(graph: Graph) -> dict[int, str]:
    """Return why nodes of a graph are not taken, by their numbers."""
    found = INFO.objections(graph)
    for number, node in enumerate(graph.nodes):
        if number not in found:
            why = _objection(graph, number, node.op.name)
            if why:
                found[number] = why
    return found


def _objection(graph: Graph, number: int, op: str) -> str:
    node = graph.nodes[number]
    if op not in CLAIMED:
        return "no unit of the box computes it"
    axes = graph.specs[node.inputs[0]].ndim - 2 if op == "conv" else 0
    if axes > MOST_SPATIAL_AXES:
        return f"{axes} spatial axes; the box has {MOST_SPATIAL_AXES}"
    return ""
