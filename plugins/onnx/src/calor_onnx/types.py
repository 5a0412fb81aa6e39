"""The element types of ONNX as NumPy and ml_dtypes types.

Strings are NumPy arrays of objects. Types that no device of calor has (four bits and fewer, and the
rarer floats of eight bits) have a *carrier*: a wider type that can represent all their numbers.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from calor import dtypes
from calor.dtypes import DType
from calor_onnx.errors import ModelError

HostType = np.dtype[Any]

# The numbers of TensorProto.DataType.
DATA_TYPES: Final[dict[str, int]] = {
    name: number
    for number, name in enumerate(
        (
            "UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING",
            "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16",
            "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4", "INT4",
            "FLOAT4E2M1", "FLOAT8E8M0", "UINT2", "INT2", "FLOAT6E2M3", "FLOAT6E3M2",
        )
    )
}  # fmt: skip
# ONNX's names of element types, as in ``tensor(float)``, by number.
TYPE_NAMES: Final = {number: name.lower() for name, number in DATA_TYPES.items()}
NUMPY: Final[dict[int, HostType]] = {
    DATA_TYPES[name]: np.dtype(kind)
    for name, kind in {
        "FLOAT": np.float32,
        "UINT8": np.uint8,
        "INT8": np.int8,
        "UINT16": np.uint16,
        "INT16": np.int16,
        "INT32": np.int32,
        "INT64": np.int64,
        "STRING": np.object_,
        "BOOL": np.bool_,
        "FLOAT16": np.float16,
        "DOUBLE": np.float64,
        "UINT32": np.uint32,
        "UINT64": np.uint64,
        "COMPLEX64": np.complex64,
        "COMPLEX128": np.complex128,
        "BFLOAT16": ml_dtypes.bfloat16,
        "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
        "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
        "FLOAT8E5M2": ml_dtypes.float8_e5m2,
        "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
        "UINT4": ml_dtypes.uint4,
        "INT4": ml_dtypes.int4,
        "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
        "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu,
        "UINT2": ml_dtypes.uint2,
        "INT2": ml_dtypes.int2,
        "FLOAT6E2M3": ml_dtypes.float6_e2m3fn,
        "FLOAT6E3M2": ml_dtypes.float6_e3m2fn,
    }.items()
}
ELEMENT: Final[dict[HostType, int]] = {host: number for number, host in NUMPY.items()}
STRING: Final = np.dtype(np.object_)
# Types with packed elements, and their bits per element.
PACKED: Final[dict[HostType, int]] = {
    np.dtype(ml_dtypes.int4): 4,
    np.dtype(ml_dtypes.uint4): 4,
    np.dtype(ml_dtypes.float4_e2m1fn): 4,
    np.dtype(ml_dtypes.int2): 2,
    np.dtype(ml_dtypes.uint2): 2,
    np.dtype(ml_dtypes.float6_e2m3fn): 6,
    np.dtype(ml_dtypes.float6_e3m2fn): 6,
}
CARRIERS: Final[dict[HostType, DType]] = {
    np.dtype(ml_dtypes.int4): dtypes.int8,
    np.dtype(ml_dtypes.uint4): dtypes.uint8,
    np.dtype(ml_dtypes.int2): dtypes.int8,
    np.dtype(ml_dtypes.uint2): dtypes.uint8,
    np.dtype(ml_dtypes.float4_e2m1fn): dtypes.float32,
    np.dtype(ml_dtypes.float6_e2m3fn): dtypes.float32,
    np.dtype(ml_dtypes.float6_e3m2fn): dtypes.float32,
    np.dtype(ml_dtypes.float8_e4m3fnuz): dtypes.float32,
    np.dtype(ml_dtypes.float8_e5m2fnuz): dtypes.float32,
    np.dtype(ml_dtypes.float8_e8m0fnu): dtypes.float32,
}
_CALOR: Final = {known.numpy: known for known in dtypes.ALL}


def numpy_type(element: int, where: str = "") -> HostType:
    """Return the host's type for a number of TensorProto.DataType.

    Raises
    ------
    ModelError
        If ONNX has no such element type.
    """
    found = NUMPY.get(element)
    if found is None:
        raise ModelError(f"{where or 'a value'} has the element type {element}, which ONNX lacks")
    return found


def element_type(host: HostType) -> int:
    """Return the number of TensorProto.DataType for a host's type."""
    return ELEMENT[STRING if host.kind in "SUT" else host]


def calor_type(host: HostType) -> DType | None:
    """Return calor's type of the same elements, or None."""
    return _CALOR.get(host)


def name_of(host: HostType) -> str:
    """Return the usual name of a type: ``float32``, ``string``, ``int4``."""
    return "string" if host == STRING else str(host.name)
