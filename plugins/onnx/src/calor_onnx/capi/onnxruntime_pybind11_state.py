"""The names that packages import from ONNX Runtime's compiled module."""

from typing import Any

from calor_onnx.session.described import ModelMetadata, NodeArg
from calor_onnx.session.faults import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
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
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
)

__all__ = [
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "ModelMetadata",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotFound",
    "NotImplemented",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]

# Values in the order of their names.
OrtValueVector = list


def __getattr__(name: str) -> Any:
    """Return the interface's object of that name, or raise an error with an alternative."""
    from calor_onnx import session
    from calor_onnx.session.absent import absent

    if name in session.__all__:
        return getattr(session, name)
    raise absent(__name__, name)
