"""Matrix instructions: their shapes, and the location of every element in a unit's registers.

A new device's instruction is one row. Layouts are those of the manufacturers' manuals (NVIDIA's PTX
ISA, AMD's Matrix Instruction Calculator), written in the algebra of CuTe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from calor.dtypes import DType, bfloat16, float16, float32, float64, int8, int32
from calor_kernel.language.layouts import Layout, Nested

Side = Literal["a", "b", "c"]


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """An instruction that computes c + a @ b, of m × k times k × n elements.

    ``a``, ``b`` and ``c`` are layouts of two modes, (lane, register) → row + rows × column, over
    the lanes of the instruction: a plane, a warpgroup (128 lanes), or a single unit. ``pieces`` are
    the vector lengths of a lane's elements of a, b and c. ``tf32``: only the upper 19 bits of the
    factors count. ``formats``: the float8 formats of the bytes of a and b. ``feature``: the
    required device feature.
    """

    name: str
    m: int
    n: int
    k: int
    a_dtype: DType
    c_dtype: DType
    a: Layout
    b: Layout
    c: Layout
    feature: str = "matrix"
    tf32: bool = False
    pieces: tuple[int, int, int] | None = None
    formats: tuple[DType, DType] | None = None

    @property
    def lanes(self) -> int:
        """The number of units that share a matrix."""
        return self.c[0].size

    def extent(self, side: Side) -> tuple[int, int]:
        """Return the rows and columns of a (m × k), b (k × n) or c (m × n)."""
        return {"a": (self.m, self.k), "b": (self.k, self.n), "c": (self.m, self.n)}[side]

    def layout(self, side: Side) -> Layout:
        """Return the layout of a side."""
        return {"a": self.a, "b": self.b, "c": self.c}[side]

    def dtype(self, side: Side) -> DType:
        """Return the element type of a side."""
        return self.c_dtype if side == "c" else self.a_dtype

    def piece(self, side: Side) -> int:
        """Return the vector length of a lane's elements of a side."""
        if self.pieces is None:
            return self.layout(side)[1].size
        return self.pieces["abc".index(side)]


@dataclass(frozen=True, slots=True)
class Holding:
    """One side of an instruction, named for operations: the element of each register."""

    shape: MatrixShape
    side: Side

    @property
    def name(self) -> str:
        """The instruction and the side."""
        return f"{self.shape.name}.{self.side}"

    @property
    def tf32(self) -> bool:
        """Whether only the upper 19 bits of an element count."""
        return self.shape.tf32 and self.side != "c"

    @property
    def coordinates(self) -> np.ndarray[Any, Any]:
        """Row and column by lane and register: an array [lanes, registers, 2]."""
        return np.moveaxis(lane_places(self.shape, self.side), 0, -1)


