"""The classes of calor-onnx that packages look for under this name."""

from calor_onnx.capi.onnxruntime_inference_collection import *  # noqa: F403 - it has an __all__
