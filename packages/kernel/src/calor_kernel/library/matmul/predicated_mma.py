"""Products of any sizes by matrix instructions: few rows or columns, odd sizes, unaligned lines.

Requirements: operands of half types, or of float32 that may be rounded, with dense rows or columns.
Tiles are as narrow as the product, edges are predicated, and the K axis is divided if there are few
tiles. Lines that are not of whole accesses are copied by shorter ones, down to single elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, end_sums, writer
from calor_kernel.library.gemm.lines import Lines
from calor_kernel.library.gemm.mma import ACCESS, MmaPlan, store
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.ranking import cubes_of
from calor_kernel.library.matmul.split_sums import Parts, SplitK, fewest_parts, in_parts
from calor_kernel.library.matmul.task import Batches, Sizes, Task

# Planes down and across by the rows and columns of a tile, small tiles first.
_PLANES: Final[Mapping[tuple[int, int], tuple[int, int]]] = MappingProxyType(
    {
        (16, 16): (1, 2),
        (16, 32): (1, 4),
        (16, 64): (1, 4),
        (16, 128): (1, 4),
        (32, 16): (2, 2),
        (32, 32): (2, 2),
        (32, 64): (2, 2),
        (32, 128): (1, 4),
        (64, 16): (4, 1),
        (64, 32): (4, 1),
        (64, 64): (2, 2),
        (128, 16): (4, 1),
        (128, 32): (4, 1),
        (128, 128): (2, 4),
    }
)
_SIZES = (16, 32, 64)
# Bytes of a step along the K axis, of lines of whole accesses and of others.
_LINE, _SHORT = 128, 64
# Minimum of steps of a part, and bytes of an asynchronous copy.
_LEAST, COPIED = 4, 4
# The same of small tiles, whose steps take less than the launch that adds parts.
_OF_SMALL = 8
# Rows or columns of a tile that waits for memory, and the steps of its parts.
_SLIM, _LONG = 16, 16
# The tile of small products, and the bytes of their K axis at most.
_SMALL, _SHALLOW = 32, 1 << 11
# Fewer rows or columns are narrow: one tile of warp groups.
_NARROW = 128


@kl.kernel
def predicated_mma(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    a_stride: kl.Stride,
    b_stride: kl.Stride,
    batches: Batches[kl.Number],
    split: SplitK[kl.Number],
    after: After | None,
    *,
    plan: MmaPlan,
    accesses: tuple[int, int],
    ahead: bool,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of a part of a product z.

    ``accesses``: the elements of an access of each operand. ``ahead``: whether copies are
    asynchronous.
    """
    if ahead:
        # The compiler otherwise spills some registers rather than take more.
        kl.launch_attributes(cubes_per_core=2 if plan.units <= 128 else 1)
    m, n, k = sizes.m, sizes.n, sizes.k
    number = kl.cube_position(2)
    batch, begin, end = split.terms(number, k)
    a_start, b_start = batches.starts(batch)
    first_row, first_column = kl.cube_position(1) * plan.rows, kl.cube_position(0) * plan.columns
    pipe = kl.Pipeline(plan.stages, *plan.tiles, how=kl.way_of_units() if ahead else "stores")
    sums, row, column = plan.sums()
    left = Lines(a, a_start, a_stride, first_row, m, plan.a_along)
    right = Lines(b, b_start, b_stride, first_column, n, plan.b_along)

    def load(pipe: kl.Pipeline, at: kl.Index) -> None:
        take_pieces(pipe, plan, left, True, end, at, accesses[0])
        take_pieces(pipe, plan, right, False, end, at, accesses[1])

    plan.accumulate(sums, pipe, (load,), row, column, begin, end)
    top, start = first_row + row, first_column + column
    ends = writer(epilogue, after, c, batch)
    if ends is not None:
        end_sums(ends, sums, batch, (top, start), (m, n))
        return
    store(sums, c, (number * m + top) * n + start, n, (m - top, n - start))


