"""Kernel images on disk, loaded without building the kernel again.

Requirements: an image is keyed by the canonical text of its build, equal in every process.
Everything that may change the image is in the text or in the digests of the sources; a value
without a persistent name is an error, never an address. Stored beside the image is the data for
loading (name, parameters, cube, plane), so a program with known kernels builds none.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType
from typing import Any, Final

from calor.cache import cache_directory, keeps
from calor.dtypes import DType, as_dtype, uint8
from calor.interning import remember
from calor_kernel.contract.work import Build
from calor_kernel.device.protocol import Device
from calor_kernel.device.storage import Storage, bundle_directories
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir import types
from calor_kernel.ir.nodes import Block, Kernel, Memory, Parameter, Value
from calor_kernel.ir.types import Buffer, Scalar, Type
from calor_kernel.language.kernel import KernelFunction

_FORM: Final = 1
KERNELS: Final = "kernels"
# The folders that determine an image, beside the kernel's own module.
ROOMS: Final = ("contract", "ir", "language", "library", "printers")
_DECLARED: dict[int, tuple[Buffer | Scalar, str]] = {}


def image_storage() -> Storage:
    """Return the storage of images; CALOR_CACHE=0 keeps none."""
    directory = cache_directory() / KERNELS if keeps() else None
    return Storage(directory, [path / KERNELS for path in bundle_directories()])


class Images:
    """The stored images of one device's toolchain."""

    def __init__(self, device: Device) -> None:
        self.storage = image_storage()
        toolchain = device.toolchain
        parts = (
            str(_FORM),
            sources_digest(),
            *dict.fromkeys(module_digest(c.__module__) for c in toolchain.classes()),
            f"{type(toolchain).__module__}.{type(toolchain).__qualname__}",
            toolchain.target,
            ",".join(sorted(device.info.features)),
        )
        self.prefix = "\n".join(parts)

    def key(self, build: Build) -> str:
        """Return the key of a build; KernelTypeError for a part without a persistent name."""
        return hashlib.sha256(f"{self.prefix}\n{build_text(build)}".encode()).hexdigest()

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
        _attributes(data["attributes"]),
    )


# Kernels have thousands of parameters of a few kinds, and few have attributes.
@lru_cache(256)
def _attributes(text: str) -> Mapping[str, Any]:
    return MappingProxyType(ast.literal_eval(text))


@lru_cache(256)
def _declaration(kind: str, *parts: tuple[str, Any]) -> Buffer | Scalar:
    given = dict(parts)
    made: Buffer | Scalar = getattr(types, kind)(**{**given, "dtype": as_dtype(given["dtype"])})
    return made


def _parameter(name: str, kind: str, parts: dict[str, Any]) -> Parameter:
    declared = _declaration(kind, *parts.items())
    dtype = declared.dtype
    if isinstance(declared, Buffer):
        memory = Memory(
            name, "global", Type(dtype), align=declared.align, writable=declared.writable
        )
        return Parameter(name, declared, memory=memory)
    return Parameter(name, declared, value=Value(Type(dtype), name))


def build_text(build: Build) -> str:
    """Return the text of a build; KernelTypeError if a part of it has no persistent name."""
    if not _has_file(build.function.function):
        raise KernelTypeError(
            f"kernel {build.function.name} has no file (it may be from a notebook), so its "
            f"callees may differ in the next process; define it in a module"
        )
    folded = " folded" * build.folded + " guarded" * build.guarded
    beside = "" if build.beside is None else f" {build.beside}"
    if build.mixed is not None:
        beside = "\n".join([f" mixed {build.mixed.deep}", *map(build_text, build.mixed.builds)])
    parts = (
        describe(build.function),
        f"({','.join(map(_declared, build.signature))})",
        describe(build.keywords),
        f"{build.cube} {build.plane} {build.index.name}{folded} {build.counts}{beside}",
    )
    return "\n".join(parts)


def _declared(parameter: Buffer | Scalar) -> str:
    """Describe a parameter; most are one of a few objects of their family."""
    found = _DECLARED.get(id(parameter))
    if found is None:
        # Keyed by identity, because equal values may differ in their text; the reference keeps it
        # alive.
        found = remember(_DECLARED, id(parameter), (parameter, describe(parameter)))
    return found[1]


