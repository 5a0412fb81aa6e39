"""Operators that make or read types of few bits: by their ranges, roundings and infinities."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Draw, Node, Rng, coin, option, some

# The name of a type, the first opset that has it, and whether it has whole numbers.
_TYPES: Final = {
    "FLOAT8E4M3FN": (19, False), "FLOAT8E4M3FNUZ": (19, False), "FLOAT8E5M2": (19, False),
    "FLOAT8E5M2FNUZ": (19, False), "UINT4": (21, True), "INT4": (21, True),
    "FLOAT4E2M1": (23, False), "FLOAT8E8M0": (24, False),
}  # fmt: skip
# Ends of ranges, halves of last steps, numbers below the least one, and what is no number.
_EDGES: Final = (
    0.0, -0.0, 240.0, 248.0, 256.0, 448.0, 463.9, 464.0, 480.0, 57344.0, 61439.0, 61440.0, 1e30,
    np.inf, np.nan, 2.0**-9, 2.0**-10, 2.0**-17, 2.0**-18, 1.0625, 1.125, 1.1875, 5.0, 6.0, 7.0,
)  # fmt: skip


def _kind(rng: Rng) -> tuple[str, int, bool]:
    import onnx

    newest = onnx.defs.onnx_opset_version()
    name = str(rng.choice([n for n, (opset, _) in _TYPES.items() if opset <= newest]))
    return (name, *_TYPES[name])


def _type(name: str) -> Any:
    """Return a type of few bits as NumPy has it."""
    import onnx

    return onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, name))


def _numbers(rng: Rng, name: str, whole: bool) -> Array:
    """Return numbers of which some are at edges; those that a type of whole numbers has."""
    if whole:
        low, high = (0, 15) if name == "UINT4" else (-8, 7)
        return rng.uniform(low, high, 9).astype(np.float32)
    edges = rng.choice(_EDGES, 8) * rng.choice([1.0, -1.0], 8)
    made = np.concatenate([edges, rng.normal(size=5) * 2.0 ** rng.integers(-6, 9, 5)])
    return np.asarray(np.abs(made) if name == "FLOAT8E8M0" else made, np.float32)


def _options(rng: Rng, name: str, whole: bool) -> dict[str, Any]:
    if name == "FLOAT8E8M0":
        return option(rng, {"round_mode": str(rng.choice(["up", "down", "nearest"]))}, 0.8)
    return {} if whole or name == "FLOAT4E2M1" else option(rng, {"saturate": int(coin(rng))}, 0.8)


def _cast(rng: Rng) -> Node:
    import onnx

    if coin(rng, 0.3):
        return _cast_back(rng)
    name, opset, whole = _kind(rng)
    to = int(getattr(onnx.TensorProto, name))
    return Node([_numbers(rng, name, whole)], {"to": to, **_options(rng, name, whole)}, opset=opset)


def _cast_back(rng: Rng) -> Node:
    """Numbers of few bits as float32 or float16."""
    name, opset, whole = _kind(rng)
    x = _numbers(rng, name, whole).astype(_type(name))
    return Node([x], {"to": int(rng.choice([1, 10]))}, opset=opset)


def _cast_like(rng: Rng) -> Node:
    name, opset, whole = _kind(rng)
    like = np.ones(1, np.float32).astype(_type(name))
    # ONNX's evaluator rounds by no mode here.
    more = {} if name == "FLOAT8E8M0" else _options(rng, name, whole)
    return Node([_numbers(rng, name, whole), like], more, opset=opset)


def _dequantize(rng: Rng) -> Node:
    """Numbers of few bits times a scale, of the whole or of each row."""
    name = str(rng.choice([n for n, (opset, _) in _TYPES.items() if opset < 23]))
    opset, whole = _TYPES[name]
    x = np.where(np.isfinite(held := _numbers(rng, name, whole)), held, 1)[:8].reshape(2, 4)
    rows = coin(rng) and coin(rng)
    scale = np.asarray(rng.uniform(0.1, 2, (2,) if rows else ()), np.float32)
    given = [np.clip(x, -200, 200).astype(_type(name)), scale]
    return Node(given, {"axis": 0} if rows else {}, opset=max(opset, 21))


def _quantize(rng: Rng) -> Node:
    """Numbers over a scale in a floating type of few bits, with a zero point of that type."""
    name = str(rng.choice(["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"]))
    x = some(rng, 2, 4) * float(rng.choice([1, 300]))
    zero = np.zeros((), np.float32).astype(_type(name))
    # A power of two moves no number to the middle of two others.
    scale = np.float32(2.0 ** int(rng.integers(-3, 4)))
    return Node([x, scale, np.asarray(zero)], option(rng, {"saturate": int(coin(rng))}),
                opset=int(rng.choice([19, 21])))  # fmt: skip


ROWS: Final[dict[str, Draw]] = {
    "Cast": _cast, "CastLike": _cast_like, "DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
}  # fmt: skip