@kl.helper
def take_pieces(
    pipe: kl.Pipeline,
    plan: MmaPlan,
    lines: Lines,
    first: bool,
    end: kl.Index,
    begin: kl.Index,
    access: int,
) -> None:
    """Start copying an operand's tile of a step in accesses of some elements, 0 beyond its end."""
    size, at = plan.rows if first else plan.columns, plan.layout(first)
    pieces = size * plan.depth // access
    for turn in range(-(-pieces // plan.units)):
        piece = kl.unit_index() + turn * plan.units
        place, p = lines.split(piece, size, plan.depth, access)
        to = at(place, p) if first else at(p, place)
        across, deep = lines.first + place, begin + p
        if (pieces % plan.units == 0) or (piece < pieces):
            take_piece(pipe, 0 if first else 1, to, lines, (across, deep), end, access)


@kl.helper
def take_piece(
    pipe: kl.Pipeline,
    tile: int,
    to: kl.Index,
    lines: Lines,
    place: tuple[kl.Index, kl.Index],
    end: kl.Index,
    access: int,
) -> None:
    """Copy an access of an operand, or zeros if it is beyond its end."""
    inside, index = lines.inside(*place, end), lines.index(*place)
    if pipe.how == "async":
        pipe.copy(tile, to, lines.source, index, access, inside)
    else:
        # A masked vector would be read element by element.
        value = lines.source.load(kl.select(inside, index, lines.start), access)
        pipe.put(tile, to, kl.select(inside, value, kl.splat(0, access).to(value.dtype)))


def access_of(operand: Operand, size: int, k: int) -> int:
    """Return the elements of the widest access that divides an operand's lines."""
    count = ACCESS // int(operand.dtype.itemsize)
    while count > 1 and not operand.in_accesses(count, size, k):
        count //= 2
    return count


def mma_plan(product: Product, info: DeviceInfo) -> tuple[MmaPlan, tuple[int, int]]:
    """Return the plan of a product, and the elements of an access of each operand."""
    a, b = product.a, product.b
    accesses = access_of(a, product.m, product.k), access_of(b, product.n, product.k)
    item = int(a.dtype.itemsize)
    whole = min(accesses) * item == ACCESS
    depth = (_LINE if whole and product.k * item > _SHORT else _SHORT) // item
    rows = next((n for n in _SIZES if product.m <= n), _SIZES[-1])
    columns = next((n for n in _SIZES if product.n <= n), _SIZES[-1])

    def plan(rows: int, columns: int) -> MmaPlan:
        stages = 2 if min(accesses) * item < COPIED else 3 if rows + columns > 96 else 4
        planes = _PLANES[rows, columns]
        return MmaPlan(a.dtype, rows, columns, depth, *planes, stages, *product.along)

    # Longer tiles read the shorter operand less often, and larger ones both.
    longer = ((rows, 128), (128, columns)) if whole and rows != columns else ()
    # Copies through registers leave none for the sums of a large tile.
    large = ((128, 128),) if min(accesses) * item >= COPIED else ()
    for tile in (*large, *longer):
        if tile in _PLANES and _full(product, tile):
            made = plan(*tile)
            if cubes_of(product, made) >= info.cores:
                return made, accesses
    made = plan(rows, columns)
    shallow = rows == columns == _SIZES[-1] and not exceeds(product.k * item, _SHALLOW)
    if shallow and not whole and not exceeds(cubes_of(product, made), info.cores - 1):
        # Small tiles take less time each, and of few terms they read little more.
        return plan(_SMALL, _SMALL), accesses
    return made, accesses


def _full(product: Product, tile: tuple[int, int]) -> bool:
    """Return whether long sides of a tile are not longer than the product's."""
    return all(
        side < 128 or size >= 128 for side, size in zip(tile, (product.m, product.n), strict=True)
    )


def mma_parts(product: Product, plan: MmaPlan, info: DeviceInfo) -> int:
    """Return the parts of the K axis that fill the device with tiles of a plan; 1: no split."""
    steps = -(-product.k // plan.depth)
    shallow = not exceeds(product.k * int(plan.dtype.itemsize), _SHALLOW)
    small = shallow and plan.rows == plan.columns == _SMALL
    parts = fewest_parts(cubes_of(product, plan), steps, _OF_SMALL if small else _LEAST, info.cores)
    if min(plan.rows, plan.columns) > _SLIM or not exceeds(parts, 1):
        return parts
    # Tiles that multiply little wait for memory, so a core has more of them.
    return greatest(parts, least(2 * parts, steps // _LONG))


def idle(product: Product, info: DeviceInfo) -> bool:
    """Return whether most cores are idle with tiles that could be in several parts."""
    if min(product.m, product.n) >= _NARROW and _by_groups(product, info):
        return False
    plan, _ = mma_plan(product, info)
    few = 5 * cubes_of(product, plan) < 2 * info.cores
    return few and mma_parts(product, plan, info) >= _LEAST


def _by_groups(product: Product, info: DeviceInfo) -> bool:
    """Return whether warp groups read the operands as they lie; they divide the K axis themselves.

    Of four bytes they read one operand along the K axis, and the other along either.
    """
    reads = product.halves or product.along[0]
    return reads and info.has("async_matrix") and info.has("tensor_copy")


def mma_launches(task: Task) -> tuple[Task, list[Launch]]:
    """Return the launches of a product with dense axes."""
    product, info = task.product, task.info
    plan, accesses = mma_plan(product, info)
    a, b = product.a, product.b
    parts = Parts.of(product.k, mma_parts(product, plan, info), plan.depth)
    task, target, after = in_parts(task, parts)
    strides = (o.free if o.depth == 1 else o.depth for o in (a, b))
    a_stride, b_stride = (Multiple(s, n) for s, n in zip(strides, accesses, strict=True))
    item = int(a.dtype.itemsize)
    left, right = task.operands(accesses[0] * item, accesses[1] * item)
    columns, rows, _ = task.tiles(plan.rows, plan.columns)
    # The dense axes of operands are read in whole accesses.
    m, n, k = divisors(product, accesses)
    grid = Grid((columns, rows, parts.count * product.batches), (plan.units, 1, 1), info.planes[0])
    made = launch(
        predicated_mma, grid, task.effort(f"matmul predicated {plan.rows}x{plan.columns}"),
        a=left, b=right, c=Bound(target.place, target.dtype, ACCESS),
        sizes=Sizes(Multiple(product.m, m), Multiple(product.n, n), Multiple(product.k, k)),
        a_stride=a_stride, b_stride=b_stride, batches=task.batches(*accesses),
        split=parts.across(product.batches, plan.depth), plan=plan, accesses=accesses,
        ahead=min(accesses) * item >= COPIED, **task.following(),
    )  # fmt: skip
    return task, [made, *after]


def divisors(product: Product, accesses: tuple[int, int]) -> tuple[int, int, int]:
    """Return the known divisors of the sizes, which are those of the dense axes' accesses."""
    m, n = (1 if along else by for along, by in zip(product.along, accesses, strict=True))
    k = max(by if along else 1 for along, by in zip(product.along, accesses, strict=True))
    return m, n, k
