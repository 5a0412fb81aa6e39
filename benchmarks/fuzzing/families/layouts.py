"""Changes of layout inside models: rotary embeddings, pixel shuffles, shifted windows, masks."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import (
    BATCHES,
    TOKENS,
    calor_nn,
    library,
    one,
    permuted,
    sizes,
    torch_nn,
)  # fmt: skip

_HEADS = {4: 1, 8: 2, 12: 3, 16: 1, 32: 1}
_FAR = -1e4


def _draw_rotary(random: Random) -> Parameters:
    return {
        "form": one(random, {"halves": 2, "pairs": 1}),
        "batch": one(random, BATCHES),
        "tokens": one(random, TOKENS),
        "heads": one(random, _HEADS),
        "width": one(random, {32: 1, 64: 4, 128: 3}),
    }


def _rotary(p: Parameters) -> Work:
    """Return turned pairs of features: of the two halves (GPT-NeoX), or neighbours (GPT-J)."""
    form, batch, tokens, heads, width = sizes(p, "form", "batch", "tokens", "heads", "width")
    shape, table = (batch, tokens, heads, width), Operand((tokens, 1, width // 2), fixed=True)

    def turned(name: str) -> Any:
        lib, axis = library(name), {"axis" if name == "calor" else "dim": -1}

        def call(x: Any, cos: Any, sin: Any) -> Any:
            if form == "halves":
                a, b = x[..., : width // 2], x[..., width // 2 :]
                return lib.concat([a * cos - b * sin, b * cos + a * sin], **axis)
            a, b = x[..., ::2], x[..., 1::2]
            return lib.stack([a * cos - b * sin, b * cos + a * sin], **axis).reshape(shape)

        return call

    return Work(
        (Operand(shape), table, table),
        lambda *x: turned("calor")(*x),
        lambda *x: turned("torch")(*x),
        shape, 6.0 * prod(shape), depth=2,
    )  # fmt: skip


def _draw_pixels(random: Random) -> Parameters:
    return {
        "form": one(random, {"shuffle": 3, "unshuffle": 2, "depth_to_space": 1, "patches": 2}),
        "batch": one(random, {1: 3, 2: 1, 8: 1, 16: 1}),
        "channels": one(random, {3: 2, 16: 1, 32: 1, 64: 2, 256: 1}),
        "side": one(random, {7: 1, 14: 1, 28: 1, 32: 2, 56: 1, 112: 1}),
        "factor": one(random, {2: 4, 3: 1, 4: 1}),
    }


def _pixels(p: Parameters) -> Work:
    """Return an image with channels as pixels or pixels as channels.

    depth_to_space: of (N, H, W, C); patches: rows of patches of factor by factor pixels.
    """
    form, batch, channels, side, r = sizes(p, "form", "batch", "channels", "side", "factor")
    few, many = (batch, channels, r * side, r * side), (batch, channels * r * r, side, side)
    if form in ("shuffle", "unshuffle"):
        name = f"pixel_{form}"
        given, made = (many, few) if form == "shuffle" else (few, many)
        return Work(
            (Operand(given),),
            lambda x: getattr(calor_nn(), name)(x, r) * 1.5,
            lambda x: getattr(torch_nn(), name)(x, r) * 1.5,
            made,
        )
    if form == "depth_to_space":
        given, made = (batch, side, side, r * r * channels), (batch, r * side, r * side, channels)

        def spread(x: Any) -> Any:
            x = x.reshape(batch, side, side, r, r, channels)
            return permuted(x, (0, 1, 3, 2, 4, 5)).reshape(made) * 1.5

        return Work((Operand(given),), spread, spread, made)
    rows = (batch, side * side, channels * r * r)

    def patches(x: Any) -> Any:
        x = x.reshape(batch, channels, side, r, side, r)
        return permuted(x, (0, 2, 4, 1, 3, 5)).reshape(rows) * 1.5

    return Work((Operand(few),), patches, patches, rows)


def _draw_windows(random: Random) -> Parameters:
    return {
        "form": one(random, {"apart": 1, "together": 1}),
        "batch": one(random, {1: 3, 2: 1, 8: 1, 16: 1}),
        "windows": one(random, {1: 1, 2: 1, 4: 1, 8: 1}),
        "side": one(random, {7: 3, 8: 1}),
        "width": one(random, {96: 2, 128: 1, 192: 1, 384: 1, 768: 1}),
        "shift": one(random, {0: 1, 3: 2}),
    }


def _windows(p: Parameters) -> Work:
    """Return the windows of a shifted image (N, H, W, C), as Swin's attention, or the way back."""
    form, batch, windows, side, width, shift = sizes(
        p, "form", "batch", "windows", "side", "width", "shift"
    )
    size = windows * side
    image, rows = (batch, size, size, width), (batch * windows**2, side * side, width)

    def moved(x: Any, name: str, by: int) -> Any:
        word = "axis" if name == "calor" else "dims"
        return library(name).roll(x, (by, by), **{word: (1, 2)}) if by else x

    def call(name: str) -> Any:
        def apart(x: Any) -> Any:
            x = moved(x, name, -shift).reshape(batch, windows, side, windows, side, width)
            return permuted(x, (0, 1, 3, 2, 4, 5)).reshape(rows) * 1.5

        def together(x: Any) -> Any:
            x = x.reshape(batch, windows, windows, side, side, width)
            return moved(permuted(x, (0, 1, 3, 2, 4, 5)).reshape(image), name, shift) * 1.5

        return apart if form == "apart" else together

    given, made = (image, rows) if form == "apart" else (rows, image)
    return Work((Operand(given),), call("calor"), call("torch"), made)


def _draw_mask(random: Random) -> Parameters:
    return {
        "form": one(random, {"causal": 3, "padding": 3, "lower": 1, "upper": 1}),
        "batch": one(random, BATCHES),
        "heads": one(random, _HEADS),
        "tokens": one(random, TOKENS),
    }


def _mask(p: Parameters) -> Work:
    """Return scores with places filled: above the diagonal, of padded keys; or a triangle."""
    form, batch, heads, tokens = sizes(p, "form", "batch", "heads", "tokens")
    shape = (batch, heads, tokens, tokens)
    if form in ("lower", "upper"):
        name = "tril" if form == "lower" else "triu"
        return Work(
            (Operand(shape),),
            lambda x: getattr(library("calor"), name)(x),
            lambda x: getattr(library("torch"), name)(x),
            shape,
        )
    if form == "padding":
        return Work(
            (Operand(shape), Operand((batch, tokens), "index", 4)),
            lambda x, i: library("calor").where((i == 0)[:, None, None, :], _FAR, x),
            lambda x, i: x.masked_fill((i == 0)[:, None, None, :], _FAR),
            shape,
        )

    def ours(x: Any) -> Any:
        calor = library("calor")
        seen = calor.tril(calor.ones((tokens, tokens), dtype="bool"))
        return calor.where(seen, x * 0.125, _FAR)

    def theirs(x: Any) -> Any:
        torch = library("torch")
        seen = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).tril()
        return (x * 0.125).masked_fill(~seen, _FAR)

    return Work((Operand(shape),), ours, theirs, shape)


FAMILIES = (
    Family("rotary", 2, _draw_rotary, _rotary, ("batch", "tokens")),
    Family("pixels", 1.5, _draw_pixels, _pixels, ("batch",)),
    Family("windows", 1, _draw_windows, _windows, ("batch",)),
    Family("mask", 1.5, _draw_mask, _mask, ("batch", "heads")),
)
