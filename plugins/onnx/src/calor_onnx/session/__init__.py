"""The interface of ONNX Runtime for Python, on calor: what packages written against it touch.

Requirements: ``import calor_onnx as onnxruntime`` serves such a package unchanged; a setting that
means nothing here is accepted and its docstring says so; one that would change results, and is not
supported, raises. The names are those of ONNX Runtime, which is why some are unlike calor's.
"""

from typing import Any

from calor_onnx.session import faults
from calor_onnx.session.absent import absent
from calor_onnx.session.binding import IOBinding
from calor_onnx.session.described import ModelMetadata, NodeArg
from calor_onnx.session.hardware import (
    OrtAllocatorType,
    OrtArenaCfg,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtEpAssignedNode,
    OrtEpAssignedSubgraph,
    OrtEpDevice,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDevice,
    OrtHardwareDeviceType,
    OrtMemoryInfo,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    get_ep_devices,
)
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
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from calor_onnx.session.replacing import API_VERSION, replace_onnxruntime
from calor_onnx.session.values import OrtDevice, OrtValue, copy_tensors

__version__ = API_VERSION
version = API_VERSION
package_name = "onnxruntime"
cuda_version = ""
SessionIOBinding = IOBinding

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "__version__",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "cuda_version",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "faults",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "package_name",
    "preload_dlls",
    "print_debug_info",
    "replace_onnxruntime",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "version",
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


def set_global_thread_pool_sizes(
    intra_op_num_threads: int = 0, inter_op_num_threads: int = 0
) -> None:
    """Do nothing: the number of threads is the device's, CALOR_CPU_THREADS."""


def has_collective_ops() -> bool:
    """Return False: models of ONNX run on one device."""
    return False


def print_debug_info() -> None:
    """Print the version and the providers that are here."""
    print(f"{get_build_info()} {API_VERSION}: {', '.join(get_available_providers())}")


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
