"""Plans of products of few rows by cubes of many units: who reads what of B.

Requirements: lanes read adjacent accesses, a plane's lines are at least 64 bytes, and there are
accesses in flight on every core. A matrix that fits in the registers of all cores is in flight at
once. Where launches overlap it is read before the launch before ends, so its cubes run at a time
and beside that launch's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from calor.dtypes import DType
from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.matmul.blueprints import accumulator
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.split_sums import fewest_parts

# Bytes of an access, and registers for the accesses of a unit that are in flight.
_ACCESS, _AHEAD = 16, 32
# The planes that keep a core's share of the memory busy.
_PLANES = 12
# Rows of C that share what is read of B.
ROWS = (1, 2, 4, 8)
# Planes of a cube whose units hold all that they read of B, the most accesses of such a unit, and
# the most cubes and bytes of B on a core, which leave registers for the launch before.
_HOLDING, _HELD, _CUBES, _SHARE = 8, 10, 3, 72 << 10
# The least lanes of planes whose cores have the registers of a GPU.
_LANES = 32
# The most sums of a unit, and those beside which it has registers for many narrow accesses.
_SUMS, _FEW = 16, 4
# Planes of a cube that divide the K axis of columns, or twice as many, with room for their sums in
# shared memory, and the bytes in flight that keep a core's share of the memory busy.
_DEEP, _ROOM, _FLIGHT = 8, 32 << 10, 12 << 10


@dataclass(frozen=True, slots=True)
class GemvPlan:
    """Cubes of ``planes`` planes of ``lanes`` units, ``wide`` of which lie across the columns.

    The other units of a plane divide the K axis, and so do ``shares`` of the planes. ``along``:
    whether an access of ``width`` elements of B lies along the K axis; then a unit has ``each``
    columns, else those of an access. ``a_width``: the elements of an access of A. ``rows`` rows of
    C are computed together. ``unroll``: the accesses along the K axis that are in flight, which are
    all of a unit if B is ``held``; ``even``: whether all units have as many then. Those of columns
    are of adjacent terms, so that an access of A serves several.
    """

    accumulate: DType
    rows: int
    along: bool
    width: int
    a_width: int
    lanes: int
    wide: int
    each: int
    planes: int
    shares: int
    unroll: int
    held: bool = False
    even: bool = False

    @property
    def deep(self) -> int:
        """The units of a plane that divide the K axis."""
        return self.lanes // self.wide

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.lanes * self.planes

    @property
    def groups(self) -> int:
        """The groups of planes of a cube, each with columns of its own."""
        return self.planes // self.shares

    @property
    def span(self) -> int:
        """The columns of a plane."""
        return self.wide * self.each

    @property
    def columns(self) -> int:
        """The columns of a cube."""
        return self.groups * self.span

    @property
    def terms(self) -> int:
        """The terms of an access."""
        return self.width if self.along else 1

    @property
    def adjacent(self) -> int:
        """The adjacent terms of a unit."""
        return self.width if self.along else self.unroll

    @property
    def whole(self) -> int:
        """The terms of an access that divide the K axis."""
        return self.width if self.along else self.a_width

    @property
    def step(self) -> int:
        """The terms between the accesses of a unit that are in flight."""
        return self.deep * self.shares * self.width if self.along else 1

    @property
    def reach(self) -> int:
        """The terms of all units' accesses that are in flight."""
        return self.deep * self.shares * self.terms * self.unroll


