"""Operators of single elements, their broadcasts, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Draw, Node, Rng, axes_of, axis_of, coin, numbers, option, shape_of, some


def _unary(within: tuple[float, float] | None = None, least: int = 0, **attributes: Any) -> Draw:
    """Return a row of a function of one operand, in a domain, with attributes as ends of ranges."""

    def draw(rng: Rng) -> Node:
        shape = shape_of(rng, least)
        x = some(rng, *shape) if within is None else rng.uniform(*within, shape)
        drawn = {
            name: str(rng.choice(ends)) if isinstance(ends[0], str) else float(rng.uniform(*ends))
            for name, ends in attributes.items()
        }
        return Node([np.asarray(x, np.float32)], option(rng, drawn, 0.8))

    return draw


def _fitting(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    kept = tuple(n if coin(rng, 0.7) else 1 for n in shape)
    return kept[int(rng.integers(0, len(kept) + 1)) if coin(rng, 0.3) else 0 :]


Make = Callable[[Rng, tuple[int, ...]], Array]


def _binary(make: Make | None = None, **attributes: Any) -> Draw:
    def draw(rng: Rng) -> Node:
        shape = shape_of(rng, 0)
        whole = make is None and coin(rng, 0.3)

        def numbered(shape: tuple[int, ...]) -> Array:
            if make is not None:
                return make(rng, shape)
            if whole:
                return rng.integers(-5, 6, shape).astype(np.int32)
            return some(rng, *shape)

        given = [numbered(shape), numbered(_fitting(rng, shape))]
        drawn = {name: ends[int(rng.integers(len(ends)))] for name, ends in attributes.items()}
        return Node(given if coin(rng) else given[::-1], drawn)

    return draw


def _positive(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.uniform(0.2, 3, shape), np.float32)


def _apart(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Return whole numbers without 0."""
    return np.asarray(rng.integers(1, 6, shape) * rng.choice((-1, 1), shape), np.int32)


def _truths(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.random(shape) < 0.5)


def _bits(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.integers(0, 8, shape), np.uint32)


def _signed(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.integers(-9, 9, shape), np.int32)


def _steps(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.integers(-2, 3, shape), np.float32)


def _several(rng: Rng) -> Node:
    shape = shape_of(rng, 1, 3)
    others = [some(rng, *_fitting(rng, shape)) for _ in range(int(rng.integers(0, 3)))]
    return Node([some(rng, *shape), *others])


def _where(rng: Rng) -> Node:
    shape = shape_of(rng, 1, 3)
    c, x, y = (_fitting(rng, shape) for _ in range(3))
    return Node([_truths(rng, c), some(rng, *x), some(rng, *y)])


def _clip(rng: Rng) -> Node:
    low, high = sorted(rng.normal(size=2).astype(np.float32))
    given: list[Any] = [some(rng, *shape_of(rng)), np.float32(low), np.float32(high)]
    return Node([given[0], *(np.asarray(g) if coin(rng, 0.75) else None for g in given[1:])])


def _not_finite(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng))
    x[rng.random(x.shape) < 0.5] = rng.choice([np.nan, np.inf, -np.inf])
    return Node([x], option(rng, {"detect_negative": 0, "detect_positive": 0}))


def _nans(rng: Rng) -> Node:
    return Node([_not_finite(rng).operands[0]])


def _prelu(rng: Rng) -> Node:
    shape = shape_of(rng)
    return Node([some(rng, *shape), some(rng, *_fitting(rng, shape))])


def _reduced(make: Make | None = None) -> Draw:
    def draw(rng: Rng) -> Node:
        shape = shape_of(rng)
        x = some(rng, *shape) if make is None else make(rng, shape)
        keep = option(rng, {"keepdims": int(coin(rng))})
        if coin(rng, 0.3):
            # Before opset 18, and 13 for sums, axes are an attribute.
            return Node([x], {**keep, "axes": axes_of(rng, x.ndim)}, opset=11)
        if coin(rng, 0.2):
            return Node([x], {**keep, "noop_with_empty_axes": int(coin(rng))}, opset=18)
        return Node([x, numbers(*axes_of(rng, x.ndim))], keep, opset=18, fixed=(1,))

    return draw


