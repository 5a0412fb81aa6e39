"""Which extra of calor brings which name: what an error about a missing one says to install."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

OFFICIAL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu": "cpu",
        "cuda": "cuda",
        "group": "distributed",
        "hip": "hip",
        "http": "http",
        "https": "http",
        "interpreter": "interpreter",
        "metal": "metal",
        "opencl": "opencl",
        "router": "router",
        "strict": "conformance",
        "wgpu": "wgpu",
        "importer.onnx": "onnx",
    }
)


def advice(name: str) -> str:
    """Return the command that installs what brings a name; empty when no extra of calor does."""
    extra = OFFICIAL.get(name)
    return f'pip install "calor[{extra}]"' if extra else ""
