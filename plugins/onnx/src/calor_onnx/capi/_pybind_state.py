"""Another module name under which packages import ONNX Runtime's compiled module."""

from calor_onnx.capi.onnxruntime_pybind11_state import *  # noqa: F403 - it has an __all__
from calor_onnx.capi.onnxruntime_pybind11_state import __getattr__ as __getattr__