def access_of(operand: Operand, size: int, k: int) -> int:
    """Return the elements of the widest access that divides an operand."""
    count = max(_ACCESS // int(operand.dtype.itemsize), 1)
    while count > 1 and not operand.in_accesses(count, size, k):
        count //= 2
    return count


@choice()
def _lanes_across(n: int, width: int, nbytes: int, cubes: int, lanes: int, cores: int) -> int:
    """Return the lanes across columns that are dense: many, but with a cube for each core.

    >>> _lanes_across(3072, 8, 2, 1, 32, 132), _lanes_across(50257, 1, 2, 1, 32, 132)
    (4, 32)
    """
    wide = lanes
    while wide > 1 and (
        (wide // 2) * width >= n
        or (wide * width * nbytes > 64 and -(-n // (wide * width)) * cubes < cores)
    ):
        wide //= 2
    return wide


@choice()
def _lanes_deep(k: int, width: int, lanes: int) -> int:
    """Return the lanes along a K axis that is dense: at most one for each access."""
    deep = lanes
    while deep > 1 and (deep // 2) * width >= k:
        deep //= 2
    return deep


@choice()
def _columns_each(n: int, wide: int, cubes: int, cores: int, rows: int) -> int:
    """Return the columns of a unit: several, which share what is read of A, if there are many."""
    for each in (4, 2):
        if -(-n // (wide * each)) * cubes >= _PLANES * cores and each * rows <= _SUMS:
            return each
    return 1


@choice()
def _holding(
    n: int,
    k: int,
    blocks: int,
    nbytes: int,
    cores: int,
    width: int,
    deep: int,
    wide: int,
    planes: int,
    rows: int,
) -> int:
    """Return the columns of a unit and the planes that share them, as one number; 0 for none.

    ``blocks``: the cubes that read the same columns, each by accesses of ``nbytes``. The sums of a
    core take as long as those of a unit, times the cubes that the core has.

    >>> def columns_and_shares(*sizes):
    ...     found = _holding(*sizes[:2], 1, 16, 132, 8, 32, 1, 8, 1)
    ...     return found % 11, found // 11
    >>> columns_and_shares(2304, 768), columns_and_shares(768, 3072)
    ((3, 1), (3, 4))
    >>> columns_and_shares(50257, 768)
    (0, 0)
    """
    if n * k * blocks * nbytes > _SHARE * cores * width:
        return 0
    found: list[tuple[int, int, int]] = []
    shares = 1
    while planes % shares == 0:
        turns = -(-k // (width * deep * shares))
        for each in range(1, min(_HELD // max(turns, 1), _SUMS // rows) + 1):
            cubes = -(-n // (planes // shares * wide * each)) * blocks
            if cubes <= _CUBES * cores:
                found.append((-(-cubes // cores) * turns * each, shares, -each))
        shares *= 2
    if not found:
        return 0
    _, shares, each = min(found)
    return shares * (_HELD + 1) - each


@choice(low=1)
def _planes_deep(
    n: int, k: int, blocks: int, columns: int, nbytes: int, terms: int, most: int, cores: int
) -> int:
    """Return the planes of a cube of ``columns``, which divide the K axis.

    As many as keep memory busy: ``nbytes`` of each plane, of ``terms`` terms, are in flight. Fewer
    cubes than cores are better divided along the K axis.

    >>> _planes_deep(4489, 512, 1, 32, 512, 8, 16, 132)
    16
    >>> _planes_deep(4489, 512, 1, 32, 4096, 8, 16, 132)
    8
    >>> _planes_deep(1024, 512, 1, 32, 512, 8, 16, 132)
    8
    """
    planes = min(_DEEP, most)
    cubes = -(-n // columns) * blocks
    room = cubes >= cores and cubes * nbytes * planes < _FLIGHT * cores
    while room and 2 * planes <= most and 2 * planes * terms <= k:
        planes *= 2
        room = cubes * nbytes * planes < _FLIGHT * cores
    return planes


@choice(low=1)
def _accesses(k: int, step: int) -> int:
    """Return the accesses along the K axis that a unit has."""
    return max(1, -(-k // step))


def gemv_plan(product: Product, info: DeviceInfo) -> GemvPlan:
    """Return the plan for the sizes and strides of a product of few rows."""
    rows = next((n for n in ROWS if product.m <= n), ROWS[-1])
    blocks = -(-product.m // rows) * product.batches
    lanes, b = info.planes[0], product.b
    accumulate = accumulator(product)
    along = b.depth == 1 or b.free != 1
    width = access_of(b, product.n, product.k)
    if not along:
        given = (product.n, width, int(b.dtype.itemsize), blocks, lanes, info.cores)
        wide = int(_lanes_across(*given))
        # Narrow accesses leave registers for more of them.
        unroll = _AHEAD // 4 if width * rows <= _FEW else _unroll(b, width, rows, 4)
        sums = rows * wide * width * accumulate.itemsize
        most = max(1, min(info.max_units // lanes, max(_ROOM // sums, _DEEP), 2 * _DEEP))
        nbytes = lanes * unroll * width * int(b.dtype.itemsize)
        terms = lanes // wide * unroll
        planes = int(
            _planes_deep(
                product.n, product.k, blocks, wide * width, nbytes, terms, most, info.cores
            )
        )
        a_width = 1
        if product.a.depth == 1:
            a_width = min(unroll, access_of(product.a, product.m, product.k))
        return GemvPlan(
            accumulate, rows, False, width, a_width, lanes, wide, width, planes, planes, unroll
        )
    if b.depth != 1:
        width = 1
    a_width = width if product.a.in_accesses(width, product.m, product.k) else 1
    a_width = a_width if product.a.depth == 1 else 1
    deep = int(_lanes_deep(product.k, width, lanes))
    wide = lanes // deep
    # A compiler that keeps few sums in registers was seen to be slower with all rows.
    many = rows == ROWS[-1] and info.accumulators > 0
    if info.has("overlap") or (lanes >= _LANES and not many):
        planes = max(1, min(info.max_units // lanes, _HOLDING))
        plan = GemvPlan(accumulate, rows, True, width, a_width, lanes, wide, 1, planes, 1, 1)
        sizes = (product.n, product.k, blocks, width * int(b.dtype.itemsize), info.cores)
        coded = int(_holding(*sizes, width, deep, wide, planes, rows))
        if coded:
            each, shares = coded % (_HELD + 1), coded // (_HELD + 1)
            step = width * deep * shares
            unroll = int(_accesses(product.k, step))
            even = product.k == unroll * step
            return replace(plan, each=each, shares=shares, unroll=unroll, held=True, even=even)
    each = int(_columns_each(product.n, wide, blocks, info.cores, rows))
    planes = max(1, min(info.max_units // lanes, 4))
    shares = planes if _shared(product, wide, each, blocks, width * deep, info) else 1
    unroll = _unroll(b, width * each, rows, 2)
    return GemvPlan(
        accumulate, rows, True, width, a_width, lanes, wide, each, planes, shares, unroll
    )


def _unroll(operand: Operand, count: int, rows: int, least: int) -> int:
    """Return the accesses of ``count`` elements in flight; rows of A need registers too."""
    most = max(least, 16 // rows)
    return max(1, min(8, most, _AHEAD * 4 // (count * int(operand.dtype.itemsize))))


@choice(low=1)
def _turns(k: int, step: int, most: int) -> int:
    """Return the accesses along the K axis that a unit has, at least, up to ``most``.

    >>> _turns(768, 256, 8), _turns(768, 32, 8), _turns(7, 256, 8)
    (4, 8, 1)
    """
    turns = 1
    while turns < most and turns * step < k:
        turns *= 2
    return turns


def briefly(plan: GemvPlan, product: Product) -> GemvPlan:
    """Return a plan with no more accesses in flight than a unit has: registers are for others."""
    if plan.held:
        return plan
    step = plan.deep * plan.shares * plan.terms
    unroll = min(plan.unroll, int(_turns(product.k, step, plan.unroll)))
    a_width = plan.a_width if plan.along else min(plan.a_width, unroll)
    return replace(plan, unroll=unroll, a_width=a_width)


def _shared(
    product: Product, wide: int, each: int, blocks: int, terms: int, info: DeviceInfo
) -> bool:
    """Return whether planes share columns, because there are too few columns for all planes."""
    few = -(-product.n // (wide * each)) * blocks < _PLANES * info.cores // 2
    return few and product.k > 4 * terms


def gemv_parts(product: Product, plan: GemvPlan, info: DeviceInfo) -> int:
    """Return the parts of the K axis, 1 if there are cubes enough, or if they hold B."""
    if plan.held:
        return 1
    cubes = -(-product.n // plan.columns) * -(-product.m // plan.rows) * product.batches
    # Each unit has several turns, so that a part costs more than its sums.
    turns = product.k // plan.reach
    return fewest_parts(2 * cubes, turns, 2, info.cores)
