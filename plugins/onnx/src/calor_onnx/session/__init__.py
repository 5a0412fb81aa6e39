"""The Python interface of ONNX Runtime, on calor.

Requirements: packages written for ONNX Runtime run unchanged on ``import calor_onnx as
onnxruntime``. Settings without a meaning here are accepted, and their docstrings say so.
Unsupported settings that would change results raise an error. Names are those of ONNX Runtime.
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
    """Return the version of ONNX Runtime whose interface this package follows.

    Returns
    -------
    str
        The version.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.get_version_string() == calor_onnx.__version__
    True
    """
    return API_VERSION


def get_build_info() -> str:
    """Return a description of the implementation.

    Returns
    -------
    str
        The description.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.get_build_info()
    'calor-onnx, with the interface of ONNX Runtime'
    """
    return "calor-onnx, with the interface of ONNX Runtime"


def enable_telemetry_events() -> None:
    """Do nothing: calor sends no telemetry.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.enable_telemetry_events()
    """


def disable_telemetry_events() -> None:
    """Do nothing: calor sends no telemetry.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.disable_telemetry_events()
    """


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Do nothing: a device loads its libraries at its first use.

    Parameters
    ----------
    cuda, cudnn, msvc : bool, default True
        Ignored.
    directory : str, default None
        Ignored.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.preload_dlls()
    """


def set_seed(seed: int) -> None:
    """Set the seed of random operators in models.

    Parameters
    ----------
    seed : int
        The seed of `calor.random`.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.set_seed(0)
    """
    import calor

    calor.random.seed(seed)


def set_global_thread_pool_sizes(
    intra_op_num_threads: int = 0, inter_op_num_threads: int = 0
) -> None:
    """Do nothing: the environment variable CALOR_CPU_THREADS sets the number of threads.

    Parameters
    ----------
    intra_op_num_threads, inter_op_num_threads : int, default 0
        Ignored.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.set_global_thread_pool_sizes(4, 1)
    """


def has_collective_ops() -> bool:
    """Return False: models of ONNX run on one device.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.has_collective_ops()
    False
    """
    return False


def print_debug_info() -> None:
    """Print the version and the available providers.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.print_debug_info()  # doctest: +ELLIPSIS
    calor-onnx, with the interface of ONNX Runtime ...: ...CPUExecutionProvider...
    """
    print(f"{get_build_info()} {API_VERSION}: {', '.join(get_available_providers())}")


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
