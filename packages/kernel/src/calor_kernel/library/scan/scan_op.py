"""The operation of a scan: how two values are combined, and its neutral element."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from calor.dtypes import DType, float32
from calor_kernel.language import Number, constant, max, min

# The operation of a reduction of lanes, by the kind of a scan.
REDUCTIONS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


@dataclass(frozen=True, slots=True)
class ScanOp:
    """The operation: its kind ("sum", "prod", "max", "min"), dtype and neutral element."""

    kind: str
    accumulate: DType
    identity: float

    @staticmethod
    def of(kind: str, dtype: DType) -> ScanOp:
        """Return the operation on elements of a dtype; 16-bit floats accumulate in float32."""
        half = dtype.kind == "float" and dtype.itemsize == 2
        accumulate = float32 if half else dtype
        return ScanOp(kind, accumulate, _identity(kind, accumulate))

    @property
    def rounds(self) -> bool:
        """Whether the order of the operations changes bits of the result."""
        return self.accumulate.kind == "float" and self.kind in ("sum", "prod")

    def neutral(self, width: int = 1) -> Number:
        """Return the neutral element in each lane."""
        floating = self.accumulate.kind == "float"
        return constant(self.identity if floating else int(self.identity), self.accumulate, width)

    def combine(self, a: Number, b: Number) -> Number:
        """Combine two values lane by lane; a scalar is combined with every lane."""
        if self.kind == "sum":
            return a + b
        if self.kind == "prod":
            return a * b
        return max(a, b) if self.kind == "max" else min(a, b)


def _identity(kind: str, dtype: DType) -> float:
    if kind not in ("max", "min"):
        return {"sum": 0, "prod": 1}[kind]
    if dtype.kind == "float":
        return -inf if kind == "max" else inf
    bits = dtype.itemsize * 8
    low = -(1 << (bits - 1)) if dtype.kind == "int" else 0
    high = (1 << (bits - 1 if dtype.kind == "int" else bits)) - 1
    return low if kind == "max" else high
