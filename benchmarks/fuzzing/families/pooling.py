"""Pooling of images and signals, with windows up to the whole image, and resizing."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import calor_nn, library, one, sizes, torch_nn

# Channels and size of images inside known networks.
IMAGES = {(64, 112): 2, (64, 56): 2, (256, 56): 2, (128, 28): 2, (512, 28): 1, (256, 14): 2,
          (1024, 14): 1, (512, 7): 2, (2048, 7): 2, (32, 112): 1, (96, 56): 1, (144, 56): 1,
          (320, 64): 1, (640, 32): 1, (1280, 16): 1, (576, 14): 1, (16, 32): 1, (6, 24): 1,
          (960, 7): 1, (192, 35): 1, (58, 28): 1, (3, 33): 1}  # fmt: skip
# Kernel, stride, padding.
_WINDOWS = {(3, 2, 1): 5, (2, 2, 0): 5, (3, 1, 1): 2, (3, 2, 0): 2, (5, 1, 2): 1, (7, 7, 0): 1}


def _draw(random: Random) -> Parameters:
    channels, size = one(random, IMAGES)
    kernel, stride, padding = one(random, _WINDOWS)
    kind = one(random, {"max": 5, "average": 3, "global": 4, "global_max": 1})
    if kind.startswith("global"):
        kernel, stride, padding = size, 1, 0
    return {
        "kind": kind, "batch": one(random, {1: 3, 2: 1, 8: 2, 16: 1, 32: 3, 64: 1}),
        "image": (channels, size, size), "kernel": min(kernel, size), "stride": stride,
        "padding": padding,
    }  # fmt: skip


def _pool(p: Parameters) -> Work:
    batch, image, kernel, stride, padding = sizes(
        p, "batch", "image", "kernel", "stride", "padding"
    )
    shape = (batch, *image)
    name = "max_pool2d" if "max" in str(p["kind"]) else "avg_pool2d"
    out = tuple((s + 2 * padding - kernel) // stride + 1 for s in image[1:])
    made = (batch, image[0], *out)

    def layer(nn: Any) -> Any:
        return lambda x: getattr(nn(), name)(x, kernel, stride, padding)

    return Work(
        (Operand(shape),), layer(calor_nn), layer(torch_nn), made,
        flops=float(prod(made) * kernel**2), depth=kernel**2,
    )  # fmt: skip


def _draw_resize(random: Random) -> Parameters:
    channels, size = one(random, IMAGES)
    mode = one(random, {"nearest": 3, "bilinear": 2})
    batch = one(random, {1: 3, 4: 1, 8: 2, 16: 1})
    return {"batch": batch, "image": (channels, size, size), "factor": 2, "mode": mode}


def _resize(p: Parameters) -> Work:
    batch, image, factor, mode = sizes(p, "batch", "image", "factor", "mode")
    made = (batch, image[0], *(factor * s for s in image[1:]))
    return Work(
        (Operand((batch, *image)),),
        lambda x: calor_nn().interpolate(x, scale_factor=float(factor), mode=mode),
        lambda x: library("torch.nn.functional").interpolate(
            x, scale_factor=float(factor), mode=mode
        ),
        made, flops=8.0 * prod(made),
    )  # fmt: skip


FAMILIES = (
    Family("pool", 3.5, _draw, _pool, ("batch",)),
    Family("resize", 1, _draw_resize, _resize, ("batch",)),
)
