"""Convolutions of known networks: stems, blocks, depthwise, dilated, grouped, 1-d, transposed."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import calor_nn, chance, one, permuted, sizes, torch_nn

_BATCHES = {1: 4, 2: 1, 4: 1, 8: 2, 16: 1, 32: 3, 64: 1}
# fmt: off
# Channels in and out, image, kernel, stride, dilation, groups.
_STEMS = [(3, 64, 224, 7, 2, 1, 1), (3, 32, 224, 3, 2, 1, 1), (3, 16, 224, 3, 2, 1, 1),
          (3, 64, 32, 3, 1, 1, 1), (1, 32, 28, 3, 1, 1, 1), (3, 96, 224, 4, 4, 1, 1),
          (3, 768, 224, 16, 16, 1, 1), (4, 320, 64, 3, 1, 1, 1), (1, 6, 28, 5, 1, 1, 1),
          (3, 48, 300, 3, 2, 1, 1), (3, 64, 299, 3, 2, 1, 1)]
_BLOCKS = [(64, 64, 56, 3, 1, 1, 1), (64, 128, 56, 3, 2, 1, 1), (128, 128, 28, 3, 1, 1, 1),
           (128, 256, 28, 3, 2, 1, 1), (256, 256, 14, 3, 1, 1, 1), (256, 512, 14, 3, 2, 1, 1),
           (512, 512, 7, 3, 1, 1, 1), (320, 320, 64, 3, 1, 1, 1), (640, 640, 32, 3, 1, 1, 1),
           (1280, 1280, 16, 3, 1, 1, 1), (64, 64, 32, 3, 1, 1, 1), (32, 64, 28, 3, 1, 1, 1),
           (48, 96, 75, 3, 1, 1, 1), (64, 192, 27, 5, 1, 1, 1), (192, 384, 13, 3, 1, 1, 1),
           (128, 128, 17, 7, 1, 1, 1), (6, 16, 14, 5, 1, 1, 1), (128, 255, 52, 3, 1, 1, 1)]
_POINTS = [(64, 256, 56, 1, 1, 1, 1), (256, 64, 56, 1, 1, 1, 1), (256, 128, 56, 1, 1, 1, 1),
           (512, 128, 28, 1, 1, 1, 1), (128, 512, 28, 1, 1, 1, 1), (1024, 256, 14, 1, 1, 1, 1),
           (256, 1024, 14, 1, 1, 1, 1), (2048, 512, 7, 1, 1, 1, 1), (512, 2048, 7, 1, 1, 1, 1),
           (256, 512, 56, 1, 2, 1, 1), (1024, 2048, 14, 1, 2, 1, 1), (16, 96, 112, 1, 1, 1, 1),
           (24, 144, 56, 1, 1, 1, 1), (144, 32, 28, 1, 1, 1, 1), (320, 1280, 7, 1, 1, 1, 1),
           (96, 24, 1, 1, 1, 1, 1), (40, 10, 1, 1, 1, 1, 1), (480, 192, 28, 1, 1, 1, 1),
           (960, 40, 1, 1, 1, 1, 1), (256, 255, 13, 1, 1, 1, 1)]
_DEPTHWISE = [(32, 32, 112, 3, 1, 1, 32), (96, 96, 112, 3, 2, 1, 96), (144, 144, 56, 3, 1, 1, 144),
              (192, 192, 28, 3, 2, 1, 192), (384, 384, 14, 3, 1, 1, 384),
              (576, 576, 14, 3, 2, 1, 576), (960, 960, 7, 3, 1, 1, 960),
              (120, 120, 28, 5, 1, 1, 120), (240, 240, 28, 5, 2, 1, 240),
              (96, 96, 56, 7, 1, 1, 96), (192, 192, 28, 7, 1, 1, 192),
              (384, 384, 14, 7, 1, 1, 384), (768, 768, 7, 7, 1, 1, 768)]
_OTHERS = [(128, 128, 56, 3, 1, 1, 32), (256, 256, 28, 3, 1, 1, 32), (512, 512, 28, 3, 1, 2, 1),
           (256, 256, 33, 3, 1, 6, 1), (256, 256, 28, 3, 1, 12, 1), (512, 512, 14, 3, 2, 1, 32),
           (58, 58, 28, 3, 1, 1, 2), (240, 240, 28, 1, 1, 1, 3)]
_KINDS = {"stem": (_STEMS, 3), "block": (_BLOCKS, 6), "point": (_POINTS, 6),
          "depthwise": (_DEPTHWISE, 4), "other": (_OTHERS, 2)}
# 1-d: channels in and out, length, kernel, stride, dilation, groups.
_SPEECH = [(80, 384, 3000, 3, 1, 1, 1), (80, 512, 1000, 3, 1, 1, 1), (384, 384, 3000, 3, 2, 1, 1),
           (1, 512, 16000, 10, 5, 1, 1), (512, 512, 3199, 3, 2, 1, 1), (512, 512, 500, 5, 1, 1, 1),
           (256, 256, 800, 31, 1, 1, 256), (768, 768, 49, 128, 1, 1, 16),
           (64, 64, 8000, 3, 1, 8, 1), (512, 256, 400, 1, 1, 1, 1), (40, 256, 200, 5, 1, 1, 1),
           (1536, 1536, 64, 4, 1, 1, 1536)]
# Transposed: channels in and out, image, kernel, stride, padding, dimensions.
_TRANSPOSED = [(100, 512, 1, 4, 1, 0, 2), (512, 256, 4, 4, 2, 1, 2), (256, 128, 8, 4, 2, 1, 2),
               (128, 64, 16, 4, 2, 1, 2), (64, 3, 32, 4, 2, 1, 2), (256, 128, 28, 2, 2, 0, 2),
               (128, 64, 56, 2, 2, 0, 2), (512, 256, 200, 16, 8, 4, 1), (64, 32, 112, 3, 2, 1, 2)]
# fmt: on


def _draw(random: Random) -> Parameters:
    kind = one(random, {name: weight for name, (_, weight) in _KINDS.items()})
    channels, filters, size, kernel, stride, dilation, groups = random.choice(_KINDS[kind][0])
    if random.random() < 0.25 and size > 8:
        size += random.randint(-3, 3)
    height = size
    if random.random() < 0.15 and size > 8:
        height = size * random.choice((2, 3)) // random.choice((1, 4)) + 1
    patches = kernel == stride and kernel > 2
    return {
        "batch": one(random, _BATCHES), "image": (channels, max(height, kernel), size),
        "filters": filters, "kernel": kernel, "stride": stride,
        "padding": 0 if patches else dilation * (kernel - 1) // 2,
        "dilation": dilation, "groups": groups, "bias": chance(random, 0.3),
        "after": one(random, {"none": 6, "relu": 2, "silu": 1}),
        "layout": one(random, {"plain": 9, "channels_last": 1}),
    }  # fmt: skip


def _conv2d(p: Parameters) -> Work:
    """Return a convolution; channels_last: the image is a permuted view of (N, H, W, C)."""
    batch, image, filters, kernel, groups = sizes(
        p, "batch", "image", "filters", "kernel", "groups"
    )
    options = {name: p[name] for name in ("stride", "padding", "dilation", "groups")}
    weights = (filters, image[0] // groups, kernel, kernel)
    made = (batch, filters, *(_out(p, size) for size in image[1:]))
    last = p["layout"] == "channels_last"
    shape = (batch, *image[1:], image[0]) if last else (batch, *image)
    return _work(p, shape, weights, made, "conv2d", options, last)


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


def _out(p: Parameters, size: int) -> int:
    kernel, stride, padding, dilation = sizes(p, "kernel", "stride", "padding", "dilation")
    return int((size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1)


def _draw_1d(random: Random) -> Parameters:
    channels, filters, size, kernel, stride, dilation, groups = random.choice(_SPEECH)
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


def _conv1d(p: Parameters) -> Work:
    batch, image, filters, kernel, groups = sizes(
        p, "batch", "image", "filters", "kernel", "groups"
    )
    options = {name: p[name] for name in ("stride", "padding", "dilation", "groups")}
    weights = (filters, image[0] // groups, kernel)
    made = (batch, filters, _out(p, image[1]))
    return _work(p, (batch, *image), weights, made, "conv1d", options)


def _draw_transposed(random: Random) -> Parameters:
    channels, filters, size, kernel, stride, padding, rank = random.choice(_TRANSPOSED)
    return {
        "batch": one(random, _BATCHES), "image": (channels, *(size,) * rank), "filters": filters,
        "kernel": kernel, "stride": stride, "padding": padding, "bias": chance(random, 0.5),
    }  # fmt: skip


def _transposed(p: Parameters) -> Work:
    batch, image, filters, kernel, stride, padding = sizes(
        p, "batch", "image", "filters", "kernel", "stride", "padding"
    )
    rank = len(image) - 1
    made = (batch, filters, *((s - 1) * stride - 2 * padding + kernel for s in image[1:]))
    weights = (image[0], filters, *(kernel,) * rank)
    options = {"stride": stride, "padding": padding}
    work = _work(p, (batch, *image), weights, made, f"conv_transpose{rank}d", options)
    flops = 2.0 * batch * prod(image) * prod(weights[1:])
    return Work(work.operands, work.ours, work.theirs, made, flops, depth=image[0] * kernel)


FAMILIES = (
    Family("conv2d", 14, _draw, _conv2d, ("batch",)),
    Family("conv1d", 2, _draw_1d, _conv1d, ("batch",)),
    Family("conv_transpose", 1.5, _draw_transposed, _transposed, ("batch",)),
)
