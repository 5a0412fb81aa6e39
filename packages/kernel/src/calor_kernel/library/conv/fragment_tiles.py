"""Tiles of convolutions by matrix instructions, for each kind of instruction the likeliest first.

Requirements: those that come first fill large problems, those after them smaller ones; the others
are there to be timed.
"""

from __future__ import annotations

# Rows and columns of a tile, what it takes of the terms, planes down and across, stages.
Tiles = tuple[tuple[int, int, int, int, int, int], ...]
TILES: Tiles = ((128, 128, 64, 2, 2, 3), (64, 128, 64, 2, 2, 3), (64, 64, 64, 2, 2, 3))
MORE: Tiles = (
    (128, 128, 32, 2, 2, 4),
    (64, 128, 32, 2, 2, 4),
    (128, 256, 32, 2, 4, 3),
    (128, 64, 64, 2, 2, 3),
    (64, 256, 32, 1, 4, 4),
)
# The same for groups of four planes, each of 64 rows and all columns of a tile.
GROUPED: Tiles = (
    (128, 128, 64, 8, 1, 3),
    (64, 256, 64, 4, 1, 3),
    (64, 128, 64, 4, 1, 4),
    (64, 64, 64, 4, 1, 4),
)
MORE_GROUPED: Tiles = ((128, 256, 64, 8, 1, 3), (128, 64, 64, 8, 1, 4), (256, 128, 64, 16, 1, 3))
# The same for instructions by name: what loads and stores take has one stage ahead.
NAMED: dict[str, Tiles] = {
    "mfma_32x32x8": ((128, 128, 32, 2, 2, 2), (64, 128, 32, 2, 2, 2), (64, 64, 32, 2, 2, 2)),
    "mfma_32x32x2": ((128, 64, 64, 2, 2, 2), (64, 64, 64, 2, 2, 2)),
    "wmma_16x16x16": ((128, 128, 32, 4, 2, 2), (64, 128, 32, 2, 4, 2), (64, 64, 32, 2, 2, 2)),
    "simdgroup_8x8x8": ((64, 64, 32, 2, 2, 2), (32, 64, 32, 2, 2, 2), (32, 32, 32, 2, 2, 2)),
}
