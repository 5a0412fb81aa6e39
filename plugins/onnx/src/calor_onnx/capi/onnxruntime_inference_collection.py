"""What packages take from the module in which ONNX Runtime defines its session."""

from calor_onnx.session.binding import IOBinding
from calor_onnx.session.inference import InferenceSession, Session
from calor_onnx.session.values import OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session"]
