"""Launches of stream-K and split-K products by TMA, and the conditions for them.

Requirements: if tiles leave cubes idle, shares of their steps are further candidates for the tuner.
An exchange writes and reads sums once more, so nothing is shared if few cubes are idle. One launch
does all, also if each tile is cut into as many parts as it has cubes; that is the first choice for
few tiles with a long K axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from calor_kernel.contract.choices import is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Dropped, Flags, Launch, Scratch
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import Way, cubes_of, lack, name_of
from calor_kernel.library.matmul.warpgroup_tma import Boxes

# Minimum of steps of a share, doubled if every share is exchanged; the part of all cubes that may
# idle without stream-K.
_LEAST, _IDLE = 4, 0.06
# With more parts of a tile, the cube that ends it would read sums for too long.
_FEW = 4
# Cubes of a cluster that compute parts of a tile, the most first.
_PARTS = (8, 4, 2)
_SUM = 4  # Bytes.


@dataclass(frozen=True, slots=True)
class Sharing:
    """``cubes`` have equal shares of the ``steps`` of ``tiles``, then ``rounds`` whole tiles.

    ``sums``: the memory for exchanged sums.
    """

    cubes: int
    tiles: int
    steps: int
    rounds: int
    sums: Scratch

    def nbytes(self, plan: Boxes) -> int:
        """Return the bytes of sums: one tile for each cube."""
        return self.cubes * plan.rows * plan.columns * _SUM

    def arguments(self, plan: Boxes) -> tuple[Argument, ...]:
        """Return a launch's additional arguments; each warp group of a cube has a flag."""
        if plan.parts > 1:
            return (self.sums, Flags(self.cubes * plan.rows * plan.columns // (64 * plan.part)))
        flags = Flags(self.cubes * plan.groups)
        each, more = divmod(self.tiles * self.steps, self.cubes)
        return (self.sums, flags, self.tiles, each, more, self.rounds)


def shared_ways(
    product: Product,
    plans: Sequence[Boxes],
    launch: Callable[[Boxes, Sharing], Launch],
    info: DeviceInfo,
    held: int,
) -> Iterator[Way | Dropped]:
    """Yield ways to compute tiles in shares; ``held``: the scratch reserved already."""
    for plan in plans:
        tiles = cubes_of(product, plan)
        # Shares of symbolic sizes would differ for each size.
        if is_size(tiles) or is_size(product.k) or lack(plan, info) is not None:
            continue
        if plan.rows >= 2 * product.m or plan.columns >= 2 * product.n:
            continue
        steps = -(-product.k // plan.depth)
        for kind, cubes, shared in shares_of(tiles, steps, info.cores):
            name = f"{name_of(plan)} {kind}"
            if not info.has("forward_progress"):
                yield Dropped(name, "cubes may not go on while others wait for them")
                continue
            sharing = Sharing(cubes, shared, steps, (tiles - shared) // cubes, Scratch(held))
            yield Way(name, 1, launch(plan, sharing), scratch=(sharing.nbytes(plan),))
        parts = next((n for n in _PARTS if tiles * n <= info.cores and n * _LEAST <= steps), 1)
        if parts > 1:
            plan = replace(plan, parts=parts)
            name = f"{name_of(plan)} clustered split-K"
            if not info.has("clusters"):
                yield Dropped(name, "the device has no clusters")
                continue
            sharing = Sharing(tiles * parts, tiles, steps, 0, Scratch(held))
            yield Way(name, 1, launch(plan, sharing), scratch=(sharing.nbytes(plan),))


def split_first(
    product: Product,
    plan: Boxes,
    launch: Callable[[Boxes, Sharing], Launch],
    info: DeviceInfo,
    held: int,
) -> Way | None:
    """Return the way that cuts each tile into a few equal parts, None if impossible."""
    tiles, parts = cubes_of(product, plan), few_parts(product, plan, info)
    if parts == 1:
        return None
    sharing = Sharing(tiles * parts, tiles, -(-product.k // plan.depth), 0, Scratch(held))
    scratch = (sharing.nbytes(plan),)
    return Way(f"{name_of(plan)} split-K", 0, launch(plan, sharing), scratch=scratch)


def few_parts(product: Product, plan: Boxes, info: DeviceInfo) -> int:
    """Return the number of parts of each tile if split-K is the first choice; 1: no split.

    Shares of symbolic sizes would differ for each size.
    """
    tiles = cubes_of(product, plan)
    if is_size(tiles) or is_size(product.k) or not info.has("forward_progress"):
        return 1
    parts = parts_of_tile(tiles, -(-product.k // plan.depth), info.cores)
    return parts if parts <= _FEW else 1


def parts_of_tile(tiles: int, steps: int, cores: int) -> int:
    """Return the number of equal parts of each tile that fills most cores; 1: no split.

    >>> parts_of_tile(64, 64, 132), parts_of_tile(24, 64, 132), parts_of_tile(100, 64, 132)
    (2, 4, 1)
    >>> parts_of_tile(0, 64, 132)
    8
    """
    most = min(cores // max(tiles, 1), steps // (2 * _LEAST))
    return next((parts for parts in range(most, 1, -1) if steps % parts == 0), 1)


def shares_of(tiles: int, steps: int, cores: int) -> Iterator[tuple[str, int, int]]:
    """Yield names, cubes and the number of shared tiles; nothing if sharing does not pay.

    >>> list(shares_of(64, 64, 132))
    [('stream-K', 132, 64), ('split-K', 128, 64)]
    >>> list(shares_of(272, 64, 132))
    [('stream-K', 132, 140)]
    >>> list(shares_of(512, 64, 132))
    []
    """
    rounds, rest = divmod(tiles, cores)
    if rounds == 0 and tiles * steps < _LEAST * cores:
        return
    whole = -(-tiles // cores) * cores
    if whole - tiles > _IDLE * whole:
        yield "stream-K", cores, rest + (cores if rounds else 0)
    # If all shares are the same part of a tile, no cube works on two tiles.
    parts = parts_of_tile(tiles, steps, cores)
    if parts > 1 and tiles * parts != cores:
        yield "split-K", tiles * parts, tiles
