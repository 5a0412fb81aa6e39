"""Choosing elements by their places, and writing to them."""

from __future__ import annotations

from typing import Any

import calor
from calor_onnx.call import Call
from calor_onnx.registry import operator


@operator("Where", since=9, moves=True)
def where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y, broadcast."""
    return calor.where(condition, x, y)
