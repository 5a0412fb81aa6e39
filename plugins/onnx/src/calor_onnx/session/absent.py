"""Names of ONNX Runtime that have no meaning here, each with what to do instead.

Asking the module for one is an AttributeError that says so, so ``hasattr`` and an import that is
tried tell a program that it is not there.
"""

from __future__ import annotations

from typing import Final

from calor_onnx.session import faults

_SPARSE: Final = "calor has no sparse tensors; a model's sparse weights are taken as dense ones"
_ADAPTER: Final = (
    "adapters are added to a model's weights before it is loaded, or trained by "
    "calor_onnx.as_module(model)"
)
_COMPILER: Final = (
    "a model is compiled when it runs, for the shapes of its inputs; load it as it is"
)
_LIBRARY: Final = (
    "devices are calor's plugins: pip install one; operators are added with @calor_onnx.operator"
)
_PACKAGE: Final = "a package of models is taken apart first: load the one model that is to run"
_STREAM: Final = "a device's order of work is calor's own; calor.synchronize(device) waits for it"
ABSENT: Final = {
    "AdapterFormat": _ADAPTER,
    "LoraAdapter": _ADAPTER,
    "ModelCompiler": _COMPILER,
    "ModelPackage": _PACKAGE,
    "ModelPackageComponentContext": _PACKAGE,
    "ModelPackageContext": _PACKAGE,
    "ModelPackageOptions": _PACKAGE,
    "ModelPackageWriteMode": _PACKAGE,
    "OrtCompileApiFlags": _COMPILER,
    "OrtEpContextData": _COMPILER,
    "OrtEpContextDataBuffer": _COMPILER,
    "OrtExternalInitializerInfo": _COMPILER,
    "OrtSparseFormat": _SPARSE,
    "OrtSyncStream": _STREAM,
    "SparseTensor": _SPARSE,
    "register_execution_provider_library": _LIBRARY,
    "unregister_execution_provider_library": _LIBRARY,
}
# Methods and options that are refused when they are called.
ADAPTER, COMPILER, SPARSE = _ADAPTER, _COMPILER, _SPARSE


class AbsentError(faults.NotImplemented, AttributeError):
    """A name of ONNX Runtime that calor-onnx lacks."""


def refused(name: str, instead: str) -> faults.NotImplemented:
    """Return the error for a method that has no meaning here."""
    return faults.NotImplemented(f"calor-onnx has no {name}: {instead}")


def absent(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module lacks.

    >>> from calor_onnx.session.absent import absent
    >>> str(absent("calor_onnx", "nothing"))
    "module 'calor_onnx' has no attribute 'nothing'"
    """
    if name in ABSENT:
        return AbsentError(f"calor-onnx has no {name}: {ABSENT[name]}")
    return AttributeError(f"module {module!r} has no attribute {name!r}")
