"""How attention is computed on a CPU: register tiles, blocks of keys, shares of queries.

Requirements: a blueprint is the smallest build-time key; sizes are rounded up to few classes, so
that attention of many sizes shares few kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor_kernel.library.attention.problem import Attention
from calor_kernel.runtime.device import DeviceInfo

# The rows of a register tile by its vectors, with 32 and with 16 vector registers.
_TILES = {32: {4: 6, 3: 8, 2: 12, 1: 16}, 16: {2: 6, 1: 8}}
# Scores of a tile's rows that stay in the first cache, in bytes.
_SCORES = 12 << 10
# Multiplications and additions that a cube does about.
_SHARE = 4_000_000


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of ``rows`` queries by ``vectors`` vectors of keys, or of a value's elements.

    ``block`` keys are looked at together; a cube does ``block_rows`` queries. ``feature_room`` and
    ``value_room`` are elements that private memory has for a query and for a sum of values.
    """

    lanes: int
    rows: int
    vectors: int
    value_vectors: int
    block: int
    block_rows: int
    feature_room: int
    value_room: int


def tiles(problem: Attention, info: DeviceInfo) -> Tiles:
    """Return the blueprint of the forward pass."""
    p = problem
    lanes = max(1, info.vector_bytes // p.accumulate.itemsize)
    shapes = _TILES[32 if info.native.get("vector_registers", 16) >= 32 else 16]
    most = max(shapes)
    vectors = min(most, max(1, -(-p.keys // lanes)))
    value_vectors = min(most, max(1, -(-p.values // lanes)))
    rows = max(1, min(shapes[max(vectors, value_vectors)], p.queries))
    width = vectors * lanes
    fits = _SCORES // (rows * p.accumulate.itemsize) // width * width
    block = max(width, min(fits, -(-p.keys // width) * width))
    per_row = 2 * p.keys * (p.features + p.values) // (2 if p.causal else 1)
    tiles_down = -(-p.queries // rows)
    share = max(1, min(tiles_down, _SHARE // max(1, per_row * rows)))
    block_rows = -(-tiles_down // -(-tiles_down // share)) * rows
    return Tiles(
        lanes,
        rows,
        vectors,
        value_vectors,
        block,
        block_rows,
        _room(p.features, lanes),
        _room(p.values, value_vectors * lanes),
    )


def _room(count: int, unit: int) -> int:
    """Return the elements to keep for ``count``: a power of two of vectors at least."""
    room = unit
    while room < count:
        room *= 2
    return room
