"""calor-onnx under the name onnxruntime; see ``calor_onnx.session.replacing``."""

from calor_onnx.session import *  # noqa: F403 - the names are those of the session package
from calor_onnx.session import __version__ as __version__

from . import capi as capi


def __getattr__(name: str) -> object:
    from calor_onnx.session.absent import absent

    raise absent(__name__, name)
