"""Operators of ONNX in the element types that they allow, beside ONNX's own evaluator.

The rows of operators are drawn in float32. What a row draws is turned into another type that the
operator's schema allows for the same operands: float64 first, whose results are as exact as that
type, then a drawn one, of few bits or of whole numbers. Operands that share a type keep sharing it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, bool_, float32, int32, int64

from ..rows.models.language import Draw, Node
from .base import Array, Check, Place
from .imported_models import GROUPS, PACKAGE, agree, model_of, opset_of, rows

CONTRACT: Final = "an operator computes in the type of its operands, as exactly as the type allows"
# The name of a type in a schema, and how far its results may be off.
_TYPES: Final[dict[DType, tuple[str, float]]] = {
    calor.float64: ("tensor(double)", 1e-9), calor.float16: ("tensor(float16)", 1e-2),
    int64: ("tensor(int64)", 0.0), int32: ("tensor(int32)", 0.0),
    calor.int16: ("tensor(int16)", 0.0), calor.int8: ("tensor(int8)", 0.0),
    calor.uint8: ("tensor(uint8)", 0.0), calor.uint32: ("tensor(uint32)", 0.0),
}  # fmt: skip
# The evaluator of these computes in float32, whatever it is given, or has constants of it.
_ROUNDED: Final = frozenset({
    "Attention", "BatchNormalization", "DeformConv", "Erf", "Gelu", "GridSample",
    "GroupNormalization", "HardSwish", "LayerNormalization", "Resize", "RMSNormalization",
})  # fmt: skip
_NEAR: Final = 1e-4
# A factor that a node does not give is 0.01 to some, and the float32 nearest to it to others.
_FACTOR: Final = 4e-8
# It fails in, or gives, another type; or ONNX does not say how numbers are rounded.
_NO_TYPES: Final = frozenset({"AffineGrid", "Det", "MeanVarianceNormalization", "QuantizeLinear"})
_NO_WHOLE: Final = frozenset(
    {"Attention", "Gemm", "GridSample", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
     "Resize"}
)  # fmt: skip
# Places between elements, which few bits move by much.
_NO_HALVES: Final = frozenset({"DeformConv", "GridSample", "MaxRoiPool", "RoiAlign"})
_TURNS: Final = 2
_COMPILED: Final = 32


def _allowed(schema: Any, name: str) -> dict[str, set[str]]:
    """Return which type variables of a schema may be a type."""
    return {c.type_param_str: {*c.allowed_type_strs} for c in schema.type_constraints
            if name in c.allowed_type_strs}  # fmt: skip


def _variables(schema: Any, operands: Sequence[Any]) -> list[str]:
    """Return the type variable of each operand."""
    last = len(schema.inputs) - 1
    return [schema.inputs[min(n, last)].type_str for n in range(len(operands))]


def _turned(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the numbers of an operand in another type; whole ones are spread a little."""
    if dtype.kind not in "iu":
        return array.astype(dtype)
    spread = np.round(np.nan_to_num(array * 4, posinf=9, neginf=-9))
    spread = np.abs(spread) if dtype.kind == "u" else spread
    return np.asarray(np.clip(spread, -99, 99), dtype)


def _types(name: str, node: Node, schema: Any, info: Any) -> list[DType]:
    """Return the other types that a device has, and in which an operator takes what was drawn."""
    if node.want is not None or name in _NO_TYPES:
        return []
    found = []
    for dtype, (told, _) in _TYPES.items():
        never = _NO_WHOLE if dtype.numpy.kind in "iu" else _NO_HALVES if dtype.itemsize < 4 else ()
        if not info.dtypes.get(dtype) or name in never:
            continue
        free, names = _allowed(schema, told), _variables(schema, node.operands)
        if any(v in free and _single(a) for v, a in zip(names, node.operands, strict=True)):
            found.append(dtype)
    return found


def _single(operand: Any) -> bool:
    return operand is not None and np.asarray(operand).dtype == np.float32


def _ask(name: str, node: Node, schema: Any, opset: int, dtype: DType, device: Any) -> None:
    from onnx.reference import ReferenceEvaluator

    told, near = _TYPES[dtype]
    names = _variables(schema, node.operands)
    turned = _allowed(schema, told).keys() & {
        v for v, a in zip(names, node.operands, strict=True) if _single(a)
    }
    operands, exact = list(node.operands), list(node.operands)
    for n, (v, a) in enumerate(zip(names, node.operands, strict=True)):
        if _single(a) and v in turned:
            operands[n] = _turned(np.asarray(a), dtype.numpy)
            # The evaluator rounds each step to few bits.
            exact[n] = operands[n].astype(np.float32) if dtype == calor.float16 else operands[n]
    model, given = model_of(name, replace(node, operands=exact), opset)
    with np.errstate(all="ignore"):
        wants = ReferenceEvaluator(model).run(None, given)
    model, given = model_of(name, replace(node, operands=operands), opset)
    made = import_module(PACKAGE).load(model, device=device)(*given.values())
    what = f"{name} of opset {opset} in {dtype} with {node.attributes} of "
    what += f"{[None if a is None else np.asarray(a).tolist() for a in operands]}"
    if dtype == calor.float64:
        near = _NEAR if name in _ROUNDED else _FACTOR if _factors(schema) else near
    outputs = schema.outputs
    for number, (got, want) in enumerate(
        zip(made if isinstance(made, tuple) else (made,), wants, strict=True)
    ):
        if want is None:
            continue
        wanted, off = np.asarray(want), near
        if outputs[min(number, len(outputs) - 1)].type_str in turned:
            wanted = wanted.astype(dtype.numpy) if dtype == calor.float16 else wanted
        elif wanted.dtype.kind == "f":
            # The evaluator has no types of its own for what is a float32 beside any other.
            wanted, off = wanted.astype(got.dtype.numpy), max(near, _NEAR)
        agree(got, wanted, f"output {number} of {what}", off)


def _factors(schema: Any) -> bool:
    return any(a.type == a.type.FLOAT for a in schema.attributes.values())


def _run(groups: Sequence[str], place: Place) -> None:
    import onnx

    every: list[tuple[str, Draw]] = [one for group in groups for one in rows(group).items()]
    for number, (name, draw) in enumerate(every):
        for turn in range(_TURNS if place.tries(number, _COMPILED) else 0):
            rng = np.random.default_rng([place.seed, 916, crc32(name.encode()), turn])
            node = draw(rng)
            opset = opset_of(name, node, rng)
            if node.domain or not onnx.defs.has(name, opset, ""):
                # Its operators have results of one type for operands of all, or no schema.
                continue
            schema = onnx.defs.get_schema(name, opset, "")
            types = _types(name, node, schema, place.device.info)
            others = [t for t in types if t != calor.float64]
            drawn = [others[int(rng.integers(len(others)))]] if others else []
            exact = [calor.float64] if turn == 0 and calor.float64 in types else []
            for dtype in (*exact, *drawn):
                _ask(name, node, schema, opset, dtype, place.device)


_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "types-of-plain-operators": ("elementwise", "moving"),
    "types-of-other-operators": tuple(g for g in GROUPS if g not in ("elementwise", "moving")),
}


def types_of_operators() -> Iterator[Check]:
    """Yield a check of each part of the operators, if calor-onnx is installed."""
    if find_spec(PACKAGE) is None or find_spec("onnx") is None:
        return
    for subject, groups in _PARTS.items():
        yield Check(
            kind="models",
            subject=subject,
            tier="full",
            contract=CONTRACT,
            run=partial(_run, groups),
            text=partial(inspect.getsource, _ask),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
