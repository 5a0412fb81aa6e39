"""What calor-wgpu uses of wgpu-py, and what its errors mean to calor.

Requirements: every failure of the driver becomes a typed error in one place; importing this loads
the driver, so that only what runs on a device does; OpenGL is left out, for it lacks what kernels
need, and each of its devices has a better name.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import wgpu
from wgpu.backends.wgpu_native import _api as native
from wgpu.backends.wgpu_native.extras import set_instance_extras

from calor.errors import CompileError, DeviceError, DeviceLostError, OutOfMemoryError

_BACKENDS: Final = ("Vulkan", "Metal", "DX12")
# What is asked for where the adapter has it.
_WANTED: Final = frozenset(
    (
        "shader-f64",
        "shader-float32-atomic",
        "shader-int64",
        "shader-int64-atomic-all-ops",
        "subgroup",
        "subgroup-barrier",
        "timestamp-query",
    )
)
STORAGE: Final = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST


@contextmanager
def typed(what: str) -> Iterator[None]:
    """Turn errors of wgpu into those of calor; ``what`` says what was tried."""
    try:
        yield
    except wgpu.GPUOutOfMemoryError as error:
        raise OutOfMemoryError(f"wgpu: out of memory: {what}") from error
    except (wgpu.GPUError, RuntimeError) as error:
        kind = DeviceLostError if "lost" in str(error).lower() else DeviceError
        if isinstance(error, DeviceError):
            raise
        raise kind(f"wgpu: {what}: {error}") from error


@contextmanager
def _runtime_directory() -> Iterator[None]:
    """Name a folder where XDG_RUNTIME_DIR is not set: Mesa's drivers look for a screen there, and
    a library of theirs complains on standard error where they cannot.
    """
    if os.environ.get("XDG_RUNTIME_DIR"):
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


@cache
def adapters() -> tuple[Any, ...]:
    """Return the adapters that compute, in the drivers' order.

    ``CALOR_WGPU_ADAPTER`` keeps those whose name contains it, in any case.
    """
    set_instance_extras(backends=_BACKENDS)
    wanted = os.environ.get("CALOR_WGPU_ADAPTER", "").lower()
    try:
        with _runtime_directory():
            found = wgpu.gpu.enumerate_adapters_sync()
    except RuntimeError:
        # The loader says that there is no driver by an error.
        return ()
    return tuple(
        a
        for a in found
        if a.info["backend_type"] in _BACKENDS and wanted in a.info["device"].lower()
    )


def count() -> int:
    """Return how many adapters there are."""
    return len(adapters())


@cache
def device(number: int) -> Any:
    """Return the device of an adapter, one in a process, with the most that the adapter allows.

    ``CALOR_WGPU_WITHOUT`` names features that are not asked for, with commas between.
    """
    adapter = adapters()[number]
    without = os.environ.get("CALOR_WGPU_WITHOUT", "").split(",")
    features = sorted((_WANTED & adapter.features) - {w.strip() for w in without})
    with typed(f"opening device {number}"), _runtime_directory():
        return adapter.request_device_sync(
            required_features=features, required_limits=dict(adapter.limits)
        )


def module(number: int, text: str, name: str) -> Any:
    """Return the shader module of a text; CompileError with the compiler's message and the text.

    naga adds no checks of bounds and of endless loops to calor's kernels, which are checked where
    they run on lanes; ``CALOR_WGPU_CHECKS=1`` lets it.
    """
    opened = device(number)
    try:
        if os.environ.get("CALOR_WGPU_CHECKS", "0") not in ("", "0"):
            return opened.create_shader_module(code=text, label=name)
        return _trusted(opened, text, name)
    except wgpu.GPUError as error:
        raise CompileError(f"wgpu refuses kernel {name!r}: {error}\n{text}") from error


def _trusted(opened: Any, text: str, name: str) -> Any:
    """Return a shader module without checks at run time, which wgpu-py has no method for."""
    source = native.new_struct_p("WGPUShaderSourceWGSL *", code=native.to_c_string_view(text))
    source[0].chain.next = native.ffi.NULL
    source[0].chain.sType = native.lib.WGPUSType_ShaderSourceWGSL
    descriptor = native.new_struct_p(
        "WGPUShaderModuleDescriptor *",
        nextInChain=native.ffi.cast("WGPUChainedStruct *", source),
        label=native.to_c_string_view(name),
    )
    made = native.libf.wgpuDeviceCreateShaderModuleTrusted(opened._internal, descriptor, 0)
    return native.GPUShaderModule(name, made, opened)


def nanoseconds(opened: Any) -> float:
    """Return the nanoseconds of a step of the device's clock."""
    return float(native.libf.wgpuQueueGetTimestampPeriod(opened.queue._internal))
