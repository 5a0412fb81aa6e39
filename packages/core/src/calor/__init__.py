"""calor: tensors, gradients and compiled graphs on any device."""

import sys as _sys
from math import e, inf, nan, pi
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING

from calor import _arrays, dtypes, methods, random, tree
from calor._arrays import *  # noqa: F403 - its __all__ is added below
from calor.autocasting import autocast
from calor.companions import watch as _watch
from calor.default_dtype import default_dtype, set_default_dtype
from calor.device_control import devices, memory, set_memory_limit, synchronize
from calor.device_selection import device as device
from calor.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from calor.dtypes import bool_ as bool
from calor.functions.declared import *  # noqa: F403
from calor.functions.declared import NAMES as _DECLARED
from calor.keywords import explain as _explain
from calor.late import LATE as _LATE
from calor.late import imported as _imported
from calor.ops import on_demand as _on_demand
from calor.precision import matmul_precision
from calor.recording.records import enable_grad, no_grad
from calor.recording.views import shared_views, strict_views
from calor.tensor.tensor import Tensor
from calor.tensor.tensor import with_methods as _with_methods
from calor.transforms import control_gradients as _control_gradients
from calor.transforms.control import cond, fori_loop, scan, while_loop
from calor.transforms.custom import checkpoint, custom_vjp
from calor.transforms.evaluate import eval, trace
from calor.transforms.forward import jvp, linearize
from calor.transforms.grad import grad, stop_gradient, value_and_grad, vjp
from calor.transforms.jit import jit

# Imported for what they register: methods of tensors, rows of the op table, gradients of rows.
_REGISTERED = (methods, _on_demand, _control_gradients)
__array_api_version__ = "2024.12"
# Versions of the array API standard whose names and meanings calor has.
_STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12")
newaxis = None

__all__ = [
    "DType",
    "Tensor",
    "__array_api_version__",
    "autocast",
    "bfloat16",
    "bool",
    "bool_",
    "checkpoint",
    "complex64",
    "complex128",
    "cond",
    "custom_vjp",
    "default_dtype",
    "device",
    "devices",
    "dtypes",
    "e",
    "enable_grad",
    "eval",
    "fft",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "fori_loop",
    "grad",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "jit",
    "jvp",
    "linearize",
    "matmul_precision",
    "memory",
    "nan",
    "newaxis",
    "no_grad",
    "pi",
    "random",
    "scan",
    "set_default_dtype",
    "set_memory_limit",
    "shared_views",
    "stop_gradient",
    "strict_views",
    "synchronize",
    "trace",
    "tree",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vjp",
    "while_loop",
]
__all__ += _arrays.__all__
__all__ += _DECLARED
# What another distribution brings is no part of what `from calor import *` asks for.
__all__ += [name for name, home in _LATE.items() if home.startswith("calor.")]


if TYPE_CHECKING:
    from calor import distributed as distributed
    from calor import distributions as distributions
    from calor import fft
    from calor import linalg as linalg
    from calor import router as router
    from calor import signal as signal
    from calor import special as special
    from calor.late import *  # noqa: F403

    __version__: str
else:
    # What few programs need is imported when it is named, so that importing calor stays quick.
    _DOORS = (
        "distributed",
        "distributions",
        "drawing",
        "fft",
        "fusion",
        "linalg",
        "nn",
        "onnx",
        "router",
        "signal",
        "special",
        "train",
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATE, *_DOORS})

    # Hidden from type checkers, for which a module with __getattr__ has every attribute.
    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                known = version("calor")
            except PackageNotFoundError:
                known = "0+source"
            globals()[name] = known
            return known
        if name in _DOORS:
            from importlib import import_module

            from calor.errors import ExtensionError, PluginError

            try:
                return import_module(f"calor.{name}")
            except PluginError as error:
                # Programs ask by hasattr for what may not be there.
                raise ExtensionError(str(error)) from None
        if name in _LATE:
            globals()[name] = _imported(name, _LATE, "calor")
            return globals()[name]
        if name.startswith("_"):
            raise AttributeError(f"module 'calor' has no attribute {name!r}")
        from calor.migration import missing_name

        raise missing_name(name)


_explain(globals())
_explain(vars(random), "calor.random.")
_watch()


@_with_methods
class _Namespace(Tensor):
    """The method of tensors that returns this module."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> _ModuleType:
        """Return calor; ValueError for a version of the standard that it does not have."""
        if api_version is not None and api_version not in _STANDARDS:
            raise ValueError(
                f"calor has the array API standard of {', '.join(_STANDARDS)}, not {api_version!r}"
            )
        return _sys.modules[__name__]
