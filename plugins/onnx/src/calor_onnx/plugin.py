"""The plugin of calor-onnx: the importer of ".onnx" files. It imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calor.plugins import hookimpl


def _load(path: Any, **options: Any) -> Any:
    from calor_onnx.model import load

    return load(path, **options)


@hookimpl
def calor_importers() -> Mapping[str, Callable[..., Any]]:
    """Return the importer of ONNX models; its option ``device`` selects the device."""
    return {"onnx": _load}
