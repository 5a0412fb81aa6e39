"""Plans of attention on a CPU: register tiles, blocks of queries and keys, and a cube's share.

Requirements: a blueprint is the smallest build-time key. Sizes are rounded up to rooms in private
memory, so that attention of many sizes shares few kernels. Rooms fit a thread's stack, and a
block's data fits the caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calor_kernel.contract.choices import choice, greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.attention.problem import Attention

# Rows of a register tile by its vectors, for 32 and for 16 vector registers.
_TILES = {32: {4: 6, 3: 8, 2: 12, 1: 16}, 16: {2: 6, 1: 8}}
# Bytes of private memory of a cube of one unit; it is a thread's stack.
_PRIVATE = 240 << 10
# Keys of a block: their scores fit the first-level cache, and the keys the second-level cache.
_KEYS = 512
# Maximum of queries of a cube, and approximate number of its operations.
_QUERIES = 96
_SHARE = 32_000_000
# Maximum of keys of a gradient block.
_GRADIENT_KEYS = 128
# Minimum of queries of a cube for which the gradients' blocks pay.
_GRADIENT_QUERIES = 12


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of ``rows`` queries by vectors: of keys, of a query's or of a value's features.

    Rooms are elements of private memory: for the keys of a block, the queries of a cube or block,
    the features of a query and those of a value.
    """

    lanes: int
    rows: int
    vectors: int
    feature_vectors: int
    value_vectors: int
    query_room: int
    key_room: int
    feature_room: int
    value_room: int

    @property
    def panel(self) -> int:
        """The keys of a panel."""
        return self.vectors * self.lanes


@dataclass(frozen=True, slots=True)
class Shares:
    """Queries and keys of a block, and the keys of a gradient cube."""

    queries: int
    keys: int
    split: int = 0


def forward_tiles(problem: Attention, info: DeviceInfo) -> Tiles:
    """Return the register tiles and rooms of the forward pass."""
    b = _tiles(problem, info, 4, _KEYS)
    item = problem.accumulate.itemsize
    left = _PRIVATE // item - b.rows * (b.key_room + b.lanes)
    each = b.feature_room + b.value_room + b.lanes + 1
    return _with_queries(b, left // each)


def gradient_tiles(problem: Attention, info: DeviceInfo) -> Tiles | None:
    """Return the register tiles and rooms of the gradients, None if no rooms fit."""
    for b in _smaller(problem, info):
        room = b.feature_room + b.value_room
        stride = b.key_room + b.lanes
        queries = (_PRIVATE // problem.accumulate.itemsize - stride * room) // (room + 2 * stride)
        if queries >= min(_GRADIENT_QUERIES, problem.queries + b.rows):
            return _with_queries(b, queries)
    return None


def _smaller(problem: Attention, info: DeviceInfo) -> Iterator[Tiles]:
    """Yield tiles with ever fewer keys in a block."""
    b = _tiles(problem, info, 4, _GRADIENT_KEYS)
    for vectors in range(b.vectors, 0, -1):
        yield _tiles(problem, info, vectors, _GRADIENT_KEYS)
    yield _tiles(problem, info, 1, 1)


def _tiles(problem: Attention, info: DeviceInfo, most_vectors: int, keys: int) -> Tiles:
    p = problem
    lanes = max(1, info.vector_bytes // p.accumulate.itemsize)
    shapes = _TILES[32 if info.native.get("vector_registers", 16) >= 32 else 16]
    most = max(shapes)
    vectors = _key_vectors(p.keys, lanes, min(most, most_vectors))
    features, values = (least(most, greatest(1, -(-n // lanes))) for n in (p.features, p.values))
    rows = greatest(1, least(shapes[most], p.queries))
    panel = vectors * lanes
    return Tiles(
        lanes,
        rows,
        vectors,
        features,
        values,
        rows,
        -(-keys // panel) * panel,
        _room(p.features, features * lanes),
        _room(p.values, values * lanes),
    )


@choice(low=1, high=4)
def _key_vectors(keys: int, lanes: int, most: int) -> int:
    """Return the vectors of keys in a tile; not three, because four are hardly slower.

    So one kernel serves all sizes above two vectors.
    """
    wanted = max(1, -(-keys // lanes))
    return wanted if wanted <= min(2, most) else most


def _with_queries(b: Tiles, fits: int) -> Tiles:
    """Return the tiles with as many queries as fit, up to a maximum."""
    return replace(b, query_room=greatest(1, least(fits, _QUERIES) // b.rows) * b.rows)


def _room(count: int, unit: int) -> int:
    """Return the room for ``count`` elements: at least a power of two of vectors."""
    room = unit
    while room < count:
        room *= 2
    return room


def forward_shares(problem: Attention, b: Tiles, info: DeviceInfo) -> Shares:
    """Return the share of a forward cube, and the keys of a block."""
    p = problem
    flops = 2 * p.keys * (p.features + p.values) // (2 if p.causal else 1)
    down = -(-p.queries // b.rows)
    busy = -(-down * p.heads * p.batch // (4 * info.cores))
    share = greatest(1, least(b.query_room // b.rows, _SHARE // greatest(1, flops * b.rows), busy))
    return Shares(_even(down, share) * b.rows, _even_keys(p, b))


def gradient_shares(problem: Attention, b: Tiles, info: DeviceInfo) -> Shares:
    """Return the blocks of the gradients, and ranges of keys that keep the cores busy."""
    p = problem
    keys = _even_keys(p, b)
    blocks = -(-max(p.keys, 1) // keys)
    heads = max(1, p.batch * p.key_heads)
    splits = 1 if heads >= 4 * info.cores else min(blocks, -(-4 * info.cores // heads), 8)
    down = max(1, -(-p.queries // b.rows))
    queries = _even(down, b.query_room // b.rows) * b.rows
    return Shares(queries, keys, -(-blocks // splits) * keys)


def _even(count: int, most: int) -> int:
    """Return the size of about equal shares of at most ``most``."""
    return -(-count // -(-count // most))


def _even_keys(problem: Attention, b: Tiles) -> int:
    """Return the keys of about equal blocks of whole panels."""
    return _even(greatest(1, -(-problem.keys // b.panel)), b.key_room // b.panel) * b.panel
