"""Small ONNX models for the tests of the model server."""

from __future__ import annotations

from pathlib import Path

import onnx

DOUBLE = """
    <ir_version: 8, opset_import: ["" : 17]>
    double (float[N, 3] x) => (float[N, 3] y, int64[N] place) {
        y = Add (x, x)
        place = ArgMax <axis = 1, keepdims = 0> (x)
    }"""
PICKED = """
    <ir_version: 8, opset_import: ["" : 17]>
    picked (int64[N] i) => (float[N] y) <float[4] table = {1, 2, 3, 4}> { y = Gather (table, i) }"""
# A row depends on those beside it.
CENTRED = """
    <ir_version: 8, opset_import: ["" : 18]>
    centred (float[N, 3] x) => (float[N, 3] y) <int64[1] axes = {0}> {
        mean = ReduceMean (x, axes)
        y = Sub (x, mean)
    }"""
# The sum has no rows.
SUMMED = """
    <ir_version: 8, opset_import: ["" : 17]>
    summed (float[N, 3] x) => (float[3] y) <int64[1] axes = {0}> {
        y = ReduceSum <keepdims = 0> (x, axes)
    }"""
FIXED = """
    <ir_version: 8, opset_import: ["" : 17]>
    fixed (float[1, 3] x) => (float[1, 3] y) { y = Add (x, x) }"""
TWO = """
    <ir_version: 8, opset_import: ["" : 17]>
    two (float[N, T] a, float[N, T] b) => (float[N, T] y) { y = Mul (a, b) }"""
TEXTS = """
    <ir_version: 8, opset_import: ["" : 17]>
    texts (string[N] x) => (string[N] y) { y = Identity (x) }"""
# One of each type.
TYPES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float",
    "FP64": "double",
}


def typed(datatype: str) -> str:
    """Return a model that gives what it takes, of a datatype."""
    kind = TYPES[datatype]
    return f"""
        <ir_version: 8, opset_import: ["" : 17]>
        typed ({kind}[N, 2] x) => ({kind}[N, 2] y) {{ y = Identity (x) }}"""


def write(folder: Path, **texts: str) -> list[Path]:
    """Write models to files with these names; return the files."""
    paths = []
    for name, text in texts.items():
        path = folder / f"{name}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(onnx.parser.parse_model(text), str(path))
        paths.append(path)
    return paths
