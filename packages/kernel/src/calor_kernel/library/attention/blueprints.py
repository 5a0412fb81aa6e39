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
# Keys that are looked at together: their scores stay in the first cache, and themselves in the
# second one.
_KEYS = 512
# Queries that a cube does at most, and the multiplications and additions about.
_QUERIES = 96
_SHARE = 32_000_000


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of ``rows`` queries by ``vectors`` vectors of keys, or of a value's elements.

    Rooms are elements of private memory: for the keys of a block, the queries of a cube, the
    elements of a query and those of a sum of values.
    """

    lanes: int
    rows: int
    vectors: int
    value_vectors: int
    key_room: int
    query_room: int
    feature_room: int
    value_room: int


@dataclass(frozen=True, slots=True)
class Shares:
    """Queries of a cube, and keys that are looked at together."""

    queries: int
    keys: int


def tiles(problem: Attention, info: DeviceInfo) -> Tiles:
    """Return the register tiles and rooms of the forward pass."""
    p = problem
    lanes = max(1, info.vector_bytes // p.accumulate.itemsize)
    shapes = _TILES[32 if info.native.get("vector_registers", 16) >= 32 else 16]
    most = max(shapes)
    vectors = min(most, max(1, -(-p.keys // lanes)))
    value_vectors = min(most, max(1, -(-p.values // lanes)))
    rows = max(1, min(shapes[max(vectors, value_vectors)], p.queries))
    return Tiles(
        lanes,
        rows,
        vectors,
        value_vectors,
        -(-_KEYS // (vectors * lanes)) * vectors * lanes,
        -(-_QUERIES // rows) * rows,
        _room(p.features, lanes),
        _room(p.values, value_vectors * lanes),
    )


def shares(problem: Attention, blueprint: Tiles) -> Shares:
    """Return what a cube does, and how much of it at a time."""
    p, b = problem, blueprint
    flops = 2 * p.keys * (p.features + p.values) // (2 if p.causal else 1)
    tiles_down = -(-p.queries // b.rows)
    share = max(1, min(b.query_room // b.rows, _SHARE // max(1, flops * b.rows)))
    down = -(-tiles_down // share)
    # Blocks of keys are about equal, and whole panels.
    width = b.vectors * b.lanes
    blocks = max(1, -(-p.keys // b.key_room))
    keys = -(-max(p.keys, 1) // (blocks * width)) * width
    return Shares(-(-tiles_down // down) * b.rows, keys)


def _room(count: int, unit: int) -> int:
    """Return the elements to keep for ``count``: a power of two of vectors at least."""
    room = unit
    while room < count:
        room *= 2
    return room
