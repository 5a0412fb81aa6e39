"""ONNX models on calor: import any model at run time, and run it on any device."""

from calor_onnx.errors import (
    DataDependentError,
    InputError,
    ModelError,
    UnsupportedOperatorsError,
)
from calor_onnx.graph import Graph, Node, ValueInfo
from calor_onnx.model import Model, load
from calor_onnx.registry import operator

__all__ = [
    "DataDependentError",
    "Graph",
    "InputError",
    "Model",
    "ModelError",
    "Node",
    "UnsupportedOperatorsError",
    "ValueInfo",
    "load",
    "operator",
]
