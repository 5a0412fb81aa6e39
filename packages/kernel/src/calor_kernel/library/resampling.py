"""Weighted sums of a few elements along adjacent axes: resizing of images, and its gradient.

Requirements: the unit that writes an element computes its whole sum, in the order of the tables, so
that results are reproducible. Half types are summed in float32. On large cubes all axes are one
pass over memory. Cubes of one unit do one axis after another: along rows, indices and weights are
loaded once for many rows; across rows, terms are whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from calor.dtypes import DType, float32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Output, Request, View, Work, lowering
from calor_kernel.library.steps import Steps

_UNITS = 256
# Terms of an element that are written out, and how many of more terms are loaded together.
_UNROLLED = 16
_AHEAD = 8
# Elements of a cube of one unit.
_CHUNK = 1 << 14


@kl.kernel
def resample(
    x: kl.In,
    y: kl.Out,
    where: tuple[kl.In, ...],
    weights: tuple[kl.In, ...],
    count: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    olds: tuple[kl.Size, ...],
    inner: kl.FastDivmod,
    *,
    taps: tuple[int, ...],
    padded: bool,
    accumulate: DType,
) -> None:
    """Compute an array (lead, sizes, inner) of one (lead, olds, inner).

    ``taps``: the terms of a result along each axis; ``padded``: whether those of index −1 are none.
    """
    index = kl.absolute_position()
    if index < count:
        lead, *places, last = kl.unravel(index, (0, *sizes, inner))
        total = kl.registers(1, accumulate)
        one = kl.constant(1, accumulate)
        given = list(zip(where, weights, olds, taps, places, strict=True))
        add_terms(total, x, given, padded, lead, one, index >= 0, inner.divisor, last)
        y[index] = total[0].to(y.dtype)


@kl.helper
def add_terms(
    total: kl.Registers,
    x: kl.Pointer,
    axes: Sequence[tuple[kl.Pointer, kl.Pointer, kl.Number, int, kl.Number]],
    padded: bool,
    at: kl.Number,
    weight: kl.Number,
    inside: kl.Mask,
    inner: kl.Number,
    last: kl.Number,
) -> None:
    """Add the terms of the axes from a given one on; ``at``: the position along those before."""
    if not axes:
        value = x.load(at * inner + last, mask=inside).to(total.type.dtype)
        total[0] = total[0] + value * weight
    else:
        where, weights, old, taps, place = axes[0]

        def add_term(k: kl.Index, inside: kl.Mask) -> None:
            of = place * taps + k
            found = where.load(of, mask=inside).to(at.dtype)
            there = inside
            if padded:
                there = inside & (found >= 0)
            share = weights.load(of, mask=there).to(total.type.dtype) * weight
            near = kl.select(there, found, 0)
            add_terms(total, x, axes[1:], padded, at * old + near, share, there, inner, last)

        if taps <= _UNROLLED:
            for k in kl.range(taps):
                add_term(k, inside)
        else:
            for first in kl.loop_range(0, taps, _AHEAD):
                for k in range(_AHEAD):
                    add_term(first + k, inside & (first + k < taps))


@kl.kernel
def resample_along(
    x: kl.In,
    y: kl.Out,
    where: kl.In,
    weights: kl.In,
    rows: kl.Size,
    turns: kl.Size,
    size: kl.Size,
    old: kl.Size,
    *,
    taps: int,
    padded: bool,
    width: int,
    accumulate: DType,
) -> None:
    """Compute ``turns`` rows of ``size`` elements of rows of ``old``, ``width`` at a time."""
    begin = kl.cube_position() * turns
    end = kl.min(begin + turns, rows)
    lanes = kl.constant(tuple(range(width)), int64)
    for i in kl.loop_range(0, size, width):
        inside = lanes < kl.splat(size - i, width)
        table = (kl.min(lanes + i, size - 1)) * taps

        def term(k: kl.Index, table: kl.Number = table) -> tuple[kl.Number, kl.Number]:
            place = where.load(table + k).to(int64)
            share = weights.load(table + k).to(accumulate)
            return place, share

        known = [term(k) for k in range(taps)] if taps <= _UNROLLED else []
        for row in kl.loop_range(begin, end):
            total = kl.registers(1, accumulate, width)
            for k in kl.range(taps) if known else kl.loop_range(taps):
                place, share = known[k] if known else term(k)
                there = place >= 0 if padded else lanes >= 0
                value = x.load(row * old + kl.max(place, 0), mask=there).to(accumulate)
                total[0] = total[0] + value * share
            y.store(row * size + i, total[0].to(y.dtype), mask=inside)


@kl.kernel
def resample_across(
    x: kl.In,
    y: kl.Out,
    where: kl.In,
    weights: kl.In,
    lines: kl.Size,
    turns: kl.Size,
    size: kl.Size,
    old: kl.Size,
    inner: kl.Size,
    *,
    taps: int,
    padded: bool,
    width: int,
    accumulate: DType,
) -> None:
    """Compute ``turns`` of the lines (outer, size) of ``inner`` elements each."""
    begin = kl.cube_position() * turns
    for line in kl.loop_range(begin, kl.min(begin + turns, lines)):
        outer, place = kl.divide(line, size)
        for i in kl.loop_range(0, inner, width):
            inside = kl.constant(tuple(range(width)), int64) < kl.splat(inner - i, width)
            total = kl.registers(1, accumulate, width)
            for k in kl.loop_range(taps):
                found = where[place * taps + k].to(int64)
                share = kl.splat(weights[place * taps + k].to(accumulate), width)
                if (found >= 0) if padded else (taps > 0):
                    at = (outer * old + found) * inner + i
                    total[0] = total[0] + x.load(at, width, mask=inside).to(accumulate) * share
            y.store(line * inner + i, total[0].to(y.dtype), mask=inside)


@lowering("nn.resample")
def lower_resample(request: Request) -> Sequence[Work]:
    """Lower the row of resampling, of the package for neural networks."""
    if not request.outputs[0].size:
        return [Work(())]
    return [_together(request) if request.info.max_units > 1 else _in_turns(request)]


def _accumulator(x: View) -> DType:
    return float32 if x.dtype.itemsize == 2 else x.dtype


def _together(request: Request) -> Work:
    """Return the launch of all axes."""
    x, *tables = request.inputs
    (made,), info = request.outputs, request.info
    start, padded = request.attributes["axis"], request.attributes["padded"][0]
    count, rank, units = made.size, len(tables) // 4, min(info.max_units, _UNITS)
    launched = launch(
        resample,
        Grid.line(-(-count // units), units, info.planes[0], kl.index_dtype(count + units, x.size)),
        Effort(
            "resample",
            2 * count * prod(tables[4 * k].shape[1] for k in range(rank)),
            x.size * x.dtype.itemsize + made.nbytes,
        ),
        x=operand(0, x),
        y=Bound(Output(), made.dtype),
        where=[operand(1 + 4 * k, tables[4 * k]) for k in range(rank)],
        weights=[operand(2 + 4 * k, tables[4 * k + 1]) for k in range(rank)],
        count=count,
        sizes=made.shape[start : start + rank],
        olds=x.shape[start : start + rank],
        inner=prod(made.shape[start + rank :]),
        taps=tuple(tables[4 * k].shape[1] for k in range(rank)),
        padded=padded,
        accumulate=_accumulator(x),
    )
    return Work((launched,))


def _in_turns(request: Request) -> Work:
    """Return a launch for each axis: first those that shrink, and the last axis before others."""
    x, *tables = request.inputs
    (made,), steps = request.outputs, Steps()
    start, accumulate = request.attributes["axis"], _accumulator(x)
    axes = list(range(len(tables) // 4))
    axes.sort(key=lambda k: (bool(made.shape[start + k] >= x.shape[start + k]), -k))
    shape, source = list(x.shape), operand(0, x)
    for number, k in enumerate(axes):
        old, size = shape[start + k], made.shape[start + k]
        shape[start + k] = size
        last = number == len(axes) - 1
        target = Bound(Output(), made.dtype) if last else steps.room(prod(shape), accumulate)
        where, weights = tables[4 * k], tables[4 * k + 1]
        inner, outer = prod(shape[start + k + 1 :]), prod(shape[: start + k])
        lines, length = (outer, size) if inner == 1 else (outer * size, inner)
        turns = greatest(_CHUNK // greatest(length, 1), 1)
        given: dict[str, object] = {"x": source, "y": target, "turns": turns}
        given |= {"where": operand(1 + 4 * k, where), "weights": operand(2 + 4 * k, weights)}
        given |= {"size": size, "old": old, "taps": where.shape[1], "accumulate": accumulate}
        given |= {"padded": request.attributes["padded"][0]}
        given["width"] = max(1, request.info.vector_bytes // accumulate.itemsize)
        nbytes = outer * (old + size) * inner * accumulate.itemsize
        effort = Effort("resample", 2 * outer * size * inner * where.shape[1], nbytes)
        grid = Grid.line(-(-lines // turns))
        if inner == 1:
            steps.add(resample_along, grid, effort, rows=lines, **given)
        else:
            steps.add(resample_across, grid, effort, lines=lines, inner=inner, **given)
        source = target
    return steps.work()