@lru_cache(maxsize=256)
def register_places(shape: MatrixShape, side: Side) -> tuple[tuple[int, int], ...]:
    """Return the row and column of each register relative to register 0."""
    rows = shape.extent(side)[0]
    registers = shape.layout(side)[1]
    return tuple((registers(r) % rows, registers(r) // rows) for r in range(registers.size))


@lru_cache(maxsize=256)
def lane_places(shape: MatrixShape, side: Side) -> np.ndarray[Any, Any]:
    """Return row and column of every lane's registers: an array [2, lanes, registers]."""
    layout = shape.layout(side)
    offsets = layout(np.arange(layout.size)).reshape(layout[1].size, layout[0].size).T
    return np.stack([offsets % shape.extent(side)[0], offsets // shape.extent(side)[0]])


def _sums(dtype: DType) -> DType:
    """Return the type of the sums of an instruction on a dtype."""
    return int32 if dtype is int8 else dtype if dtype is float64 else float32


def _plane(
    kind: str, extent: tuple[int, int, int], dtype: DType, a: Layout, b: Layout, c: Layout
) -> MatrixShape:
    """Return an instruction of a plane, named for its kind, extent and dtype."""
    name = f"{kind}_{'x'.join(map(str, extent))}_{dtype.name}"
    tf32 = dtype is float32 and kind == "mma"
    return MatrixShape(name, *extent, dtype, _sums(dtype), a, b, c, tf32=tf32)


@lru_cache
def mma_16x8(dtype: DType) -> MatrixShape:
    """Return mma.sync.m16n8 of a plane of 32: float16, bfloat16 (k 16), int8 (k 32), TF32 (k 8)."""
    e = 4 // dtype.itemsize  # elements along k in a register of 32 bits
    k = 8 * e
    a = Layout(((4, 8), (e, 2, 2)), ((16 * e, 1), (16, 8, 64 * e)))
    b = Layout(((4, 8), (e, 2)), ((e, k), (1, 4 * e)))
    c = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    return _plane("mma", (16, 8, k), dtype, a, b, c)


def _mma_pairs() -> MatrixShape:
    """The TF32 instruction of :func:`mma_16x8` with its terms in another order.

    A lane has two adjacent terms, as it has two adjacent sums. So sums are an operand of the next
    product in place, and a lane's terms of a row are one access.
    """
    a, b = Layout(((4, 8), (2, 2)), ((32, 1), (8, 16))), Layout(((4, 8), 2), ((2, 8), 1))
    return replace(mma_16x8(float32), name=PAIRS, a=a, b=b)


def _mma_8x8x4_float64() -> MatrixShape:
    a = Layout(((4, 8), 1), ((8, 1), 0))
    b = Layout(((4, 8), 1), ((1, 4), 0))
    return _plane("mma", (8, 8, 4), float64, a, b, Layout(((4, 8), 2), ((16, 1), 8)))


PAIRS: Final = "mma_16x8x8_float32_pairs"
"""The name of the TF32 instruction whose lanes have adjacent terms."""
MMA_8X8X4_FLOAT64: Final = _mma_8x8x4_float64()


def wgmma_64(n: int, dtype: DType, formats: tuple[DType, DType] | None = None) -> MatrixShape:
    """Return wgmma.m64 of a warpgroup, n up to 256 by eights; b is shared, a optionally.

    Sums of float8 bytes (``formats``) have fewer bits than float32: about 14 (DeepSeek-V3 Technical
    Report, 2024, 3.3.2).
    """
    if n % 8 or not 8 <= n <= 256:
        raise ValueError(f"wgmma has n from 8 to 256 by eights, not {n}")
    e = 4 // dtype.itemsize
    k = 8 * e
    name = f"wgmma_64x{n}x{k}_{'_'.join(f.name for f in formats or (dtype,))}"
    a = Layout(((4, 8, 4), (e, 2, 2)), ((64 * e, 1, 16), (64, 8, 256 * e)))
    # No lane holds b: it is read from shared memory.
    b = Layout((1, (k, n)), (0, (1, k)))
    c = Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512)))
    more: dict[str, Any] = {"feature": "async_matrix", "tf32": dtype is float32, "formats": formats}
    return MatrixShape(name, 64, n, k, dtype, _sums(dtype), a, b, c, **more)


def _mfma(m: int, k: int, dtype: DType) -> MatrixShape:
    """AMD's mfma of a plane of 64: m × m × k, with ``m`` adjacent lanes along m and n."""
    groups = 64 // m
    e = k // groups
    blocks: Nested = (4, m // (4 * groups)) if m > 4 * groups else 4
    steps: Nested = (1, 4 * groups) if m > 4 * groups else 1
    a = Layout(((m, groups), e), ((1, m * e), m))
    b = Layout(((m, groups), e), ((k, e), 1))
    return _plane("mfma", (m, m, k), dtype, a, b, Layout(((m, groups), blocks), ((m, 4), steps)))


def _wmma(dtype: DType) -> MatrixShape:
    """AMD's wmma of a plane of 32: 16 × 16 × 16, both halves of the plane with the same factors."""
    a, b = (Layout(((16, 2), 16), strides) for strides in (((1, 0), 16), ((16, 0), 1)))
    return _plane("wmma", (16, 16, 16), dtype, a, b, Layout(((16, 2), 8), ((16, 1), 2)))


def _simdgroup(dtype: DType) -> MatrixShape:
    """Metal's simdgroup_matrix of a plane of 32: 8 × 8 × 8, with the layout found by MLX."""
    lanes = Layout(((2, 4, 2, 2), 2), ((16, 1, 32, 4), 8))
    return _plane("simdgroup", (8, 8, 8), dtype, lanes, lanes, lanes)


def scalar(m: int, n: int, k: int, dtype: DType = float32, c: DType | None = None) -> MatrixShape:
    """Return the shape for a single unit, with vectors of n lanes and no instruction.

    For n a multiple of the device's vector length, c takes m × n / vector registers. Products are
    added in order of k, by fma if c is floating-point.

    >>> scalar(4, 8, 1).name
    'scalar_4x8x1_float32'
    """
    a, b, total = (
        Layout((1, sizes), (0, (step, 1)))
        for sizes, step in (((k, m), m), ((n, k), k), ((n, m), m))
    )
    name = f"scalar_{m}x{n}x{k}_{dtype.name}"
    return MatrixShape(name, m, n, k, dtype, c or dtype, a, b, total, "", pieces=(1, n, n))


_SHAPES = (
    *(mma_16x8(dtype) for dtype in (float16, bfloat16, int8, float32)),
    _mma_pairs(),
    MMA_8X8X4_FLOAT64,
    *(_mfma(32, 8, dtype) for dtype in (float16, bfloat16)),
    *(_mfma(16, 16, dtype) for dtype in (float16, bfloat16)),
    *(_mfma(m, k, float32) for m, k in ((32, 2), (16, 4))),
    *(_wmma(dtype) for dtype in (float16, bfloat16)),
    *(_simdgroup(dtype) for dtype in (float16, bfloat16, float32)),
)
SHAPES: Final[Mapping[str, MatrixShape]] = MappingProxyType({s.name: s for s in _SHAPES})
"""The instructions of planes by name; those of warpgroups, by :func:`wgmma_64`, have any n."""
