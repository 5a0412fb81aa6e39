"""ONNX models on calor: import, run, train, export and rewrite models on any device."""

from importlib import import_module
from typing import TYPE_CHECKING

from calor_onnx import capi as capi
from calor_onnx.applying import apply
from calor_onnx.errors import (
    DataDependentError,
    InputError,
    ModelError,
    TypeConstraintError,
    UnsupportedOperatorsError,
)
from calor_onnx.graph import Graph, Node, ValueInfo
from calor_onnx.model import Model, load
from calor_onnx.registry import operator
from calor_onnx.session import *  # noqa: F403 - the names that programs use of onnxruntime
from calor_onnx.session import __all__ as _session
from calor_onnx.session import __version__ as __version__

if TYPE_CHECKING:
    from calor_onnx.exporting import ExportError, export
    from calor_onnx.modules import OnnxModule, as_module
    from calor_onnx.writing import to_python

# What a program that only runs models does not need, by its module.
_LATE = {
    "ExportError": "exporting",
    "OnnxModule": "modules",
    "as_module": "modules",
    "export": "exporting",
    "to_python": "writing",
}

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
    """Import a late name; raise an error with an alternative for one that ONNX Runtime has."""
    if name in _LATE:
        globals()[name] = getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
        return globals()[name]
    from calor_onnx.session.absent import absent

    raise absent(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
