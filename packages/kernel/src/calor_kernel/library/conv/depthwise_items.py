"""The items of depthwise weight gradients, staged one after another, or planes of these.

Requirements: an item is a tile of the image and of the output gradient, which meet in shared memory
between two barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.depthwise_staging import Tile
from calor_kernel.library.conv.direct_blocks import Line
from calor_kernel.library.conv.split_sums import Items
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.conv.volume_axis import Seen


@dataclass(frozen=True, slots=True)
class Operand:
    """An image of a weight gradient, and where its tile is held; ``channel``: of each group.

    ``plane``: of a volume's plane, what :meth:`Planes.seen` returns; its strides have no channels.
    """

    tile: Tile
    held: kl.Pointer
    image: kl.Pointer
    steps: Strides[kl.Number]
    channel: kl.Index
    plane: Callable[[kl.Number], Seen] | None = None


@kl.helper
def over_items(
    items: Items[kl.Number],
    split: kl.Number,
    parts: tuple[kl.FastDivmod, ...],
    by: Sequence[int],
    operands: tuple[Operand, Operand],
    first: kl.Number,
    groups: kl.Number,
    lines: tuple[Line[kl.Number], ...],
    units: int,
    wide: DType,
    add: Callable[[], None],
) -> None:
    """Stage the items of a part one after another: the image, the output gradient; add each.

    ``by``: the blocks of an item along each axis; ``first``: the first of a cube's groups.
    """
    for item in kl.loop_range(*items.ends(split)):
        image, *numbers = kl.unravel(item, (0, *parts))
        tops = [number * n for number, n in zip(numbers, by, strict=True)]
        for k, one in enumerate(operands):
            sizes = [line.count if k else line.size for line in lines]
            if one.plane is None:
                at = one.steps.at(image, first) + one.channel * one.steps.inner
            else:
                volume, begin, there = one.plane(image)
                at = one.steps.at(volume, first) + begin
                sizes[0] = kl.select(there, sizes[0], 0) if k == 0 else sizes[0]
            moves = [line.c if k else line.a for line in lines]
            one.tile.stage(
                one.held, one.image, at, one.steps.middle, groups - first, tops, sizes, moves,
                units, wide,
            )  # fmt: skip
        kl.barrier()
        add()
        kl.barrier()
