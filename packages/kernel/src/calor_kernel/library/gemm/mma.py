"""Panels of operands in shared memory, and their products by matrix instructions.

Requirements: products, convolutions and attention use the same steps. Copies fill stages ahead of
the work, parts of panels become fragments, instructions add products to sums in registers, and an
epilogue writes the sums. Only the shape of the instruction says which instruction it is and whether
it is asynchronous. (The levels of tiles are those of CUTLASS; Kerr et al., "CUTLASS: Fast Linear
Algebra in CUDA C++", 2017.)
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

from calor.dtypes import DType, bfloat16, float16
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.language.matrices import SHAPES, Side, mma_16x8, wgmma_64
from calor_kernel.library.gemm.pipeline import Loader, accumulate

# Bytes of an access, and of a line of shared memory for warp-group instructions.
ACCESS = 16
_LINE = 128
# Bytes of elements that lanes read one by one off the K axis, and the accesses between their lines.
_SINGLE, _PAD = 4, 2

SQUARE: Final = "simdgroup_8x8x8_float32"
# The plane instructions for operands of one half type, and those for all other types, which are
# converted to float32. A device has those in DeviceInfo.matrices.
_HALVES: Final = ("mfma_32x32x8_{}", "wmma_16x16x16_{}")
_WHOLE: Final = ("mfma_32x32x2_float32", SQUARE)

Sums = list[list[kl.Fragment]]
"""A plane's or group's tiles of sums, down and across."""
Operands = Sequence[Sequence[kl.Fragment]]
"""Operands that registers hold: of each step along the summed axis, those of all tiles."""


def instruction_for(dtypes: Set[DType], info: DeviceInfo) -> str:
    """Return the device's matrix instruction for operands of these dtypes; "" if it has none."""
    halves = dtypes <= {float16, bfloat16} and len(dtypes) == 1
    names = [name.format(dtype.name) for name in _HALVES for dtype in dtypes] if halves else []
    return next((name for name in (*names, *_WHOLE) if name in info.matrices), "")


def loads_together(info: DeviceInfo) -> bool:
    """Return whether planes have 32 units, asynchronous copies and cooperative matrix loads."""
    return info.planes[0] == 32 and info.has("load_matrix") and info.has("async_copy")


def shape_of(instruction: str, dtype: DType, columns: int) -> kl.MatrixShape:
    """Return the shape of an instruction by name; without a name that of warp groups or planes.

    ``columns``: the columns of a warp group's sums, 0 for planes.
    """
    if instruction:
        return SHAPES[instruction]
    return wgmma_64(columns, dtype) if columns else mma_16x8(dtype)


def plane_of(instruction: str) -> int:
    """Return the plane size that an instruction needs."""
    return SHAPES[instruction].lanes if instruction else 32


