"""The interface of ONNX Runtime for Python, on calor: what packages written against it touch.

Requirements: ``import calor_onnx as onnxruntime`` serves such a package unchanged; a setting that
means nothing here is accepted and its docstring says so; one that would change results, and is not
supported, raises. The names are those of ONNX Runtime, which is why some are unlike calor's.
"""

from calor_onnx.session import faults
from calor_onnx.session.binding import IOBinding
from calor_onnx.session.described import ModelMetadata, NodeArg
from calor_onnx.session.inference import InferenceSession
from calor_onnx.session.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from calor_onnx.session.providers import (
    get_all_providers,
    get_available_providers,
    get_device,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from calor_onnx.session.replacing import API_VERSION, replace_onnxruntime
from calor_onnx.session.values import OrtDevice, OrtValue

__version__ = API_VERSION

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "__version__",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "faults",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "preload_dlls",
    "replace_onnxruntime",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]


def get_version_string() -> str:
    """Return the version of ONNX Runtime whose interface this follows."""
    return API_VERSION


def get_build_info() -> str:
    """Return what stands behind the interface.

    >>> import calor_onnx
    >>> calor_onnx.get_build_info()
    'calor-onnx, with the interface of ONNX Runtime'
    """
    return "calor-onnx, with the interface of ONNX Runtime"


def enable_telemetry_events() -> None:
    """Do nothing: calor reports to nobody."""


def disable_telemetry_events() -> None:
    """Do nothing: calor reports to nobody."""


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Do nothing: a device's libraries are loaded when the device is first asked for."""


def set_seed(seed: int) -> None:
    """Seed the random operators of models, by calor's generator.

    >>> import calor_onnx
    >>> calor_onnx.set_seed(0)
    """
    import calor

    calor.random.seed(seed)
