"""Conversions between element types."""

from __future__ import annotations

from typing import Any

import calor
from calor_onnx.call import Call
from calor_onnx.registry import operator
from calor_onnx.types import calor_type, numpy_type


@operator("Cast", since=6)
def cast(call: Call, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """The elements in another type."""
    return calor.astype(x, calor_type(numpy_type(to)))
