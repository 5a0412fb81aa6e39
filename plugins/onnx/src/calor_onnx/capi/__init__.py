"""The modules under ``onnxruntime.capi`` from which packages import."""

from calor_onnx.capi import _pybind_state as _pybind_state
from calor_onnx.capi import onnxruntime_inference_collection as onnxruntime_inference_collection
from calor_onnx.capi import onnxruntime_pybind11_state as onnxruntime_pybind11_state
