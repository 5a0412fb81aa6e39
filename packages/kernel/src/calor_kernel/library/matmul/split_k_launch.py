"""Launches of split-K products by TMA in one launch, and the conditions for them.

Requirements: if there are few tiles with a long K axis, each is cut into equal parts, one for each
cube. An exchange writes and reads sums once more, so every part has several steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from calor_kernel.contract.choices import is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Dropped, Flags, Launch, Scratch
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import Way, cubes_of, lack, name_of
from calor_kernel.library.matmul.warpgroup_tma import Boxes

# Minimum of steps of a part.
_LEAST = 8
# With more parts of a tile, the cube that ends it would read sums for too long.
_FEW = 4
_SUM = 4  # Bytes.


@dataclass(frozen=True, slots=True)
class Shared:
    """``tiles`` of ``steps``, each cut into ``parts``; ``sums``: the memory for exchanged sums."""

    tiles: int
    parts: int
    steps: int
    sums: Scratch

    @property
    def cubes(self) -> int:
        """The cubes of the launch."""
        return self.tiles * self.parts

    def nbytes(self, plan: Boxes) -> int:
        """Return the bytes of sums: one tile for each cube."""
        return self.cubes * plan.rows * plan.columns * _SUM

    def arguments(self, plan: Boxes) -> tuple[Argument, ...]:
        """Return a launch's additional arguments; each warp group of a cube has a flag."""
        flags = Flags(self.cubes * plan.groups)
        return (self.sums, flags, self.tiles, self.steps // self.parts, 0, 0)


def split_ways(
    product: Product,
    first: Boxes | None,
    plans: Sequence[Boxes],
    launch: Callable[[Boxes, Shared], Launch],
    info: DeviceInfo,
    held: int,
) -> Iterator[Way | Dropped]:
    """Yield the way of the plan ``first``, and those of further plans for timing.

    ``held``: the scratch reserved already.
    """
    if first is not None and few_parts(product, first, info) == 1:
        first = None
    for plan in dict.fromkeys([first, *plans] if first else plans):
        tiles = cubes_of(product, plan)
        # Parts of symbolic sizes would differ for each size.
        if is_size(tiles) or is_size(product.k) or lack(plan, info) is not None:
            continue
        if plan.rows >= 2 * product.m or plan.columns >= 2 * product.n:
            continue
        steps = -(-product.k // plan.depth)
        parts = parts_of_tile(tiles, steps, info.cores)
        if parts == 1:
            continue
        name = f"{name_of(plan)} split-K"
        if not info.has("forward_progress"):
            yield Dropped(name, "cubes may not go on while others wait for them")
            continue
        shared = Shared(tiles, parts, steps, Scratch(held))
        group = 0 if plan == first else 1
        yield Way(name, group, launch(plan, shared), scratch=(shared.nbytes(plan),))


def few_parts(product: Product, plan: Boxes, info: DeviceInfo) -> int:
    """Return the number of parts of each tile if split-K is the first choice; 1: no split."""
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
    most = min(cores // max(tiles, 1), steps // _LEAST)
    return next((parts for parts in range(most, 1, -1) if steps % parts == 0), 1)