_Axis = tuple[int | tuple[int, ...], int | tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Panel:
    """``count`` lines of ``size`` dense elements each.

    For planes each line is padded by some accesses (``pad``), so that what lanes read together is
    in different banks: the lines of one load begin an access apart, and lanes that read single
    elements of four lines, as those of four bytes off the K axis, eight elements apart. For
    warp-group (``grouped``) instructions lines are swizzled in pieces of 128 bytes.
    """

    dtype: DType
    count: int
    size: int
    grouped: bool = False
    pad: int = 1

    @property
    def access(self) -> int:
        """The number of elements of an access."""
        return ACCESS // int(self.dtype.itemsize)

    def at(self, turned: bool = False) -> kl.Layout | kl.Swizzled:
        """Return the layout of (line, element), or of (element, line) if ``turned``."""
        line: _Axis = (self.count, self.size + self.pad * self.access)
        element: _Axis = (self.size, 1)
        if self.grouped:
            piece = _LINE // int(self.dtype.itemsize)
            line = (self.count, piece)
            if self.size > piece:
                element = ((piece, self.size // piece), (1, self.count * piece))
        sides = (element, line) if turned else (line, element)
        layout = kl.Layout(*map(tuple, zip(*sides, strict=True)))
        if not self.grouped:
            return layout
        return kl.Swizzled(kl.Swizzle(3, self.access.bit_length() - 1, 3), layout)

    @property
    def tile(self) -> kl.Tile:
        """The panel as a stage of a pipeline."""
        return kl.Tile(self.dtype, self.at(), align=1024 if self.grouped else 128)

    @property
    def nbytes(self) -> int:
        """The bytes of shared memory of the panel."""
        return self.tile.size * int(self.dtype.itemsize)

    def matrix(self, memory: kl.Pointer, turned: bool = False) -> kl.SharedMatrix:
        """Return the panel as a matrix whose rows are its lines; its columns if ``turned``."""
        return kl.SharedMatrix(memory, self.at(turned))


@dataclass(frozen=True, slots=True)
class MmaPlan:
    """A plan for matrix instructions: ``down`` by ``across`` planes share a tile of sums.

    A tile has ``rows`` by ``columns`` sums. A step has ``depth`` terms, and ``stages`` steps are in
    shared memory. ``a_along``, ``b_along``: whether the operand is dense along the K axis.
    ``grouped``: whether a warp group of four planes computes 64 rows asynchronously.
    ``instruction``: the name of the shape, if it is not the default one.
    """

    dtype: DType
    rows: int
    columns: int
    depth: int
    down: int
    across: int
    stages: int
    a_along: bool = True
    b_along: bool = True
    grouped: bool = False
    instruction: str = ""

    @property
    def kind(self) -> str:
        """The sums' owner: "fragments" for planes, "groups" for warp groups."""
        return "groups" if self.grouped else "fragments"

    @property
    def title(self) -> str:
        """The plan's name among the candidates."""
        return f"{self.kind} {self.rows}x{self.columns}x{self.depth} by {self.units}"

    @property
    def shape(self) -> kl.MatrixShape:
        """The shape of the instruction."""
        return shape_of(self.instruction, self.dtype, self.columns if self.grouped else 0)

    @property
    def units(self) -> int:
        """The units of a cube."""
        return plane_of(self.instruction) * self.down * self.across

    @property
    def access(self) -> int:
        """The number of elements of an access."""
        return ACCESS // int(self.dtype.itemsize)

    def panel(self, first: bool) -> Panel:
        """Return the panel of A, or of B: its lines run along the K axis or across it."""
        size, along = (self.rows, self.a_along) if first else (self.columns, self.b_along)
        count, dense = (size, self.depth) if along else (self.depth, size)
        # Matrix loads transpose half types alone, so lanes read wider elements off K one by one.
        single = not along and self.dtype.itemsize == _SINGLE
        return Panel(self.dtype, count, dense, self.grouped, _PAD if single else 1)

    def layout(self, first: bool) -> kl.Layout | kl.Swizzled:
        """Return the layout of (row, term) in the tile of A, or of (term, column) in that of B."""
        along = self.a_along if first else self.b_along
        return self.panel(first).at(turned=along != first)

    @property
    def tiles(self) -> tuple[kl.Tile, kl.Tile]:
        """The tiles of a stage."""
        return self.panel(True).tile, self.panel(False).tile

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return self.stages * (self.panel(True).nbytes + self.panel(False).nbytes)

    @kl.helper
    def sums(self) -> tuple[Sums, kl.Index, kl.Index]:
        """Return the sums of a plane or warp group, and their first row and column."""
        shape = self.shape
        if self.grouped:
            return [[kl.fragment(shape, "c")]], kl.group_of(shape) * shape.m, 0
        plane = kl.plane_position()
        high, wide = self.rows // self.down, self.columns // self.across
        row, column = plane // self.across * high, plane % self.across * wide
        return sums_of(shape, high // shape.m, wide // shape.n), row, column

    @kl.helper
    def multiply(self, sums: Sums, pipe: kl.Pipeline, row: kl.Index, column: kl.Index) -> None:
        """Add a stage's products to the sums of a plane or warp group, and wait for them."""
        left = kl.SharedMatrix(pipe.stage(0), self.layout(True))
        right = kl.SharedMatrix(pipe.stage(1), self.layout(False))
        add_products(sums, left, right, self.depth, row, column)
        settle(sums)

    @kl.helper
    def accumulate(
        self,
        sums: Sums,
        pipe: kl.Pipeline,
        loaders: Sequence[Loader],
        row: kl.Index,
        column: kl.Index,
        begin: kl.Index,
        end: kl.Index,
    ) -> None:
        """Add the products of the terms from ``begin`` to ``end``, which the loaders copy."""

        def work(at: kl.Number) -> None:
            self.multiply(sums, pipe, row, column)

        accumulate(pipe, loaders, work, begin, end, self.depth)


def sums_of(shape: kl.MatrixShape, down: int, across: int) -> Sums:
    """Return sums of 0 for ``down`` by ``across`` tiles of an instruction."""
    return [[kl.fragment(shape, "c") for _ in range(across)] for _ in range(down)]


def taken(
    matrix: kl.SharedMatrix, shape: kl.MatrixShape, first: bool, row: kl.Index, column: kl.Index
) -> kl.Fragment:
    """Return the fragment at a row and column as the first or the second operand."""
    side: Side = "a" if first else "b"
    piece = matrix.tile(shape.extent(side), (row, column))
    return kl.fragment(shape, side).load(piece.pointer, piece.at)


def held(
    matrix: kl.SharedMatrix,
    shape: kl.MatrixShape,
    first: bool,
    count: int,
    depth: int,
    place: kl.Index,
) -> Operands:
    """Return ``count`` fragments of rows, or of columns, from a position on."""
    step = shape.m if first else shape.n
    places = [place + i * step for i in range(count)]
    return [
        [taken(matrix, shape, first, *((i, p) if first else (p, i))) for i in places]
        for p in range(0, depth, shape.k)
    ]


def add_products(
    sums: Sums,
    left: kl.SharedMatrix | Operands,
    right: kl.SharedMatrix | Operands,
    depth: int,
    row: kl.Index = 0,
    column: kl.Index = 0,
) -> None:
    """Add products of rows of ``left`` from ``row`` on and columns of ``right`` from ``column`` on.

    ``depth`` terms are summed. Both operands are matrices in shared memory, or one of them is
    fragments in registers. Asynchronous products need :func:`settle` before the sums are read.
    """
    shape = sums[0][0].shape
    steps = range(0, depth, shape.k)
    if shape.feature == "async_matrix":
        assert isinstance(right, kl.SharedMatrix)
        pieces = [
            left.tile((shape.m, shape.k), (row, p))
            if isinstance(left, kl.SharedMatrix)
            else left[p // shape.k][0]
            for p in steps
        ]
        rights = [right.tile((shape.k, shape.n), (p, column)) for p in steps]
        kl.issue_mma(sums[0][0], list(zip(pieces, rights, strict=True)))
        return
    high, wide = range(len(sums)), range(len(sums[0]))
    # A step's fragments of one operand stay in registers; those of the other follow one by one.
    for number, p in enumerate(steps):
        if isinstance(right, kl.SharedMatrix):
            lefts = (
                [taken(left, shape, True, row + i * shape.m, p) for i in high]
                if isinstance(left, kl.SharedMatrix)
                else left[number]
            )
            for j in wide:
                one = taken(right, shape, False, p, column + j * shape.n)
                for i in high:
                    kl.mma(lefts[i], one, sums[i][j])
        else:
            assert isinstance(left, kl.SharedMatrix)
            for i in high:
                one = taken(left, shape, True, row + i * shape.m, p)
                for j in wide:
                    kl.mma(one, right[number][j], sums[i][j])


def settle(*sums: Sums) -> None:
    """Wait for asynchronous products."""
    if sums[0][0][0].shape.feature == "async_matrix":
        kl.wait_mma(*(made[0][0] for made in sums))


@kl.helper
def store(
    sums: Sums,
    target: kl.Pointer,
    first: kl.Index,
    pitch: kl.Index,
    limits: tuple[kl.Index, kl.Index] | None,
    turned: bool = False,
) -> None:
    """Write sums to rows ``pitch`` apart, from an index on, up to the ``limits`` if there are any.

    ``limits`` are the numbers of rows and columns. ``turned`` sums are transposed: tiles have the
    order of the result, and a row of the result is a column of a tile.
    """
    shape = sums[0][0].shape
    high, wide = (shape.n, shape.m) if turned else (shape.m, shape.n)
    for i in range(len(sums)):
        for j in range(len(sums[0])):
            down, right = i * high, j * wide
            place = target.at(first + down * pitch + right)
            left = None if limits is None else (limits[0] - down, limits[1] - right)
            steps: tuple[kl.Index, kl.Index] = (pitch, 1)
            if turned:
                steps, left = (1, pitch), None if left is None else left[::-1]
            sums[i][j].store(place, steps, limits=left)