def describe(value: Any) -> str:
    """Return a value as text by type and bits.

    >>> describe((1, 1.0, True, "a", None))
    "(i1,f0x1.0000000000000p+0,bTrue,s'a',n)"
    """
    kind = type(value)
    if value is None:
        return "n"
    if kind is float:
        return f"f{value.hex()}"
    if kind in (bool, int, str, bytes):
        return f"{kind.__name__[0]}{value!r}"
    if kind is DType:
        return f"d{value.name}"
    if isinstance(value, Enum):
        return f"e{_name(kind)}.{value.name}"
    if isinstance(value, tuple | list):
        name = "" if kind in (tuple, list) else _name(kind)
        return f"{name}({','.join(map(describe, value))})"
    if isinstance(value, frozenset | set):
        return f"{{{','.join(sorted(map(describe, value)))}}}"
    if isinstance(value, Mapping):
        return f"m({','.join(f'{describe(k)}:{describe(v)}' for k, v in value.items())})"
    if is_dataclass(value) and not isinstance(value, type):
        items = ",".join(f"{f.name}={describe(getattr(value, f.name))}" for f in fields(value))
        return f"{_name(kind)}[{module_digest(kind.__module__)}]({items})"
    if isinstance(value, KernelFunction):
        return f"k{_function(value.function)}"
    if isinstance(value, FunctionType):
        return _function(value)
    if isinstance(value, BuiltinFunctionType | type):
        return f"t{_name(value)}"
    raise KernelTypeError(
        f"{value!r} cannot be a build-time argument of a kernel: a {kind.__name__} has no "
        f"persistent text; use numbers, text, tuples, dtypes, functions or frozen dataclasses"
    )


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _function(function: Any) -> str:
    """Return a function's name and module; for a local one also its code and closure."""
    function = getattr(function, "__wrapped__", function)
    text = f"{_name(function)}[{module_digest(function.__module__ or '__main__')}]"
    if "<" not in function.__qualname__ and _has_file(function):
        return text
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    defaults = (function.__defaults__, function.__kwdefaults__)
    return f"{text}{_code(function.__code__)}{describe(tuple(held))}{describe(defaults)}"


def _has_file(function: Any) -> bool:
    """Return whether a function's source file is covered by the digests."""
    name = function.__module__
    if name is None or not Path(function.__code__.co_filename).is_file():
        return False
    return name.partition(".")[0] == "calor_kernel" or bool(module_digest(name))


def _code(code: CodeType) -> str:
    constants = ",".join(_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return f"<{code.co_code.hex()}|{constants}|{names}>"


@cache
def module_digest(name: str) -> str:
    """Return a digest of the sources of a module's package; calor-kernel's own are apart."""
    root = name.partition(".")[0]
    if root == "calor_kernel":
        return ""
    module = sys.modules.get(root if root != "__main__" else name)
    path = getattr(module, "__file__", None)
    if path is None:
        spec = importlib.util.find_spec(root) if root != "__main__" else None
        path = None if spec is None else spec.origin
    if path is None:
        return ""
    folder, file = os.path.split(path)
    files = _sources(folder) if file == "__init__.py" else [path]
    own = getattr(sys.modules.get(name), "__file__", None)
    if own is not None and own not in files:
        files.append(own)
    return _digest(files)


@cache
def sources_digest(rooms: tuple[str, ...] = ROOMS) -> str:
    """Return a digest of calor-kernel's sources in some folders: those that determine an image."""
    root = Path(__file__).parents[1]
    return _digest([file for room in rooms for file in _sources(root / room)])


def _sources(folder: str | Path) -> list[str]:
    """Return the modules in a folder and its subfolders, in a deterministic order."""
    found: list[str] = []
    for at, inner, names in os.walk(folder):
        inner.sort()
        found += [os.path.join(at, name) for name in sorted(names) if name.endswith(".py")]
    return found


def _digest(files: list[str]) -> str:
    """Return a digest of files; every program reads them all, so no Path objects are made."""
    found = hashlib.sha256()
    for file in files:
        try:
            with open(file, "rb", buffering=0) as source:
                data = source.read()
        except OSError:
            data = b""
        found.update(f"{os.path.basename(file)} {len(data)}\n".encode() + data)
    return found.hexdigest()[:16]
