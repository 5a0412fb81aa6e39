"""Networks of tables: columns of numbers (N, F) and of categories (N, K)."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.base import Arrays, Size
from models.drawn.draft import Draft


def network(draft: Draft, size: Size, kind: str) -> Any:
    """Return an MLP with crossed features, gates or an ensemble."""
    del kind
    nn, arrays, width = draft.nn, draft.arrays, size["width"] * size["wide"]
    act, few = draft.activation(), max(2, size["width"] // 4)
    columns = _columns(size)
    norm = draft.one(nn.BatchNorm1d, nn.LayerNorm, None)
    crossed = draft.one("none", "products", "dots")
    draft.say(f"{crossed} crossed, {act}, {norm.__name__ if norm else 'no norm'};")
    words = nn.ModuleList([nn.Embedding(count, few) for count in columns])
    before = size["tokens"] + few * len(columns)
    pairs = [(i, j) for i in range(len(columns)) for j in range(i)]

    def joined(m: Any, x: Any, categories: Any) -> Any:
        made = [word(categories[:, i]) for i, word in enumerate(m.words)]
        rows = arrays.concat([x, *made], axis=1)
        if crossed == "dots":
            dots = [arrays.sum(made[i] * made[j], axis=1) for i, j in pairs]
            rows = arrays.concat([rows, arrays.stack(dots, axis=1)], axis=1)
        if crossed == "products":
            for layer in m.crosses:
                rows = rows + rows * layer(rows)
        return m.head(m.chain(m.first(rows)))

    crosses = [nn.Linear(before, before) for _ in range(2)] if crossed == "products" else []
    wide = before + (len(pairs) if crossed == "dots" else 0)
    layers = []
    for _ in range(1 + size["deep"]):
        inner = [nn.Linear(width, width), *([norm(width)] if norm else []), getattr(nn, act)()]
        chain = draft.chain(inner)
        layers.append(draft.residual(chain) if draft.chance(0.5) else chain)
    parts = {
        "words": words,
        "crosses": nn.ModuleList(crosses),
        "first": nn.Linear(wide, width),
        "chain": draft.chain(layers),
        "head": nn.Linear(width, size["classes"]),
    }
    return draft.module(joined, **parts)


def inputs(size: Size, batch: int, generator: np.random.Generator, kind: str) -> Arrays:
    """Draw numbers, categories, and a class for each row."""
    del kind
    numbers = generator.standard_normal((batch, size["tokens"]), np.float32)
    columns = _columns(size)
    drawn = [generator.integers(0, count, batch) for count in columns]
    return numbers, np.stack(drawn, 1), generator.integers(0, size["classes"], batch)


def _columns(size: Size) -> list[int]:
    """Return how many categories each column has."""
    return [7 + 31 * i * i * size["width"] // 8 for i in range(2 + size["deep"])]
