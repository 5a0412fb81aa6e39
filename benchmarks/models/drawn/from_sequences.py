"""Networks of tokens (N, T), of samples (N, 1, L), and of images cut into patches."""

from __future__ import annotations

from typing import Any

import numpy as np

from models import base
from models.base import Arrays, Size
from models.drawn import blocks_of_sequences as blocks
from models.drawn.draft import Draft

# The samples of a position.
_STEP = 8


def network(draft: Draft, size: Size, kind: str) -> Any:
    """Return a network with the scores of each position, or of the whole."""
    nn, length, width = draft.nn, size["tokens"], size["width"] * size["wide"]
    causal = kind == "tokens" and draft.chance(0.6)
    if kind == "tokens":
        first = nn.Embedding(size["words"], width)
    elif kind == "samples":
        layers = [nn.Conv1d(1, width, 2 * _STEP, _STEP, _STEP // 2), nn.GELU()]
        chain = draft.chain(layers)
        first = draft.module(lambda m, x: m.chain(x).swapaxes(1, 2), chain=chain)
    else:
        cut = size["cut"]
        length = (size["image"] // cut) ** 2
        conv = nn.Conv2d(3, width, cut, cut)
        rows = draft.module(lambda m, x: x.reshape(*x.shape[:2], -1).swapaxes(1, 2))
        first = draft.chain([conv, rows])
    places = draft.parameter(length, width)
    body = [first, draft.module(lambda m, x: x + m.places, places=places)]
    body += ordered(draft, size, width, length, causal=causal)
    if kind == "tokens" and size["each"] and draft.chance(0.5):
        draft.say("scores by the words' weights")
        chain = draft.chain(body)
        run = lambda m, x: m.chain(x) @ m.chain[0].weight.swapaxes(0, 1)  # noqa: E731
        return draft.module(run, chain=chain)
    body += [] if _each(size, kind) else [last_row(draft)]
    return draft.chain([*body, nn.Linear(width, size["classes"])])


def ordered(draft: Draft, size: Size, width: int, length: int, *, causal: bool) -> list[Any]:
    """Return blocks of sequences (N, length, width) and the last norm."""
    order = blocks.Order(draft, width, length, causal)
    mixers = [mixer for mixer, able in blocks.MIXERS if able or not causal]
    count = draft.one(1, 2)
    chosen = [(draft.one(*mixers), draft.one(*blocks.FEATURES)) for _ in range(count)]
    made = []
    for layer in range(max(count, size["deep"])):
        mixer, features = chosen[layer % count]
        draft.say(f"{mixer.__name__} and {features.__name__};")
        made += [order.normed(mixer(order)), order.normed(features(order))]
    return [*made, getattr(draft.nn, order.norm)(width)]


def last_row(draft: Draft) -> Any:
    """Return what reduces a sequence (N, T, D) to (N, D)."""
    kind = draft.one("mean", "last", "largest")
    draft.say(f"{kind} row")
    if kind == "mean":
        return draft.module(lambda m, x: x.mean(1))
    if kind == "last":
        return draft.module(lambda m, x: x[:, -1])
    return draft.module(lambda m, x: draft.library.largest(x, 1))


def inputs(size: Size, batch: int, generator: np.random.Generator, kind: str) -> Arrays:
    """Draw tokens and those that follow, or samples or images and classes."""
    if kind == "patches":
        return base.images(size, batch, generator)
    if kind == "tokens":
        tokens, following = base.tokens(size, batch, generator)
        return tokens, following if size["each"] else following[:, -1] % size["classes"]
    samples = generator.standard_normal((batch, 1, size["tokens"] * _STEP), np.float32)
    shape = (batch, size["tokens"]) if _each(size, kind) else (batch,)
    return samples, generator.integers(0, size["classes"], shape)


def _each(size: Size, kind: str) -> bool:
    """Return whether each position has a class."""
    return bool(size["each"]) and kind != "patches"
