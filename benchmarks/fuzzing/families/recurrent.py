"""What goes from step to step: recurrent layers as scans, running sums along any axis."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Shape, Work
from fuzzing.families._common import library, one, sizes
from fuzzing.families.elementwise import shape_of

_GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def _draw(random: Random) -> Parameters:
    return {
        "cell": one(random, {"lstm": 3, "gru": 2, "rnn": 1}),
        "steps": one(random, {1: 1, 10: 1, 35: 2, 50: 1, 128: 1}),
        "batch": one(random, {1: 2, 7: 1, 16: 1, 20: 2, 32: 2, 64: 1}),
        "width": one(random, {32: 1, 64: 1, 128: 3, 200: 1, 256: 2, 512: 1}),
    }


def _layer(p: Parameters) -> Work:
    """Return the outputs of a layer over a sequence (T, N, width) with states of the same width."""
    cell, steps, batch, width = sizes(p, "cell", "steps", "batch", "width")
    shape: Shape = (steps, batch, width)
    rows = _GATES[cell] * width
    weights = [Operand((rows, width), weight=True)] * 2 + [Operand((rows,), weight=True)] * 2
    scale = width**-0.5
    states = 2 if cell == "lstm" else 1

    def ours(x: Any, wi: Any, wh: Any, bi: Any, bh: Any) -> Any:
        calor = library("calor")
        inside = x @ (wi * scale).mT + bi
        wh = (wh * scale).mT

        def step(carry: Any, row: Any) -> Any:
            made = _cell(calor, cell, row, carry, wh, bh)
            return made, made[0]

        first = (calor.zeros(shape[1:], dtype=x.dtype),) * states
        return calor.scan(step, first, inside)[1]

    def theirs(x: Any, wi: Any, wh: Any, bi: Any, bh: Any) -> Any:
        torch = library("torch")
        first = x.new_zeros(1, *shape[1:])
        given = (first, first) if states == 2 else first
        call = torch.rnn_tanh if cell == "rnn" else getattr(torch, cell)
        every = [wi * scale, wh * scale, bi, bh]
        # cuDNN keeps what a gradient reads in training mode alone.
        training = any(one.requires_grad for one in (x, *every))
        return call(x, given, every, True, 1, 0.0, training, False, False)[0]

    flops = 4.0 * prod(shape) * rows
    operands = (Operand(shape), *weights)
    return Work(operands, ours, theirs, shape, flops=flops, depth=16 * steps * width)


def _cell(calor: Any, cell: str, row: Any, carry: Any, weight: Any, bias: Any) -> Any:
    """Return the new states from the input's part of the gates and the states."""
    h = carry[0]
    inner = h @ weight + bias
    if cell == "rnn":
        return (calor.tanh(row + inner),)
    if cell == "lstm":
        i, f, g, o = calor.chunk(row + inner, 4, axis=-1)
        c = calor.sigmoid(f) * carry[1] + calor.sigmoid(i) * calor.tanh(g)
        return calor.sigmoid(o) * calor.tanh(c), c
    (ri, zi, ni), (rh, zh, nh) = (calor.chunk(x, 3, axis=-1) for x in (row, inner))
    n = calor.tanh(ni + calor.sigmoid(ri + rh) * nh)
    z = calor.sigmoid(zi + zh)
    return ((1 - z) * n + z * h,)


def _draw_running(random: Random) -> Parameters:
    shape = shape_of(random)
    return {
        "form": one(random, {"sum": 3, "reverse": 1}),
        "shape": shape,
        "axis": random.randrange(len(shape)),
    }


def _running(p: Parameters) -> Work:
    """Return running sums along an axis; reverse: from its end, as returns of episodes."""
    shape: Any = p["shape"]
    axis, reverse = int(p["axis"]), p["form"] == "reverse"  # type: ignore[arg-type]

    def ours(x: Any) -> Any:
        calor = library("calor")
        x = calor.flip(x, axis=axis) if reverse else x
        made = calor.cumulative_sum(x, axis=axis)
        return calor.flip(made, axis=axis) if reverse else made

    def theirs(x: Any) -> Any:
        made = (x.flip(axis) if reverse else x).cumsum(axis)
        return made.flip(axis) if reverse else made

    return Work((Operand(shape),), ours, theirs, shape, 1.0 * prod(shape), depth=shape[axis])


FAMILIES = (
    Family("recurrent", 1.5, _draw, _layer, ("batch", "steps")),
    Family("running", 1.5, _draw_running, _running, ("shape",)),
)
