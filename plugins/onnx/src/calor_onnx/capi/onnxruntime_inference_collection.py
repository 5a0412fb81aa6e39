"""The names that packages import from ONNX Runtime's module of sessions."""

from calor_onnx.session.binding import IOBinding
from calor_onnx.session.inference import InferenceSession, Session
from calor_onnx.session.values import OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session"]
