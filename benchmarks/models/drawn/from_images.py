"""Networks of images (N, 3, H, W)."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.base import Arrays, Size, images
from models.drawn import blocks_of_images as blocks
from models.drawn.draft import Draft
from models.drawn.from_sequences import last_row, ordered


def network(draft: Draft, size: Size, kind: str) -> Any:
    """Return a network of images (N, 3, side, side)."""
    nn, style = draft.nn, blocks.Style(draft)
    stages, widths, side = _stages(draft, size, style)
    if kind == "pixels":
        return _to_pixels(draft, size, style, stages, widths)
    body, width = [draft.chain(stage) for stage in stages], widths[-1]
    if kind == "hybrid":
        rows = draft.module(lambda m, x: x.reshape(*x.shape[:2], -1).swapaxes(1, 2))
        body += [rows, *ordered(draft, size, width, side * side, causal=False), last_row(draft)]
    else:
        pool = draft.one(nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)(1)
        body += [*blocks.norm(draft, style.norm, width), style.act(), pool, nn.Flatten()]
    return draft.chain([*body, nn.Linear(width, size["classes"])])


def inputs(size: Size, batch: int, generator: np.random.Generator, kind: str) -> Arrays:
    """Draw images, and a class for each or for each pixel that the first layer leaves."""
    x, classes = images(size, batch, generator)
    if kind == "pixels":
        left = _side_after(size)
        classes = generator.integers(0, size["classes"], (batch, left, left))
    return x, classes


def _padding(size: Size) -> int:
    return size["kernel"] // 2 if size["kernel"] > size["first"] else 0


def _side_after(size: Size) -> int:
    """Return the side of images behind the first layer."""
    return (size["image"] + 2 * _padding(size) - size["kernel"]) // size["first"] + 1


def _stages(
    draft: Draft, size: Size, style: blocks.Style
) -> tuple[list[list[Any]], list[int], int]:
    """Return the layers of each stage, the stages' widths, and the side in the end."""
    width, side = size["width"], _side_after(size)
    kernel, first = size["kernel"], size["first"]
    draft.say(f"{kernel} by {kernel} over {first} to {width};")
    layers: list[Any] = [draft.nn.Conv2d(3, width, kernel, first, _padding(size))]
    stages, widths = [], []
    for stage in range(draft.one(2, 3, 4)):
        if stage and side < 4:
            break
        if stage:
            after = draft.one(width, 2 * width, 2 * width, width * 3 // 2 // 4 * 4)
            layer, side = blocks.shrink(style, width, after, side)
            layers.append(layer)
            width = after
        block, depth = draft.one(*blocks.BLOCKS), 1 + draft.rng.randrange(size["deep"])
        draft.say(f"{depth} {block.__name__};")
        layers += [block(style, width) for _ in range(depth)]
        stages.append(layers)
        widths.append(width)
        layers = []
    return stages, widths, side


def _to_pixels(
    draft: Draft, size: Size, style: blocks.Style, stages: list[list[Any]], widths: list[int]
) -> Any:
    """Return a U-Net (Ronneberger et al., 2015) with the classes of each pixel in the last axis."""
    nn, arrays = draft.nn, draft.arrays
    up, merge, now = [], [], widths[-1]
    for width in reversed(widths[:-1]):
        up.append(blocks.grow(style, now, width))
        merge.append(draft.chain(style.conv(2 * width, width, 3)))
        now = width
    parts = {
        "down": nn.ModuleList([draft.chain(stage) for stage in stages]),
        "up": nn.ModuleList(up),
        "merge": nn.ModuleList(merge),
        "head": nn.Conv2d(now, size["classes"], 1),
    }

    def run(m: Any, x: Any) -> Any:
        kept = []
        for stage in m.down:
            x = stage(x)
            kept.append(x)
        for grow, join, side in zip(m.up, m.merge, reversed(kept[:-1]), strict=True):
            height, across = side.shape[2:]
            y = grow(x)[:, :, :height, :across]
            if y.shape[2:] != side.shape[2:]:
                y = draft.functional.pad(y, (0, across - y.shape[3], 0, height - y.shape[2]))
            x = join(arrays.concat([side, y], axis=1))
        return arrays.moveaxis(m.head(x), 1, -1)

    return draft.module(run, **parts)
