"""One operation of an elementwise expression, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType


@dataclass(frozen=True, slots=True)
class Step:
    """One op of an expression: its name, operands by index, attributes, and the result's dtype."""

    op: str
    operands: tuple[int, ...]
    dtype: DType
    attributes: tuple[tuple[str, Any], ...] = ()
