"""Plans of TMA products: tiles of warp groups, and their memory."""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import DType
from calor_cuda.kernels.warpgroup import ASKING, LINE, MULTIPLYING, TURNING
from calor_kernel import language as kl
from calor_kernel.language.matrices import MatrixShape, wgmma_64

# Itemsize of operands that the matrix unit reads from shared memory along the K axis alone.
FOUR = 4
# Parts of a tile's sums that may be in flight.
PARTS = 2
# The lines of TF32 products of a row and a column in a cycle, and what a step takes beside the
# accesses to its lines, one a cycle: where planes transpose stages, on an H200.
_PRODUCTS, _BESIDE = 32, 130
Axis = tuple[int | tuple[int, ...], int | tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Ahead:
    """Operands of an epilogue that are copied to shared memory ahead of their use.

    ``parts``: the parts of a tile on their way; ``matrices``: the numbers of operands in pieces,
    ``rows``: of those with a number for each row. ``nbytes``: the shared memory.
    """

    parts: int
    matrices: tuple[int, ...]
    rows: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class TmaPlan:
    """A plan: each warp group has 64 of the ``rows``, and all ``columns``.

    A step is a line of the K axis, and ``stages`` of them are in shared memory. ``a_along``,
    ``b_along``: whether the operand is dense along that axis. ``band``: the rows of tiles that are
    computed at the same time. ``pingpong``: whether two warp groups compute tiles of 64 rows in
    turns, so that the sums of one are written while the other multiplies. ``result``: the dtype of
    c. ``formats``: the float8 formats of bytes. ``by_units``: whether units write c, since its rows
    do not begin at multiples of 16 bytes. ``ahead``: what an epilogue reads from shared memory.
    """

    dtype: DType
    result: DType
    rows: int
    columns: int
    stages: int
    a_along: bool
    b_along: bool
    band: int
    pingpong: bool = False
    formats: tuple[DType, DType] | None = None
    by_units: bool = False
    ahead: Ahead | None = None

    @property
    def kind(self) -> str:
        """The word for such plans in the names of candidates."""
        return "boxes"

    @property
    def title(self) -> str:
        """The plan's name among the candidates."""
        size = f"{self.rows}x{self.columns}x{self.depth}"
        how = " ping-pong" if self.pingpong else ""
        return f"{self.kind} {size} by {self.units} in {self.band}{how}"

    @property
    def depth(self) -> int:
        """The elements of the K axis in a step."""
        return LINE // int(self.dtype.itemsize)

    @property
    def transposed(self) -> bool:
        """Whether a goes through registers; then the result is the transpose of the product."""
        return not self.a_along and int(self.dtype.itemsize) == FOUR

    @property
    def turning(self) -> bool:
        """Whether planes transpose the stages of b, so that they lie along the K axis."""
        return self.transposed and not self.b_along

    @property
    def registers(self) -> tuple[int, int]:
        """The registers of units that ask for copies, and of those that multiply."""
        if self.turning:
            return TURNING[self.groups]
        return ASKING[self.groups], MULTIPLYING[self.groups]

    @property
    def crowding(self) -> float:
        """The cycles of a step beside those of its products, if shared memory takes longer.

        Of each line that planes transpose there are a copy, a read and a write, of the other
        operand a copy and a read, and each consumer reads all lines of b.
        """
        if not self.turning:
            return 1
        lines = 2 * self.rows + (3 + self.sharing) * self.columns
        return max(1, _PRODUCTS * (lines + _BESIDE) / (self.rows * self.columns))

    @property
    def groups(self) -> int:
        """The consumer warp groups."""
        return 2 if self.pingpong else self.rows // 64

    @property
    def sharing(self) -> int:
        """The consumer warp groups that multiply a tile together."""
        return self.rows // 64

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 128 * (self.groups + 1)

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return wgmma_64(self.columns, self.dtype, self.formats)

    @property
    def part(self) -> int:
        """The columns of sums that are written at a time."""
        return LINE // int(self.result.itemsize)

    @property
    def pending(self) -> int:
        """The number of copies that may be in flight when the next part is stored."""
        each = 64 // self.part if self.transposed else 1
        return 0 if self.columns // self.part % PARTS else (PARTS - 1) * each

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        written = PARTS * 64 * self.groups
        nbytes = LINE * (self.stages * (self.rows + self.columns) + written) + 1024
        return nbytes if self.ahead is None else nbytes + self.ahead.nbytes

    @property
    def numbers(self) -> int:
        """The rows of the result among a warp group's sums."""
        return self.columns if self.transposed else 64

    def top(self, group: kl.Index) -> kl.Index:
        """Return the first of a warp group's rows in a tile."""
        return 0 if self.pingpong else group * 64

    def swizzle(self, dtype: DType) -> kl.Swizzle:
        """Return the swizzle of a line's pieces of 16 bytes."""
        return kl.Swizzle(3, {1: 4, 2: 3, 4: 2}[int(dtype.itemsize)], 3)

    def layout(self, first: bool) -> kl.Swizzled:
        """Return the layout of (row, column) in the tile of a, or of b, as products read it."""
        size, along = (self.rows, self.a_along) if first else (self.columns, self.b_along)
        along = along or (self.turning and not first)
        line = self.depth
        deep: Axis = (line, line)
        place: Axis = ((line, size // line), (1, line * line))
        if along:
            deep, place = (line, 1), (size, line)
        sides = (place, deep) if first else (deep, place)
        return kl.Swizzled(
            self.swizzle(self.dtype), kl.Layout(*map(tuple, zip(*sides, strict=True)))
        )

    def box(self, first: bool) -> tuple[int, int]:
        """Return the rows and columns of a copy, in the operand's own layout."""
        size, along = (self.rows, self.a_along) if first else (self.columns, self.b_along)
        return (size if along else self.depth, self.depth)
