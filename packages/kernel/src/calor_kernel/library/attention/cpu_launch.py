"""Launches of attention by register tiles, for devices whose cubes have one unit.

Requirements: scores need transposed keys, so keys are packed once for all queries, unless these are
few. Sums need rows with vectors along them; values are packed only for another type or order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, Output, Request, Scratch, Work
from calor_kernel.library.attention.bias_gradient import BiasParts, bias_gradient_cpu
from calor_kernel.library.attention.cpu import (
    PanelSteps,
    add_parts,
    attend_cpu,
    gradient_cpu,
)
from calor_kernel.library.attention.cpu_plan import (
    Tiles,
    forward_shares,
    gradient_shares,
)
from calor_kernel.library.attention.operands import (
    ScoreForm,
    contiguous,
    least_bytes,
    operands_of,
    upstream_of,
)
from calor_kernel.library.attention.problem import Attention, Operand
from calor_kernel.library.matmul.packing import pack_operand
from calor_kernel.library.matmul.problem import Operand as Packable

# Vectors of parts that a cube adds.
_SHARE = 64
# Maximum of queries for which packing the keys does not pay.
_FEW = 5


@dataclass(frozen=True, slots=True)
class VectorRows:
    """An operand with vectors along its rows; ``layout``: whether it is packed, and ragged."""

    bound: Bound
    steps: PanelSteps[int]
    layout: tuple[bool, bool]


class Packed:
    """The packed operands of a work, with their launches and scratch memory."""

    def __init__(self, problem: Attention) -> None:
        self.problem = problem
        self.launches: list[Launch] = []
        self.scratch: list[int] = []

    def memory(self, count: int, dtype: DType) -> Bound:
        """Return memory for some elements."""
        self.scratch.append(greatest(count, 1) * dtype.itemsize)
        return Bound(Scratch(len(self.scratch) - 1), dtype)

    def transposed(self, operand: Operand, width: int, tiles: Tiles) -> Bound:
        """Return keys or values of all heads, transposed, in the tiles' panels of keys."""
        p = self.problem
        *_, row, column = operand.strides
        sizes = p.keys, width
        count = -(-p.keys // tiles.panel) * tiles.panel * width
        return self._packed(operand, sizes, count, tiles.panel, tiles.lanes, (row, column))

    def rows(self, operand: Operand, width: int, vectors: int, lanes: int) -> VectorRows:
        """Return keys or values as rows with vectors along them, in panels of some vectors."""
        p, span = self.problem, vectors * lanes
        batch, head, row, column = operand.strides
        if operand.dtype is p.accumulate and (column == 1 or width == 1):
            steps = PanelSteps(batch, head, span, row)
            return VectorRows(operand.bound, steps, (False, width % span != 0))
        whole = -(-width // span) * span * p.keys
        target = self._packed(operand, (width, p.keys), whole, span, lanes, (column, row))
        steps = PanelSteps(whole * p.key_heads, whole, p.keys * span, span)
        return VectorRows(target, steps, (True, False))

    def _packed(
        self,
        operand: Operand,
        sizes: tuple[int, int],
        count: int,
        panel: int,
        lanes: int,
        strides: tuple[int, int],
    ) -> Bound:
        """Return memory with panels of an operand, ``count`` elements for each head."""
        p = self.problem
        heads = p.batch, p.key_heads
        target = self.memory(p.batch * p.key_heads * count, p.accumulate)
        if count:
            batch = operand.strides[0], operand.strides[1]
            seen = Packable(batch, *strides, 0, operand.dtype)
            source, to = operand.bound.place, target.place
            self.launches.append(
                pack_operand(*sizes, heads, seen, panel, lanes, 1, p.accumulate, source, to)
            )
        return target


def _form(problem: Attention) -> ScoreForm:
    """Return what the kernels of register tiles are built for."""
    p = problem
    steps = tuple(x.strides[3] if x.strides[3] in (0, 1) else -1 for x in p.extras)
    return ScoreForm(p.kinds, p.causal, contiguous=contiguous(p)[:1], steps=steps)


def forward_by_tiles(problem: Attention, b: Tiles, request: Request) -> Iterator[Work]:
    """Yield the work of the forward pass."""
    p = problem
    share = forward_shares(p, b, request.info)
    packed = Packed(p)
    few = p.queries <= _FEW and (p.key.strides[3] == 1 or p.features == 1)
    panels = p.key.bound if few else packed.transposed(p.key, p.features, b)
    values = packed.rows(p.value, p.values, b.value_vectors, b.lanes)
    flops = 2 * p.pairs * (p.features + p.values)
    attend = launch(
        attend_cpu,
        Grid((-(-p.queries // share.queries), p.heads, p.batch)),
        Effort(f"attention {b.rows}x{b.panel}", flops, least_bytes(p)),
        panels=panels,
        values=values.bound,
        out=Bound(Output(0), p.dtype),
        total=Bound(Output(1), p.accumulate),
        block_rows=share.queries,
        block=share.keys,
        value_width=p.values,
        value_steps=values.steps,
        g=operands_of(p),
        tiles=b,
        form=_form(p),
        layout=values.layout,
        few=few,
    )
    yield Work((*packed.launches, attend), tuple(packed.scratch))


def gradients_by_tiles(problem: Attention, b: Tiles, request: Request) -> Iterator[Work]:
    """Yield the work of the gradients of query, key and value."""
    p = problem
    share = gradient_shares(p, b, request.info)
    packed = Packed(p)
    key_panels = packed.transposed(p.key, p.features, b)
    value_panels = packed.transposed(p.value, p.values, b)
    rows = packed.rows(p.key, p.features, b.feature_vectors, b.lanes)
    splits = -(-p.keys // share.split)
    count = p.rows * p.features
    alone = splits == 1 and p.dtype is p.accumulate
    result = Bound(Output(0), p.dtype)
    for_query = result if alone else packed.memory(splits * count, p.accumulate)
    launches = packed.launches
    if p.keys:
        flops = 2 * p.pairs * (3 * p.features + 2 * p.values)
        launches.append(
            launch(
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
                form=_form(p),
                layout=rows.layout,
            )
        )
    if not alone and count:
        nbytes = splits * count * p.accumulate.itemsize
        launches.append(
            launch(
                add_parts,
                Grid.line(-(-count // (_SHARE * b.lanes))),
                Effort("attention gradient sum", splits * count, nbytes),
                parts=for_query,
                target=result,
                count=count,
                features=p.features,
                queries=p.queries,
                number=splits,
                split=share.split,
                width=b.lanes,
                share=_SHARE,
                causal=p.causal,
                accumulate=p.accumulate,
            )
        )
    yield Work(tuple(launches), tuple(packed.scratch))


def bias_gradient_by_tiles(parts: BiasParts, b: Tiles, request: Request) -> Iterator[Work]:
    """Yield the work of the gradient of a bias."""
    p = parts.problem
    share = gradient_shares(p, b, request.info)
    packed = Packed(p)
    key_panels = packed.transposed(p.key, p.features, b)
    value_panels = packed.transposed(p.value, p.values, b)
    cubes, own, after = parts.blocks(share.queries, share.keys, packed.memory, request)
    made = launch(
        bias_gradient_cpu,
        Grid(cubes),
        parts.effort(f"{b.rows}x{b.panel}"),
        key_panels=key_panels,
        value_panels=value_panels,
        block_queries=share.queries,
        block_keys=share.keys,
        tiles=b,
        form=_form(p),
        **own,
    )
    yield Work((*packed.launches, made, *after), tuple(packed.scratch))