def _arg(rng: Rng) -> Node:
    x = np.round(some(rng, *shape_of(rng)))
    return Node(
        [x],
        option(rng, {"axis": axis_of(rng, x), "keepdims": int(coin(rng)), "select_last_index": 1}),
    )


def _cumsum(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng))
    axis = np.asarray(axis_of(rng, x), np.int64)
    return Node([x, axis], option(rng, {"exclusive": 1, "reverse": 1}))


def _topk(rng: Rng) -> Node:
    x = rng.permutation(np.arange(24, dtype=np.float32)).reshape(rng.permutation([2, 3, 4]))
    axis = axis_of(rng, x)
    k = int(rng.integers(1, x.shape[axis] + 1))
    return Node(
        [x, numbers(k)], {"axis": axis, **option(rng, {"largest": int(coin(rng))})}, outputs=2
    )


def _along(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng, 2))
    return Node([x], option(rng, {"axis": axis_of(rng, x)}))


def _cast(rng: Rng) -> Node:
    from onnx import TensorProto

    to = rng.choice(["FLOAT16", "DOUBLE", "INT32", "INT64", "BOOL", "FLOAT"])
    x = some(rng, *shape_of(rng)) if coin(rng) else _signed(rng, shape_of(rng))
    return Node([x], {"to": getattr(TensorProto, str(to))})


ROWS: Final[dict[str, Draw]] = {
    **{name: _unary() for name in (
        "Abs", "Atan", "Asinh", "Ceil", "Cos", "Erf", "Exp", "Floor", "Neg", "Reciprocal", "Round",
        "Sigmoid", "Sign", "Sin", "Softplus", "Tanh", "Relu", "HardSwish", "Mish",
        "Identity", "Cosh", "Sinh",
    )},
    "Softsign": _unary(least=1), "Acos": _unary((-1, 1)), "Asin": _unary((-1, 1)),
    "Atanh": _unary((-0.9, 0.9)), "Acosh": _unary((1, 5)), "Log": _unary((0.1, 5)),
    "Sqrt": _unary((0, 9)),
    "Tan": _unary((-1.2, 1.2)), "Celu": _unary(alpha=(0.3, 2)), "Elu": _unary(alpha=(0.3, 2)),
    "LeakyRelu": _unary(alpha=(0.1, 0.9)), "Selu": _unary(alpha=(0.5, 2), gamma=(0.5, 2)),
    "HardSigmoid": _unary(alpha=(0.1, 0.6), beta=(0.1, 0.9)),
    "ThresholdedRelu": _unary(alpha=(-1, 1)), "Gelu": _unary(approximate=("none", "tanh")),
    "Shrink": _unary(bias=(0, 1), lambd=(0.2, 1.5)), "Clip": _clip, "IsInf": _not_finite,
    "IsNaN": _nans, "PRelu": _prelu, "Cast": _cast,
    "Add": _binary(), "Sub": _binary(), "Mul": _binary(), "Div": _binary(_positive),
    "Pow": _binary(_positive), "Mod": _binary(_apart, fmod=(0, 1)),
    **dict.fromkeys(("Max", "Min", "Mean", "Sum"), _several),
    "And": _binary(_truths), "Or": _binary(_truths), "Xor": _binary(_truths),
    "BitwiseAnd": _binary(_signed), "BitwiseOr": _binary(_signed), "BitwiseXor": _binary(_signed),
    "BitShift": _binary(_bits, direction=("LEFT", "RIGHT")),
    **{name: _binary(_steps) for name in (
        "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
    )},
    "Where": _where,
    "Not": lambda rng: Node([_truths(rng, shape_of(rng))]),
    "BitwiseNot": lambda rng: Node([_signed(rng, shape_of(rng))]),
    **{f"Reduce{name}": _reduced() for name in (
        "Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare",
    )},
    "ReduceLogSum": _reduced(_positive), "ArgMax": _arg, "ArgMin": _arg, "CumSum": _cumsum,
    "TopK": _topk, "Softmax": _along, "LogSoftmax": _along, "Hardmax": _along,
}  # fmt: skip
