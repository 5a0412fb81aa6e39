"""ONNX models on calor: import any model at run time, and run it on any device."""

from calor_onnx import capi as capi
from calor_onnx.applying import apply
from calor_onnx.errors import (
    DataDependentError,
    InputError,
    ModelError,
    TypeConstraintError,
    UnsupportedOperatorsError,
)
from calor_onnx.exporting import ExportError, export
from calor_onnx.graph import Graph, Node, ValueInfo
from calor_onnx.model import Model, load
from calor_onnx.modules import OnnxModule, as_module
from calor_onnx.registry import operator
from calor_onnx.session import *  # noqa: F403 - the names that programs use of onnxruntime
from calor_onnx.session import __all__ as _session
from calor_onnx.session import __version__ as __version__
from calor_onnx.writing import to_python

__all__ = [
    "DataDependentError",
    "ExportError",
    "Graph",
    "InputError",
    "Model",
    "ModelError",
    "Node",
    "OnnxModule",
    "TypeConstraintError",
    "UnsupportedOperatorsError",
    "ValueInfo",
    "apply",
    "as_module",
    "export",
    "load",
    "operator",
    "to_python",
]
__all__ += _session


def __getattr__(name: str) -> object:
    """Tell of names of ONNX Runtime that are not here what to do instead."""
    from calor_onnx.session.absent import absent

    raise absent(__name__, name)
