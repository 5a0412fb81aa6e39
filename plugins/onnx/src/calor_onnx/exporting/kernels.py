"""Element types in which ONNX's operators are computed.

Requirements: exported models run in the usual runtimes. ONNX Runtime's CPU provider (1.31) lacks
kernels for some types that ONNX permits. Their operands are cast to a type that represents all
their numbers, and the result is cast back. No type is narrowed: float64 stays, even if only other
runtimes support it.
"""

from __future__ import annotations

from typing import Final

from calor import dtypes
from calor.dtypes import DType

_SIGNED = "int8 int16 int32 int64"
_UNSIGNED = "uint8 uint16 uint32 uint64"
_FLOATS = "float16 float32 float64"
_WHOLE = f"{_SIGNED} {_UNSIGNED}"
_NUMBERS = f"{_WHOLE} {_FLOATS}"
_ANY = f"bool {_NUMBERS}"
_WIDE = f"int32 int64 {_FLOATS}"

_ROWS: Final = {
    "Neg": f"{_SIGNED} {_FLOATS}",
    "Pow": _WIDE,
    "Max Min": f"int8 int32 int64 uint8 uint32 uint64 {_FLOATS}",
    "Equal": _ANY,
    "Add Sub Mul Div Mod Abs Sign Less LessOrEqual Greater GreaterOrEqual": _NUMBERS,
    "And Or Xor Not": "bool",
    "BitwiseAnd BitwiseOr BitwiseXor BitwiseNot": _WHOLE,
    "BitShift": "uint8 uint32 uint64",
    "MatMul": f"int32 int64 uint32 uint64 {_FLOATS}",
    "ReduceSum ReduceProd CumSum": _WIDE,
    "CumProd": f"int32 int64 uint32 uint64 {_FLOATS}",
    "ReduceMax ReduceMin": f"int8 int32 int64 uint8 {_FLOATS}",
    "ArgMax ArgMin": f"int8 int32 int64 uint8 {_FLOATS}",
    "TopK": f"int8 int16 int32 int64 uint8 {_FLOATS}",
    "Where": f"int8 int32 int64 uint8 uint32 {_FLOATS}",
    "Expand": _ANY,
    "Pad": f"bool int8 int32 int64 uint8 uint32 uint64 {_FLOATS}",
    "MaxPool": f"int8 uint8 {_FLOATS}",
    "Relu": f"int8 int32 {_FLOATS}",
    "Range": "int16 int32 int64 float32 float64",
    "IsNaN IsInf LayerNormalization": f"bfloat16 {_FLOATS}",
    "Floor Ceil Round Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf "
    "Sigmoid Softmax LogSoftmax Gelu Reciprocal Conv ConvTranspose AveragePool RMSNormalization "
    "Attention Det": _FLOATS,
}
TYPES: Final = {
    operator: frozenset(names.split()) for ops, names in _ROWS.items() for operator in ops.split()
}
# For each type, the types that represent all its numbers, the narrowest first.
_WIDER: Final = {
    "bool": "uint8 int32",
    "int8": "int16 int32 int64 float32",
    "uint8": "int16 int32 int64 float32",
    "int16": "int32 int64 float32",
    "uint16": "int32 int64 float32",
    "int32": "int64 float64",
    "uint32": "int64 float64",
    "uint64": "int64",
    "float16": "float32",
    "bfloat16": "float32",
}


def computed_in(operator: str, dtype: DType) -> DType | None:
    """Return the type to cast to before an operator, possibly the type itself, or None.

    uint64 is computed as int64 with the same bits; only ordering and division of large numbers
    differ.
    """
    known = TYPES.get(operator)
    if known is None or dtype.name in known:
        return dtype
    names = _WIDER.get(dtype.name, "").split()
    return next((dtypes.as_dtype(name) for name in names if name in known), None)
