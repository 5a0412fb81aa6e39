"""Plans of TMA implicit GEMM: the box of a tile, the stages, and the parts of long sums.

Requirements: a tile's pixels are a box, so images whose rows do not fit it waste the pixels
outside. A model of steps and idle cores chooses the fastest box.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calor.dtypes import DType, float32
from calor_cuda.kernels.warpgroup import LINE
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.language.matrices import MatrixShape, wgmma_64
from calor_kernel.library.conv.implicit_gemm_operands import two_axes
from calor_kernel.library.conv.problem import Correlation

# The row pitch in shared memory of sums that are written; it puts the rows that a plane stores
# together in different banks.
PITCH = 72
_COLUMNS, _STAGES = 256, 6
# Minimum of pixels of a piece of a row that is cut further than needed.
_PIECE = 48
# Numbers of parts of a sum, and more that are timed if cores are idle; minimum of steps of a part.
SPLITS, _MORE_SPLITS, SHARE = (1, 2, 3, 4, 5, 6, 7, 8, 9), (12, 16, 18, 24), 8
# Positions in tensors and results are 32-bit numbers.
MOST = 1 << 31
# For a core of an H200, in cycles: the rate of sums with one warp group and two, and of rows read;
# the overhead of a step and of a tile; bytes of parts moved.
_COMPUTED, _READ, _STEP, _TILE, _MOVED = {1: 23, 2: 33}, 0.5, 100, 2500, 10


@dataclass(frozen=True, slots=True)
class Cells:
    """Stride cells of ``sizes``, down and across; ``at``: the pixel of a cell that has the sum.

    ``access``: the elements of an access. ``cut``: whether the last cells reach beyond the result.
    """

    sizes: tuple[int, int]
    at: tuple[int, int]
    access: int
    cut: bool


@dataclass(frozen=True, slots=True)
class Writes:
    """The form of the result: ``run`` adjacent pixels of an access, or ``cells``.

    ``ragged``: whether tiles have rows beyond the last channel. ``phases``: the phases that
    alternate along a row of the result; a warp group has the rows of one, then those of the next.
    ``cut``: whether the last phases of a row reach beyond the result.
    """

    run: int = 1
    ragged: bool = True
    cells: Cells | None = None
    phases: int = 1
    cut: bool = False


ALONE = Writes()


@dataclass(frozen=True, slots=True)
class RowPhases:
    """Phases that are computed together; their weights have ``taps`` taps.

    ``phases``: of each phase, the index of its first tap relative to that of the first phase, the
    window column that this tap reads, and the number of its columns.
    """

    taps: int
    phases: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class TmaPlan:
    """A plan: each warp group has 64 of the ``rows``, and all pixels of the tile.

    ``result``: the dtype of c. ``box``: the images, rows and columns of a tile's pixels. A step is
    one line of channels of a tap, and ``stages`` of them are in shared memory. ``writes``: the
    epilogue. ``row_phases``: the phases of the rows, if there are several.
    """

    dtype: DType
    result: DType
    rows: int
    box: tuple[int, int, int]
    stages: int
    writes: Writes = ALONE
    row_phases: RowPhases | None = None

    @property
    def depth(self) -> int:
        """The channels of a step."""
        return LINE // int(self.dtype.itemsize)

    @property
    def pixels(self) -> int:
        """The pixels of a tile."""
        return self.box[0] * self.box[1] * self.box[2]

    @property
    def columns(self) -> int:
        """The columns of sums: the instruction's width for the pixels."""
        return -(-self.pixels // 8) * 8

    @property
    def groups(self) -> int:
        """The warp groups that multiply."""
        return self.rows // 64

    @property
    def channels(self) -> int:
        """The output channels of a tile: each has one row per phase."""
        return self.rows // self.writes.phases

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 128 * (self.groups + 1)

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return wgmma_64(self.columns, self.dtype)

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        staged = self.rows * PITCH * int(self.result.itemsize)
        return LINE * self.stages * (self.rows + self.columns) + staged + 1024

    def swizzled(self, *sizes: int) -> kl.Swizzled:
        """Return the swizzled layout of lines along the last axis."""
        bits = {2: 3, 4: 2}[int(self.dtype.itemsize)]
        return kl.Swizzled(kl.Swizzle(3, bits, 3), kl.Layout.rows(*sizes))

    def tiles(self, problem: Correlation) -> int:
        """Return the number of tiles of a problem."""
        images, _, outputs = problem.leads
        down, across = two_axes(problem)
        some, high, wide = self.box
        tiles = -(-outputs.size // self.channels) * -(-images.size // some)
        return tiles * -(-down.count // high) * -(-across.count // wide)


# The cycles of a plan, the plan, and the parts of its sums.
Made = tuple[float, TmaPlan, int]


def plans_of(
    problem: Correlation,
    size: int,
    info: DeviceInfo,
    rows: int,
    share: int = SHARE,
    pieces: int = 0,
    windows: int = 1,
) -> list[Made]:
    """Return plans with ``rows``, the fastest first; ``size``: of the result.

    ``share``: minimum of steps of a part. With a small one, tiles of few pixels are among them.
    ``pieces``: into how many a row of pixels is cut; as few as possible, if it is 0. ``windows``:
    the number of such problems in a launch.
    """
    found: list[Made] = []
    down, across = two_axes(problem)
    dtype = problem.a.dtype
    steps = -(-problem.depth.size * dtype.itemsize // LINE) * down.terms * across.terms
    least = _COLUMNS // (4 if share == SHARE and not pieces else 8)
    pieces = pieces or -(-across.count // _COLUMNS)
    wide = -(-across.count // pieces)
    wide += wide % 2 if pieces > 1 else 0
    images = problem.leads[0].size
    most = images if type(images) is int else _COLUMNS
    for high in range(1, min(down.count, _COLUMNS // wide) + 1):
        whole = high == down.count and pieces == 1
        for some in range(1, min(_COLUMNS // (high * wide), most) + 1 if whole else 2):
            plan = TmaPlan(dtype, dtype, rows, (some, high, wide), 2)
            if plan.units <= info.max_units and (plan.columns >= least or whole):
                found += _divided(plan, plan.tiles(problem) * windows, steps, size, share, info)
    return sorted(found, key=lambda made: made[0])


def plans_of_pieces(
    problem: Correlation, size: int, info: DeviceInfo, rows: int, windows: int
) -> list[Made]:
    """Return plans for rows of pixels in more pieces than needed, the fastest first.

    Long rows in few pieces may be fewer tiles than the device has cores.
    """
    across = two_axes(problem)[1]
    most = min(across.count // _PIECE, info.cores)
    counts = range(-(-across.count // _COLUMNS) + 1, most + 1)
    given = problem, size, info, rows
    found = (one for n in counts for one in plans_of(*given, pieces=n, windows=windows))
    return sorted(found, key=lambda made: made[0])


def _divided(
    plan: TmaPlan,
    tiles: int,
    steps: int,
    size: int,
    share: int,
    info: DeviceInfo,
) -> Iterator[Made]:
    """Yield a plan with each possible number of parts of its steps."""
    computed = plan.rows * plan.columns / _COMPUTED[plan.groups]
    step = max(computed, (plan.rows + plan.columns) / _READ) + _STEP
    for splits in SPLITS if share == SHARE else (*SPLITS, *_MORE_SPLITS):
        made = replace(plan, result=float32) if splits > 1 else plan
        room = info.shared_bytes - made.shared_bytes
        if room < 0 or (splits > 1 and (steps < share * splits or steps % splits)):
            continue
        if splits * size >= MOST:
            continue
        stages = 2 + room // (LINE * (plan.rows + plan.columns))
        rounds = -(-tiles * splits // info.cores)
        cycles = rounds * (-(-steps // splits) * step + _TILE)
        if splits > 1:
            cycles += _TILE + 8 * splits * size / (info.cores * _MOVED)
        yield float(cycles), replace(made, stages=min(stages, _STAGES)), splits
