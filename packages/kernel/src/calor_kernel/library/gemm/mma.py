"""Panels of operands in shared memory, and products of them by matrix instructions.

Requirements: products, convolutions and attention have one form: copies fill stages ahead of the
work, pieces of panels become fragments, instructions add their products to sums in registers, and
sums are written where they belong; which instruction it is, and whether it runs beside the units,
is said by its shape alone. (The levels of tiles are those of CUTLASS; Kerr et al., "CUTLASS: Fast
Linear Algebra in CUDA C++", 2017.)
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from calor.dtypes import DType, bfloat16, float16
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.language import (
    Fragment,
    Layout,
    MatrixShape,
    Pipeline,
    SharedMatrix,
    Swizzle,
    Swizzled,
    Tile,
    fragment,
    group_of,
    helper,
    issue_mma,
    mma,
    plane_position,
    wait_mma,
)
from calor_kernel.language.matrices import SHAPES, Side, mma_16x8, wgmma_64
from calor_kernel.library.gemm.pipeline import Loader, accumulate

# The bytes of an access, and of a line of shared memory as instructions of groups read it.
ACCESS = 16
_LINE = 128

SQUARE: Final = "simdgroup_8x8x8_float32"
# The instructions of planes for factors of one half type, and those for any others, which become
# float32; a device has those that are in DeviceInfo.matrices.
_HALVES: Final = ("mfma_32x32x8_{}", "wmma_16x16x16_{}")
_WHOLE: Final = ("mfma_32x32x2_float32", SQUARE)

Sums = list[list[Fragment]]
"""A plane's or group's tiles of sums, down and across."""
Operands = Sequence[Sequence[Fragment]]
"""Operands that registers hold: of each step along the summed axis, those of all tiles."""


def instruction_for(dtypes: Set[DType], info: DeviceInfo) -> str:
    """Return the instruction of a device, of those chosen by name, for factors; "" for none."""
    halves = dtypes <= {float16, bfloat16} and len(dtypes) == 1
    names = [name.format(dtype.name) for name in _HALVES for dtype in dtypes] if halves else []
    return next((name for name in (*names, *_WHOLE) if name in info.matrices), "")


def loads_together(info: DeviceInfo) -> bool:
    """Return whether planes of 32 copy asynchronously and load operands together."""
    return info.planes[0] == 32 and info.has("load_matrix") and info.has("async_copy")


def shape_of(instruction: str, dtype: DType, columns: int) -> MatrixShape:
    """Return the shape of an instruction by name; without one for groups of planes, or planes.

    ``columns``: of the sums of a group, 0 for planes.
    """
    if instruction:
        return SHAPES[instruction]
    return wgmma_64(columns, dtype) if columns else mma_16x8(dtype)


def plane_of(instruction: str) -> int:
    """Return the units of the planes that an instruction is for."""
    return SHAPES[instruction].lanes if instruction else 32


@dataclass(frozen=True, slots=True)
class Panel:
    """``count`` lines of ``size`` dense elements each.

    Lines that planes read are padded by an access, so that the eight that are loaded together begin
    in different banks; those of ``grouped`` instructions are swizzled in pieces of 128 bytes.
    """

    dtype: DType
    count: int
    size: int
    grouped: bool = False

    @property
    def access(self) -> int:
        """The elements of an access."""
        return ACCESS // int(self.dtype.itemsize)

    def at(self, turned: bool = False) -> Layout | Swizzled:
        """Return where (line, element) lie, or (element, line) if ``turned``."""
        line: tuple[Any, Any] = (self.count, self.size + self.access)
        element: tuple[Any, Any] = (self.size, 1)
        if self.grouped:
            piece = _LINE // int(self.dtype.itemsize)
            line = (self.count, piece)
            if self.size > piece:
                element = ((piece, self.size // piece), (1, self.count * piece))
        sides = (element, line) if turned else (line, element)
        layout = Layout(*map(tuple, zip(*sides, strict=True)))
        if not self.grouped:
            return layout
        return Swizzled(Swizzle(3, self.access.bit_length() - 1, 3), layout)

    @property
    def tile(self) -> Tile:
        """The panel as a stage of a pipeline."""
        return Tile(self.dtype, self.at(), align=1024 if self.grouped else 128)

    @property
    def nbytes(self) -> int:
        """The bytes of shared memory that it takes."""
        return self.tile.size * int(self.dtype.itemsize)

    def matrix(self, memory: Any, turned: bool = False) -> SharedMatrix:
        """Return the panel as a matrix whose rows are its lines, or columns if ``turned``."""
        return SharedMatrix(memory, self.at(turned))


@dataclass(frozen=True, slots=True)
class Fragments:
    """How a product of matrices is computed: ``down`` by ``across`` planes share a tile of sums.

    A tile has ``rows`` by ``columns`` sums, and takes ``depth`` of the summed axis at a time, of
    which ``stages`` are in memory. ``a_along``, ``b_along``: whether the operand is dense along
    that axis. ``grouped``: whether four planes down compute 64 rows together, beside the units.
    ``instruction``: its name among the shapes, where it is not that of these.
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
        """What computes together: "fragments" of planes, or "groups" of them."""
        return "groups" if self.grouped else "fragments"

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return shape_of(self.instruction, self.dtype, self.columns if self.grouped else 0)

    @property
    def units(self) -> int:
        """The units of a cube."""
        return plane_of(self.instruction) * self.down * self.across

    @property
    def access(self) -> int:
        """The elements of an access."""
        return ACCESS // int(self.dtype.itemsize)

    def panel(self, first: bool) -> Panel:
        """Return the panel of a, or of b: lines along the summed axis, or of its places."""
        size, along = (self.rows, self.a_along) if first else (self.columns, self.b_along)
        count, dense = (size, self.depth) if along else (self.depth, size)
        return Panel(self.dtype, count, dense, self.grouped)

    def layout(self, first: bool) -> Layout | Swizzled:
        """Return where (row, term) of the tile of a, or (term, column) of that of b, lie."""
        along = self.a_along if first else self.b_along
        return self.panel(first).at(turned=along != first)

    @property
    def tiles(self) -> tuple[Tile, Tile]:
        """The tiles of a stage."""
        return self.panel(True).tile, self.panel(False).tile

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return self.stages * (self.panel(True).nbytes + self.panel(False).nbytes)

    @helper
    def sums(self) -> tuple[Sums, Any, Any]:
        """Return a plane's or group's sums, and the row and column at which they begin."""
        shape = self.shape
        if self.grouped:
            return [[fragment(shape, "c")]], group_of(shape) * shape.m, 0
        plane = plane_position()
        high, wide = self.rows // self.down, self.columns // self.across
        row, column = plane // self.across * high, plane % self.across * wide
        return sums_of(shape, high // shape.m, wide // shape.n), row, column

    @helper
    def multiply(self, sums: Sums, pipe: Pipeline, row: Any, column: Any) -> None:
        """Add the products of a plane's or group's rows and columns of a stage, at once."""
        left = SharedMatrix(pipe.stage(0), self.layout(True))
        right = SharedMatrix(pipe.stage(1), self.layout(False))
        add_products(sums, left, right, self.depth, row, column)
        settle(sums)

    @helper
    def accumulate(
        self,
        sums: Sums,
        pipe: Pipeline,
        loaders: Sequence[Loader],
        row: Any,
        column: Any,
        begin: Any,
        end: Any,
    ) -> None:
        """Add the products of the terms from ``begin`` to ``end``, which the loaders copy."""

        def work(at: Any) -> None:
            self.multiply(sums, pipe, row, column)

        accumulate(pipe, loaders, work, begin, end, self.depth)


def sums_of(shape: MatrixShape, down: int, across: int) -> Sums:
    """Return sums of so many tiles of an instruction, which are 0."""
    return [[fragment(shape, "c") for _ in range(across)] for _ in range(down)]


def taken(matrix: SharedMatrix, shape: MatrixShape, first: bool, row: Any, column: Any) -> Fragment:
    """Return the rows and columns from a place on as an operand, the first or the second."""
    side: Side = "a" if first else "b"
    piece = matrix.tile(shape.extent(side), (row, column))
    return fragment(shape, side).load(piece.pointer, piece.at)


def held(
    matrix: SharedMatrix, shape: MatrixShape, first: bool, count: int, depth: int, place: Any
) -> Operands:
    """Return ``count`` tiles of rows, or of columns, from a place on as operands in registers."""
    step = shape.m if first else shape.n
    places = [place + i * step for i in range(count)]
    return [
        [taken(matrix, shape, first, *((i, p) if first else (p, i))) for i in places]
        for p in range(0, depth, shape.k)
    ]


def add_products(
    sums: Sums, left: Any, right: Any, depth: int, row: Any = 0, column: Any = 0
) -> None:
    """Add products of rows of ``left`` from ``row`` on and columns of ``right`` from ``column`` on.

    ``depth`` terms are summed. Each is a matrix in shared memory, or one of both is operands that
    registers hold. What runs beside the units is to be settled before sums are looked at.
    """
    shape = sums[0][0].shape
    steps = range(0, depth, shape.k)
    if shape.feature == "async_matrix":
        pieces = [
            left.tile((shape.m, shape.k), (row, p))
            if isinstance(left, SharedMatrix)
            else left[p // shape.k][0]
            for p in steps
        ]
        rights = [right.tile((shape.k, shape.n), (p, column)) for p in steps]
        issue_mma(sums[0][0], list(zip(pieces, rights, strict=True)))
        return
    high, wide = range(len(sums)), range(len(sums[0]))
    lefts: Any

    def a(i: int, p: int) -> Fragment:
        return taken(left, shape, True, row + i * shape.m, p)

    def b(p: int, j: int) -> Fragment:
        return taken(right, shape, False, p, column + j * shape.n)

    # Of one side a step's operands are kept, and those of the other come one after another.
    for number, p in enumerate(steps):
        if isinstance(right, SharedMatrix):
            lefts = [a(i, p) for i in high] if isinstance(left, SharedMatrix) else left[number]
            for j in wide:
                one = b(p, j)
                for i in high:
                    mma(lefts[i], one, sums[i][j])
        else:
            for i in high:
                one = a(i, p)
                for j in wide:
                    mma(one, right[number][j], sums[i][j])


def settle(*sums: Sums) -> None:
    """Wait for products that run beside the units, if they do."""
    if sums[0][0][0].shape.feature == "async_matrix":
        wait_mma(*(made[0][0] for made in sums))


@helper
def store(
    sums: Sums,
    target: Any,
    first: Any,
    pitch: Any,
    limits: tuple[Any, Any] | None,
    turned: bool = False,
) -> None:
    """Write sums to rows ``pitch`` apart, from an index on; ``limits``: those that exist, if any.

    Without limits all of them are written. Of ``turned`` sums the transpose is: tiles are in the
    order of what is written, and in each a row of it is a column.
    """
    shape = sums[0][0].shape
    high, wide = (shape.n, shape.m) if turned else (shape.m, shape.n)
    for i in range(len(sums)):
        for j in range(len(sums[0])):
            down, right = i * high, j * wide
            place = target.at(first + down * pitch + right)
            left = None if limits is None else (limits[0] - down, limits[1] - right)
            steps = (pitch, 1)
            if turned:
                steps, left = (1, pitch), None if left is None else left[::-1]
            sums[i][j].store(place, steps, limits=left)
