"""Execution providers and the devices that implement them.

A provider without an installed device is skipped with a warning, as in ONNX Runtime. If none is
left, the CPU runs the model. The environment variable CALOR_ONNXRUNTIME_DEVICE names a device that
replaces all requested providers.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

from calor.backends.device import Device
from calor.device_selection import as_device, current_device
from calor.errors import CalorError
from calor.plugins.discovery import installed, registry

VARIABLE: Final = "CALOR_ONNXRUNTIME_DEVICE"
CPU: Final = "CPUExecutionProvider"
# Programs take the first available provider, so the order is: GPUs, the CPU, then interfaces
# whose driver may be a software renderer.
DEVICES: Final = {
    "CUDAExecutionProvider": "cuda",
    "ROCMExecutionProvider": "hip",
    "MetalExecutionProvider": "metal",
    CPU: "cpu",
    "WebGpuExecutionProvider": "wgpu",
    "OpenCLExecutionProvider": "opencl",
}
# Providers that name the same device as another one.
_ALIASES: Final = {
    "TensorrtExecutionProvider": "CUDAExecutionProvider",
    "NvTensorRTRTXExecutionProvider": "CUDAExecutionProvider",
    "MIGraphXExecutionProvider": "ROCMExecutionProvider",
    "CoreMLExecutionProvider": "MetalExecutionProvider",
}


def get_all_providers() -> list[str]:
    """Return the providers that calor supports, the fastest first.

    Returns
    -------
    list of str
        Names of providers.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.get_all_providers()[0]
    'CUDAExecutionProvider'
    """
    return list(DEVICES)


def get_available_providers() -> list[str]:
    """Return the providers with an installed device, the fastest first. The CPU is always one.

    Returns
    -------
    list of str
        Names of providers.

    Examples
    --------
    >>> import calor_onnx
    >>> "CPUExecutionProvider" in calor_onnx.get_available_providers()
    True
    """
    return [name for name, device in DEVICES.items() if name == CPU or _present(device)]


def get_device() -> str:
    """Return the kind of the best available device.

    Returns
    -------
    str
        "GPU" or "CPU".

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.get_device() in ("CPU", "GPU")
    True
    """
    return "CPU" if get_available_providers()[0] == CPU else "GPU"


def set_default_logger_severity(severity: int) -> None:
    """Do nothing: calor-onnx has no log. It raises errors, and warns through Python's warnings.

    Parameters
    ----------
    severity : int
        Ignored.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.set_default_logger_severity(3)
    """


def set_default_logger_callback(callback: Callable[..., None] | None, severity: int = 2) -> None:
    """Do nothing: calor-onnx has no log.

    Parameters
    ----------
    callback : callable or None
        Ignored.
    severity : int, default 2
        Ignored.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.set_default_logger_callback(print)
    """


def set_default_logger_verbosity(verbosity: int) -> None:
    """Do nothing: calor-onnx has no log.

    Parameters
    ----------
    verbosity : int
        Ignored.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.set_default_logger_verbosity(0)
    """


def chosen(providers: Sequence[Any] | None, options: Sequence[Any] | None) -> tuple[str, Device]:
    """Return the provider and device for a session's arguments.

    Providers are names, or pairs of a name and options. The name of a calor device is a provider
    too. Without providers it is the current device.
    """
    forced = os.environ.get(VARIABLE)
    if forced:
        device = as_device(forced)
        return provider_of(device), device
    if not providers:
        device = current_device()
        return provider_of(device), device
    for place, item in enumerate([providers] if isinstance(providers, str) else providers):
        name, given = (item[0], item[1]) if isinstance(item, tuple | list) else (item, None)
        if given is None and options is not None and place < len(options):
            given = options[place]
        found = _device(name, given or {})
        if found is not None:
            return name, found
    return CPU, processor()


def provider_of(device: Device) -> str:
    """Return the name of a device's provider, or that of the CPU if it has none."""
    kind = device.name.partition(":")[0]
    return next((name for name, known in DEVICES.items() if known == kind), CPU)


def processor() -> Device:
    """Return the device of the CPU provider: ``cpu``, or the reference without that plugin."""
    return as_device("cpu" if "cpu" in installed() else "numpy")


def _device(name: Any, options: dict[str, Any]) -> Device | None:
    if name == CPU:
        return processor()
    provider = _ALIASES.get(name, name)
    kind = DEVICES.get(provider, provider)
    if isinstance(kind, str) and kind.partition(":")[0] in installed() and _present(kind):
        number = options.get("device_id")
        return as_device(kind if number is None or ":" in kind else f"{kind}:{number}")
    if name != "AzureExecutionProvider":
        here = ", ".join(get_available_providers())
        advice = f'; pip install "calor[{kind}]" adds it' if provider in DEVICES else ""
        warnings.warn(
            f"the provider {name!r} is skipped, because its device is not installed; available: "
            f"{here}{advice}",
            stacklevel=4,
        )
    return None


def _present(device: str) -> bool:
    kind = device.partition(":")[0]
    try:
        return kind in installed() and registry.backend(kind).enumerate() > 0
    except CalorError:
        return False
