"""Launches of attention by register tiles, for devices whose cubes have one unit.

Requirements: a blueprint is the smallest build-time key. Sizes are rounded up to rooms in private
memory, so that attention of many sizes shares few kernels. Rooms fit a thread's stack, and a
block's data fits the caches. Scores need transposed keys, so keys are packed once for all queries,
unless these are few. Sums need rows with vectors along them; values are packed only for another
order, or another type if queries are not few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calor_kernel.contract.choices import choice, greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.contract.work import Output, Request, Work
from calor_kernel.library.attention.bias_gradient import BiasParts, bias_gradient_cpu
from calor_kernel.library.attention.cpu import PanelSteps, add_parts, attend_cpu, gradient_cpu
from calor_kernel.library.attention.cpu_tiles import Tiles
from calor_kernel.library.attention.operands import (
    ScoreForm,
    contiguous,
    least_bytes,
    operands_of,
    results_of,
    upstream_of,
)
from calor_kernel.library.attention.problem import Attention, Operand
from calor_kernel.library.matmul.blueprints import TILES, registers_of
from calor_kernel.library.matmul.packing import pack_operand
from calor_kernel.library.matmul.problem import Operand as Packable
from calor_kernel.library.steps import Steps

# Terms of a product in a turn of its loop, by vector registers. Small tiles leave less room for a
# turn's own instructions, and with few registers some vectors of a turn's first terms are spilled.
_UNROLL = {32: 4, 16: 8}
# Bytes of private memory of a cube of one unit; it is a thread's stack.
PRIVATE = 240 << 10
# Keys of a block: their scores fit the first-level cache, and the keys the second-level cache.
_KEYS = 512
# Maximum of queries of a cube, and approximate number of its operations.
_QUERIES = 96
_SHARE = 32_000_000
# Maximum of keys of a gradient block.
_GRADIENT_KEYS = 128
# Minimum of queries of a cube for which the gradients' blocks pay.
_GRADIENT_QUERIES = 12
# About the vectors of a gradient that a cube adds from parts.
_ADDED = 64
# Maximum of queries for which packing the keys does not pay.
_FEW = 5


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
    left = PRIVATE // item - b.rows * (b.key_room + b.lanes)
    each = b.feature_room + b.value_room + b.lanes + 1
    return _with_queries(b, left // each)


def gradient_tiles(problem: Attention, info: DeviceInfo) -> Tiles | None:
    """Return the register tiles and rooms of the gradients, None if no rooms fit."""
    for b in _smaller(problem, info):
        room = b.feature_room + b.value_room
        stride = b.key_room + b.lanes
        queries = (PRIVATE // problem.accumulate.itemsize - stride * room) // (room + 2 * stride)
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
    registers = registers_of(info)
    shapes, unroll = TILES[registers], _UNROLL[registers]
    most = max(shapes)
    vectors = _key_vectors(p.keys, lanes, min(most, most_vectors))
    features, values = (least(most, greatest(1, -(-n // lanes))) for n in (p.features, p.values))
    rows = greatest(1, least(shapes[most], p.queries))
    panel = vectors * lanes
    rooms = room_for(p.features, features * lanes), room_for(p.values, values * lanes)
    keys = -(-keys // panel) * panel
    return Tiles(lanes, rows, vectors, features, values, rows, keys, *rooms, unroll)


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


def room_for(count: int, unit: int) -> int:
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


@dataclass(frozen=True, slots=True)
class VectorRows:
    """An operand with vectors along its rows; ``layout``: whether it is packed, and ragged."""

    bound: Bound
    steps: PanelSteps[int]
    layout: tuple[bool, bool]


class Packed(Steps):
    """The launches of a work whose operands are packed."""

    def __init__(self, problem: Attention) -> None:
        super().__init__()
        self.problem = problem

    def panels(self, tiles: Tiles) -> tuple[Bound, Bound]:
        """Return keys and values, transposed."""
        p = self.problem
        return self.transposed(p.key, p.features, tiles), self.transposed(p.value, p.values, tiles)

    def transposed(self, operand: Operand, width: int, tiles: Tiles) -> Bound:
        """Return keys or values of all heads, transposed, in the tiles' panels of keys."""
        *_, row, column = operand.strides
        sizes = self.problem.keys, width
        return self._packed(operand, sizes, (row, column), tiles.panel, tiles.lanes)

    def rows(self, operand: Operand, width: int, vectors: int, lanes: int) -> VectorRows:
        """Return keys or values as rows with vectors along them, in panels of some vectors."""
        p, span = self.problem, vectors * lanes
        batch, head, row, column = operand.strides
        # Few queries convert what they read in the time of a copy.
        direct = operand.dtype is p.accumulate or p.queries <= _FEW
        if direct and (column == 1 or width == 1):
            steps = PanelSteps(batch, head, span, row)
            return VectorRows(operand.bound, steps, (False, width % span != 0))
        target = self._packed(operand, (width, p.keys), (column, row), span, lanes)
        whole = -(-width // span) * span * p.keys
        steps = PanelSteps(whole * p.key_heads, whole, p.keys * span, span)
        return VectorRows(target, steps, (True, False))

    def _packed(
        self,
        operand: Operand,
        sizes: tuple[int, int],
        strides: tuple[int, int],
        panel: int,
        lanes: int,
    ) -> Bound:
        """Return memory with the panels of an operand of all heads."""
        p, (n, k) = self.problem, sizes
        count = -(-n // panel) * panel * k
        target = self.room(p.batch * p.key_heads * count, p.accumulate)
        if count:
            seen = Packable((operand.strides[0], operand.strides[1]), *strides, 0, operand.dtype)
            places = operand.bound.place, target.place
            heads = p.batch, p.key_heads
            self.launches.append(
                pack_operand(n, k, heads, seen, panel, lanes, 1, p.accumulate, *places)
            )
        return target


def form_of(problem: Attention, operands: int = 1) -> ScoreForm:
    """Return what the kernels are built for that read so many of query, key and value in place."""
    p = problem
    steps = tuple(x.strides[3] if x.strides[3] in (0, 1) else -1 for x in p.extras)
    return ScoreForm(p.kinds, p.causal, contiguous=contiguous(p)[:operands], steps=steps)


def forward_by_tiles(problem: Attention, b: Tiles, request: Request) -> Iterator[Work]:
    """Yield the work of the forward pass."""
    p = problem
    share = forward_shares(p, b, request.info)
    packed = Packed(p)
    few = p.queries <= _FEW and (p.key.strides[3] == 1 or p.features == 1)
    panels = p.key.bound if few else packed.transposed(p.key, p.features, b)
    values = packed.rows(p.value, p.values, b.value_vectors, b.lanes)
    flops = 2 * p.pairs * (p.features + p.values)
    packed.add(
        attend_cpu,
        Grid((-(-p.queries // share.queries), p.heads, p.batch)),
        Effort(f"attention {b.rows}x{b.panel}", flops, least_bytes(p)),
        panels=panels,
        values=values.bound,
        **results_of(p, request),
        block_rows=share.queries,
        block=share.keys,
        value_width=p.values,
        value_steps=values.steps,
        g=operands_of(p),
        tiles=b,
        form=form_of(p),
        layout=values.layout,
        few=few,
    )
    yield packed.work()


def gradients_by_tiles(problem: Attention, b: Tiles, request: Request) -> Iterator[Work]:
    """Yield the work of the gradients of query, key and value."""
    p = problem
    share = gradient_shares(p, b, request.info)
    packed = Packed(p)
    few = p.queries <= _FEW and all(contiguous(p)[1:])
    once = p.group == 1 and not p.causal and p.queries <= share.queries
    key_panels, value_panels = (p.key.bound, p.value.bound) if few else packed.panels(b)
    rows = packed.rows(p.key, p.features, b.feature_vectors, b.lanes)
    splits = -(-p.keys // share.split)
    count = p.rows * p.features
    alone = splits == 1 and p.dtype is p.accumulate
    result = Bound(Output(0), p.dtype)
    for_query = result if alone else packed.room(splits * count, p.accumulate)
    if p.keys:
        flops = 2 * p.pairs * (3 * p.features + 2 * p.values)
        packed.add(
            gradient_cpu,
            Grid((splits, p.key_heads, p.batch)),
            Effort(f"attention gradient {b.rows}x{b.panel}", flops, 2 * least_bytes(p)),
            up=upstream_of(request),
            key_panels=key_panels,
            value_panels=value_panels,
            key_columns=rows.bound,
            for_query=for_query,
            for_key=Bound(Output(1), p.dtype),
            for_value=Bound(Output(2), p.dtype),
            block_queries=share.queries,
            block_keys=share.keys,
            split=share.split,
            split_step=count,
            value_width=p.values,
            key_steps=rows.steps,
            g=operands_of(p),
            tiles=b,
            form=form_of(p),
            layout=rows.layout,
            few=few,
            once=once,
        )
    if not alone:
        add_query_parts(p, b, packed, for_query, splits, share.split)
    yield packed.work()


def add_query_parts(
    problem: Attention, b: Tiles, steps: Steps, parts: Bound, number: int, split: int
) -> None:
    """Add the launch that adds the parts of a query's gradient, one for each split of the keys."""
    p = problem
    count = p.rows * p.features
    if count:
        share = greatest(1, _ADDED * b.lanes // p.features)
        steps.add(
            add_parts,
            Grid.line(-(-p.rows // share)),
            Effort(
                "attention gradient sum", number * count, number * count * p.accumulate.itemsize
            ),
            parts=parts,
            target=Bound(Output(0), p.dtype),
            rows=p.rows,
            features=p.features,
            queries=p.queries,
            number=number,
            split=split,
            share=share,
            width=b.lanes,
            causal=p.causal,
            accumulate=p.accumulate,
        )


def bias_gradient_by_tiles(parts: BiasParts, b: Tiles, request: Request) -> Iterator[Work]:
    """Yield the work of the gradient of a bias."""
    p = parts.problem
    share = gradient_shares(p, b, request.info)
    packed = Packed(p)
    key_panels, value_panels = packed.panels(b)
    parts.add(
        packed,
        bias_gradient_cpu,
        (share.queries, share.keys),
        Grid((1, 1, 1)),
        f"{b.rows}x{b.panel}",
        request,
        key_panels=key_panels,
        value_panels=value_panels,
        block_queries=share.queries,
        block_keys=share.keys,
        tiles=b,
        form=form_of(p),
    )
    yield packed.work()
