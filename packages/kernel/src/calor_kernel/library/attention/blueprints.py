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
    rows = max(1, min(shapes[most], p.queries))
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


# Queries and keys of a block of the gradients.
_BLOCK_QUERIES = 96
_BLOCK_KEYS = 128


@dataclass(frozen=True, slots=True)
class GradientTiles:
    """Tiles of ``rows`` queries by ``vectors`` vectors of keys, and rooms in private memory."""

    lanes: int
    rows: int
    vectors: int
    feature_vectors: int
    value_vectors: int
    query_room: int
    key_room: int
    feature_room: int
    value_room: int


@dataclass(frozen=True, slots=True)
class GradientShares:
    """Queries and keys of a block, and the keys that a cube has."""

    queries: int
    keys: int
    split: int


def gradient_tiles_of(problem: Attention, info: DeviceInfo) -> GradientTiles:
    """Return the register tiles and rooms of the gradients."""
    p, t = problem, tiles(problem, info)
    most = max(_TILES[32 if info.native.get("vector_registers", 16) >= 32 else 16])
    feature_vectors = min(most, max(1, -(-p.features // t.lanes)))
    width = t.vectors * t.lanes
    return GradientTiles(
        t.lanes,
        t.rows,
        t.vectors,
        feature_vectors,
        t.value_vectors,
        -(-_BLOCK_QUERIES // t.rows) * t.rows,
        -(-_BLOCK_KEYS // width) * width,
        _room(p.features, feature_vectors * t.lanes),
        t.value_room,
    )


def gradient_shares(
    problem: Attention, blueprint: GradientTiles, info: DeviceInfo
) -> GradientShares:
    """Return the blocks, and as many ranges of keys as keep the device's cores busy."""
    p, b = problem, blueprint
    width = b.vectors * b.lanes
    tiles_down = max(1, -(-p.queries // b.rows))
    down = -(-tiles_down * b.rows // b.query_room)
    blocks = max(1, -(-p.keys // b.key_room))
    keys = -(-max(p.keys, 1) // (blocks * width)) * width
    blocks = -(-max(p.keys, 1) // keys)
    heads = max(1, p.batch * p.key_heads)
    splits = 1 if heads >= 4 * info.cores else min(blocks, -(-4 * info.cores // heads), 8)
    return GradientShares(-(-tiles_down // down) * b.rows, keys, -(-blocks // splits) * keys)


@dataclass(frozen=True, slots=True)
class Teams:
    """Cubes of ``across`` by ``down`` units; a unit has ``rows`` by ``keys`` scores of a tile.

    ``values``: the columns of sums that it has. ``depth`` elements of operands are in a tile.
    """

    across: int
    down: int
    depth: int
    rows: int
    keys: int
    values: int


def teams(problem: Attention, width: int) -> Teams:
    """Return the blueprint for cubes of many units, with sums of ``width`` columns."""
    wide = problem.accumulate.itemsize == 8
    values = min(2 if wide else 4, max(1, -(-width // 16)))
    return Teams(16, 8, 8 if wide else 16, 4, 2, values)
