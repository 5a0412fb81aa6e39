"""Norms of particular networks: of heads, instances, channels, weights; modulated and activated."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Shape, Work
from fuzzing.families._common import BATCHES, TOKENS, WIDTHS, alike, alike_nn, one, sizes

_EPS = 1e-5
_FORMS = {"heads": 3, "instance": 2, "styled": 1, "channels": 2, "response": 1, "modulated": 3,
          "gated_residual": 2, "groups_silu": 3, "groups": 2, "groups_3d": 1, "weights": 1,
          "standardized": 1, "unit": 2, "scaled": 1, "batch_rows": 2, "pixels": 1,
          "offset": 1}  # fmt: skip
_IMAGES = {(320, 64): 2, (640, 32): 2, (1280, 16): 1, (128, 256): 1, (512, 64): 1, (96, 56): 2,
           (64, 128): 1, (256, 28): 1, (32, 112): 1, (768, 7): 1, (30, 33): 1}  # fmt: skip


def _draw(random: Random) -> Parameters:
    channels, side = one(random, _IMAGES)
    known = [n for n in (1, 8, 16, 32, channels // 4, channels) if n and channels % n == 0]
    return {
        "form": one(random, _FORMS),
        "batch": one(random, BATCHES), "tokens": one(random, TOKENS),
        "heads": one(random, {8: 1, 16: 2, 32: 1}), "width": one(random, {**WIDTHS, 8192: 1}),
        "image": (channels, side, side), "groups": random.choice(known),
    }  # fmt: skip


def _norm(p: Parameters) -> Work:
    """Return a norm.

    styled: an instance's, with scales of a batch (AdaIN); response: ConvNeXt V2's; modulated:
    a layer's, with scales of a batch (DiT); weights: of filters, as weight standardization; unit:
    rows of length one; offset: by one plus a scale (Gemma).
    """
    form, batch, tokens, heads, width, image, groups = sizes(
        p, "form", "batch", "tokens", "heads", "width", "image", "groups"
    )
    channels = image[0]
    picture: Shape = (batch, *image)
    rows: Shape = (batch, tokens, width)

    def scale(size: int) -> Operand:
        return Operand((size,), weight=True)

    def made(call: tuple[Any, Any], shape: Shape, *more: Operand, depth: int = 0) -> Work:
        operands = (Operand(shape), *more)
        ours, theirs = call
        return Work(operands, ours, theirs, shape, 8.0 * prod(shape), depth or shape[-1])

    def moments(x: Any, axis: Any) -> Any:
        y = x - x.mean(axis=axis, keepdims=True)
        return y, (y * y).mean(axis=axis, keepdims=True)

    def normal(lib: Any, x: Any, axis: Any) -> Any:
        y, v = moments(x, axis)
        return y / lib.sqrt(v + _EPS)

    if form == "heads":
        size = 128 if width % 3 else 64
        return made(alike_nn(lambda nn, x, w: nn.rms_norm(x, (size,), w, eps=1e-6)),
                    (batch, tokens, heads, size), scale(size), depth=size)  # fmt: skip
    if form == "instance":

        def instance(nn: Any, x: Any, w: Any, b: Any) -> Any:
            return nn.instance_norm(x, weight=w, bias=b)

        return made(
            alike_nn(instance), picture, scale(channels), scale(channels), depth=image[1] ** 2
        )
    if form == "styled":

        def styled(lib: Any, x: Any, a: Any, b: Any) -> Any:
            return normal(lib, x, (2, 3)) * (1 + a[:, :, None, None]) + b[:, :, None, None]

        row = Operand((batch, channels))
        return made(alike(styled), picture, row, row, depth=image[1] ** 2)
    if form == "channels":

        def channel(lib: Any, x: Any, w: Any, b: Any) -> Any:
            return normal(lib, x, 1) * w[:, None, None] + b[:, None, None]

        return made(alike(channel), picture, scale(channels), scale(channels), depth=channels)
    if form == "pixels":

        def pixel(lib: Any, x: Any) -> Any:
            return x / lib.sqrt((x * x).mean(axis=1, keepdims=True) + _EPS)

        return made(alike(pixel), picture, depth=channels)
    if form == "response":

        def response(lib: Any, x: Any, w: Any, b: Any) -> Any:
            size = lib.sqrt((x * x).sum(axis=(1, 2), keepdims=True) + 1e-6)
            share = size / (size.mean(axis=-1, keepdims=True) + 1e-6)
            return w * (x * share) + b + x

        given = (batch, *image[1:], channels)
        return made(alike(response), given, scale(channels), scale(channels), depth=image[1] ** 2)
    if form in ("modulated", "gated_residual"):
        residual = form == "gated_residual"

        def modulated(lib: Any, x: Any, a: Any, b: Any, *more: Any) -> Any:
            x = x + more[0] * more[1][:, None] if residual else x
            y = lib.nn.functional.layer_norm(x, (width,), eps=_EPS)
            return y * (1 + a[:, None]) + b[:, None]

        row = Operand((batch, width))
        more = (Operand(rows), row) if residual else ()
        return made(alike(modulated), rows, row, row, *more)
    if form in ("groups_silu", "groups", "groups_3d"):
        shape = (
            picture
            if form != "groups_3d"
            else (batch, channels, 4, image[1] // 2 + 1, image[1] // 2 + 1)
        )

        def grouped(nn: Any, x: Any, w: Any, b: Any) -> Any:
            y = nn.group_norm(x, groups, w, b)
            return nn.silu(y) if form == "groups_silu" else y

        depth = prod(shape[1:]) // groups
        return made(alike_nn(grouped), shape, scale(channels), scale(channels), depth=depth)
    if form in ("weights", "standardized"):
        shape = (channels, channels, 3, 3)

        def weights(lib: Any, v: Any, g: Any) -> Any:
            if form == "standardized":
                return normal(lib, v, (1, 2, 3)) * g[:, None, None, None]
            return v * (
                g[:, None, None, None] / lib.sqrt((v * v).sum(axis=(1, 2, 3), keepdims=True))
            )

        return made(alike(weights), shape, scale(channels), depth=channels * 9)
    if form == "unit":
        call = alike_nn(lambda nn, x: nn.normalize(x, 2.0, -1))
        return made(call, rows)
    if form == "batch_rows":

        def batched(lib: Any, x: Any, w: Any, b: Any) -> Any:
            return normal(lib, x, 0) * w + b

        return made(
            alike(batched),
            (batch * tokens, width),
            scale(width),
            scale(width),
            depth=batch * tokens,
        )

    def scaled(lib: Any, x: Any, w: Any) -> Any:
        size = lib.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
        return x / size * (1 + w if form == "offset" else w)

    return made(alike(scaled), rows, scale(width))


FAMILIES = (Family("norm_form", 3, _draw, _norm, ("batch", "tokens")),)
