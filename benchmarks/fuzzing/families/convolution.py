"""Convolutions of known networks: of images, signals and volumes, plain and transposed."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Value, Work
from fuzzing.families import convolution_tables as tables
from fuzzing.families._common import calor_nn, chance, one, permuted, sizes, torch_nn

_BATCHES = {1: 4, 2: 1, 4: 1, 8: 2, 16: 1, 32: 3, 64: 1}
_VOLUMES = {1: 4, 2: 2, 4: 1, 8: 1}


def _row(random: Random, kinds: Any) -> Any:
    """Return a row of the tables."""
    return random.choice(
        kinds[one(random, {name: weight for name, (_, weight) in kinds.items()})][0]
    )


def _each(value: Value, rank: int) -> tuple[int, ...]:
    """Return a size for each axis."""
    return value if isinstance(value, tuple) else (int(value),) * rank


def _whole(values: tuple[int, ...]) -> Value:
    """Return one number where all axes have the same."""
    return values[0] if len(set(values)) == 1 else values


def _same(kernel: Value, dilation: int, rank: int) -> Value:
    """Return the padding that keeps sizes."""
    return _whole(tuple(dilation * (k - 1) // 2 for k in _each(kernel, rank)))


def _draw(random: Random) -> Parameters:
    channels, filters, size, kernel, stride, dilation, groups = _row(random, tables.IMAGES)
    height, width = _each(size, 2)
    rows, columns = _each(kernel, 2)
    if random.random() < 0.25 and min(height, width) > 8:
        by = random.randint(-3, 3)
        height, width = height + by, width + by
    if height == width and random.random() < 0.15 and height > 8:
        height = height * random.choice((2, 3)) // random.choice((1, 4)) + 1
    patches = (kernel == stride and rows > 2) or columns > 100
    padding = 0 if patches else _same(kernel, dilation, 2)
    reach = [
        dilation * (k - 1) + 1 - 2 * p
        for k, p in zip(_each(kernel, 2), _each(padding, 2), strict=True)
    ]
    return {
        "batch": one(random, _BATCHES),
        "image": (channels, max(height, reach[0]), max(width, reach[1])),
        "filters": filters, "kernel": kernel, "stride": stride, "padding": padding,
        "dilation": dilation, "groups": groups, "bias": chance(random, 0.3),
        "after": one(random, {"none": 6, "relu": 2, "silu": 1}),
        "layout": one(random, {"plain": 9, "channels_last": 1}),
    }  # fmt: skip


def _draw_3d(random: Random) -> Parameters:
    channels, filters, size, kernel, stride, dilation, groups = _row(random, tables.CUBES)
    patches = kernel == stride and kernel != 1
    return {
        "batch": one(random, _VOLUMES), "image": (channels, *_each(size, 3)), "filters": filters,
        "kernel": kernel, "stride": stride,
        "padding": 0 if patches else _same(kernel, dilation, 3), "dilation": dilation,
        "groups": groups, "bias": chance(random, 0.4),
        "after": one(random, {"none": 4, "relu": 1}), "layout": "plain",
    }  # fmt: skip


def _convolution(p: Parameters) -> Work:
    """Return a convolution; channels_last: the image is a permuted view of (N, H, W, C)."""
    batch, image, filters, groups = sizes(p, "batch", "image", "filters", "groups")
    rank = len(image) - 1
    options = {name: p[name] for name in ("stride", "padding", "dilation", "groups")}
    weights = (filters, image[0] // groups, *_each(p["kernel"], rank))
    made = (batch, filters, *_out(p, image[1:]))
    last = p.get("layout") == "channels_last"
    shape = (batch, *image[1:], image[0]) if last else (batch, *image)
    return _work(p, shape, weights, made, f"conv{rank}d", options, last)


def _work(
    p: Parameters, shape: Any, weights: Any, made: Any, name: str, options: Any, last: bool = False
) -> Work:
    relu, bias = str(p.get("after", "none")), bool(p["bias"])

    def layer(nn: Any) -> Any:
        def applied(x: Any, w: Any, *rest: Any) -> Any:
            x = permuted(x, (0, 3, 1, 2)) if last else x
            y = getattr(nn(), name)(x, w, *rest, **options)
            return y if relu == "none" else getattr(nn(), relu)(y)

        return applied

    filters = made[1]
    depth = prod(weights[1:])
    operands = [Operand(shape), Operand(weights, weight=True)]
    operands += [Operand((filters,), weight=True)] * bias
    return Work(
        tuple(operands), layer(calor_nn), layer(torch_nn), made,
        flops=2.0 * prod(made) * depth, depth=depth,
    )  # fmt: skip


def _out(p: Parameters, image: tuple[int, ...]) -> tuple[int, ...]:
    rank, dilation = len(image), int(p["dilation"])  # type: ignore[arg-type]
    axes = zip(image, *(_each(p[n], rank) for n in ("kernel", "stride", "padding")), strict=True)
    return tuple((s + 2 * pad - dilation * (k - 1) - 1) // step + 1 for s, k, step, pad in axes)


def _draw_1d(random: Random) -> Parameters:
    channels, filters, size, kernel, stride, dilation, groups = _row(random, tables.SERIES)
    if random.random() < 0.3:
        size += random.randint(-9, 9)
    reach = dilation * (kernel - 1)
    paddings = {reach // 2: 3} if reach >= size else {reach // 2: 3, 0: 1}
    return {
        "batch": one(random, _BATCHES), "image": (channels, size), "filters": filters,
        "kernel": kernel, "stride": stride, "padding": one(random, paddings),
        "dilation": dilation, "groups": groups, "bias": chance(random, 0.7),
        "after": one(random, {"none": 3, "relu": 1, "gelu": 1}),
    }  # fmt: skip


def _draw_transposed(random: Random) -> Parameters:
    channels, filters, size, kernel, stride, padding, more, groups, rank = _row(
        random, tables.UPSAMPLING
    )
    return {
        "batch": one(random, _VOLUMES if rank == 3 else _BATCHES),
        "image": (channels, *(size,) * rank), "filters": filters,
        "kernel": kernel, "stride": stride, "padding": padding, "output_padding": more,
        "groups": groups, "bias": chance(random, 0.5),
    }  # fmt: skip


def _transposed(p: Parameters) -> Work:
    batch, image, filters, kernel, stride, padding = sizes(
        p, "batch", "image", "filters", "kernel", "stride", "padding"
    )
    more, groups = int(p.get("output_padding", 0)), int(p.get("groups", 1))  # type: ignore[arg-type]
    rank = len(image) - 1
    made = (batch, filters, *((s - 1) * stride - 2 * padding + kernel + more for s in image[1:]))
    weights = (image[0], filters // groups, *(kernel,) * rank)
    options = {"stride": stride, "padding": padding, "output_padding": more, "groups": groups}
    work = _work(p, (batch, *image), weights, made, f"conv_transpose{rank}d", options)
    flops = 2.0 * batch * prod(image) * prod(weights[1:])
    return Work(work.operands, work.ours, work.theirs, made, flops, depth=image[0] * kernel)


FAMILIES = (
    Family("conv2d", 14, _draw, _convolution, ("batch",)),
    Family("conv1d", 3, _draw_1d, _convolution, ("batch",)),
    Family("conv3d", 1.5, _draw_3d, _convolution, ("batch",)),
    Family("conv_transpose", 2, _draw_transposed, _transposed, ("batch",)),
)
