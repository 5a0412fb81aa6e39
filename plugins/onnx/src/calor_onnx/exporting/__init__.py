"""Export: a function or module of calor as an ONNX model."""

from calor_onnx.exporting.errors import ExportError
from calor_onnx.exporting.models import NEWEST, export

__all__ = ["NEWEST", "ExportError", "export"]
