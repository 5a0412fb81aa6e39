"""Kernel images on disk, loaded without building the kernel again.

Requirements: an image is keyed by its build. Stored beside it is the data for loading (name,
parameters, cube, plane), so a program with known kernels builds none.
"""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import fields
from typing import Any, Final

from calor.dtypes import as_dtype, uint8
from calor_kernel.contract.work import Build
from calor_kernel.device.description import build_text, module_digest, sources_digest
from calor_kernel.device.protocol import Device
from calor_kernel.device.storage import Storage, bundle_directories, cache_directory, keeps
from calor_kernel.ir import types
from calor_kernel.ir.nodes import Block, Kernel, Memory, Parameter, Value
from calor_kernel.ir.types import Buffer, Type

_FORM: Final = 1
KERNELS: Final = "kernels"


def image_storage() -> Storage:
    """Return the storage of images; CALOR_CACHE=0 keeps none."""
    directory = cache_directory() / KERNELS if keeps() else None
    return Storage(directory, [path / KERNELS for path in bundle_directories()])


class Images:
    """The stored images of one device's toolchain."""

    def __init__(self, device: Device, storage: Storage | None = None) -> None:
        self.storage = image_storage() if storage is None else storage
        toolchain = device.toolchain
        parts = (
            str(_FORM),
            sources_digest(),
            *dict.fromkeys(module_digest(c.__module__) for c in toolchain.classes()),
            f"{type(toolchain).__module__}.{type(toolchain).__qualname__}",
            toolchain.target,
            ",".join(sorted(device.info.features)),
        )
        self._prefix = "\n".join(parts)

    def key(self, build: Build) -> str:
        """Return the key of a build; KernelTypeError for a part without a persistent name."""
        return hashlib.sha256(f"{self._prefix}\n{build_text(build)}".encode()).hexdigest()

    def read(self, key: str) -> tuple[bytes, Kernel] | None:
        """Return an image and an outline of its kernel: everything except the body."""
        data = self.storage.read(key)
        if data is None:
            return None
        header, _, image = data.partition(b"\n")
        return image, outline(json.loads(header))

    def write(self, key: str, image: bytes, kernel: Kernel) -> None:
        """Store an image."""
        header = outline_data(kernel)
        if header is not None:
            self.storage.write(key, json.dumps(header).encode() + b"\n" + image)


def outline_data(kernel: Kernel) -> dict[str, Any] | None:
    """Return an outline as plain data; None if attributes are not plain."""
    try:
        attributes = repr(dict(kernel.attributes))
        ast.literal_eval(attributes)
    except (ValueError, SyntaxError):
        return None
    return {
        "name": kernel.name,
        "parameters": [_parameter_data(p) for p in kernel.parameters],
        "cube": kernel.cube,
        "plane": kernel.plane,
        "shared": kernel.shared_bytes,
        "attributes": attributes,
    }


def _parameter_data(parameter: Parameter) -> list[Any]:
    declared = parameter.declared
    parts = {f.name: getattr(declared, f.name) for f in fields(declared)}
    parts["dtype"] = declared.dtype.name
    return [parameter.name, type(declared).__name__, parts]


def outline(data: dict[str, Any]) -> Kernel:
    """Return the kernel without its body."""
    shared = data["shared"]
    memories = (Memory("shared", "shared", Type(uint8), shared),) if shared else ()
    return Kernel(
        data["name"],
        tuple(_parameter(*p) for p in data["parameters"]),
        Block(),
        tuple(data["cube"]),
        data["plane"],
        memories,
        ast.literal_eval(data["attributes"]),
    )


def _parameter(name: str, kind: str, parts: dict[str, Any]) -> Parameter:
    dtype = as_dtype(parts["dtype"])
    declared = getattr(types, kind)(**{**parts, "dtype": dtype})
    if isinstance(declared, Buffer):
        memory = Memory(
            name, "global", Type(dtype), align=declared.align, writable=declared.writable
        )
        return Parameter(name, declared, memory=memory)
    return Parameter(name, declared, value=Value(Type(dtype), name))
