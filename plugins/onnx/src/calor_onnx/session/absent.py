"""Names of ONNX Runtime without a counterpart here, each with an alternative.

Access to such a name raises an AttributeError with the alternative, so ``hasattr`` and a tried
import tell a program that the name is missing.
"""

from __future__ import annotations

from typing import Final

from calor_onnx.session import faults

_SPARSE: Final = "calor has no sparse tensors; sparse weights of a model become dense ones"
_ADAPTER: Final = (
    "add an adapter to the model's weights before loading it, or train one with "
    "calor_onnx.as_module(model)"
)
_COMPILER: Final = "a model is compiled at run time for the shapes of its inputs; load it unchanged"
_LIBRARY: Final = (
    "devices are plugins of calor, installed with pip; add operators with @calor_onnx.operator"
)
_PACKAGE: Final = "load the one model of the package that is to run"
_STREAM: Final = "calor orders the work of a device; wait for it with calor.synchronize(device)"
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
# Alternatives of methods and options that raise when they are called.
ADAPTER, COMPILER, SPARSE = _ADAPTER, _COMPILER, _SPARSE


class AbsentError(faults.NotImplemented, AttributeError):
    """A name of ONNX Runtime that calor-onnx does not have."""


def refused(name: str, instead: str) -> faults.NotImplemented:
    """Return the error of a method without a counterpart here."""
    return faults.NotImplemented(f"calor-onnx has no {name}: {instead}")


def absent(module: str, name: str) -> AttributeError:
    """Return the error of a name that a module does not have.

    Examples
    --------
    >>> from calor_onnx.session.absent import absent
    >>> str(absent("calor_onnx", "nothing"))
    "module 'calor_onnx' has no attribute 'nothing'"
    """
    if name in ABSENT:
        return AbsentError(f"calor-onnx has no {name}: {ABSENT[name]}")
    return AttributeError(f"module {module!r} has no attribute {name!r}")
