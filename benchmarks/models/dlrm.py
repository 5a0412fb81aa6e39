"""A recommender (DLRM; Naumov et al., 2019): tables of embeddings, and their products by pairs."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from models.base import Arrays, Library, Model, Size, sized


def network(library: Library, size: Size) -> Any:
    """Return the model of numbers (N, D) and rows of tables (N, tables) with scores (N,)."""
    nn: Any = library.nn
    arrays, width, tables = library.arrays, size["width"], size["tables"]
    count = tables + 1

    def mlp(*widths: int) -> Any:
        layers: list[Any] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return layers

    class Recommender(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            wide, pairs = 8 * width, count * (count - 1) // 2
            self.bottom = nn.Sequential(*mlp(size["numbers"], wide, wide // 2, width))
            self.tables = nn.ModuleList([nn.Embedding(size["rows"], width) for _ in range(tables)])
            self.top = nn.Sequential(*mlp(width + pairs, wide, wide // 2, 1)[:-1])
            rows, columns = np.tril_indices(count, -1)
            chosen = arrays.asarray(rows * count + columns)
            self.register_buffer("chosen", chosen)

        def forward(self, numbers: Any, rows: Any) -> Any:
            x = self.bottom(numbers)
            found = [table(rows[:, i]) for i, table in enumerate(self.tables)]
            every = arrays.stack([x, *found], axis=1)
            products = (every @ every.swapaxes(1, 2)).reshape(-1, count * count)
            joined = arrays.concat([x, products[:, self.chosen]], axis=1)
            return self.top(joined).reshape(-1)

    return Recommender()


def inputs(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
    """Draw numbers, rows of tables by a power law, and clicks."""
    numbers = generator.standard_normal((batch, size["numbers"]), np.float32)
    popular = generator.random((batch, size["tables"])) ** 3
    rows = (popular * size["rows"]).astype(np.int64)
    return numbers, rows, generator.integers(0, 2, batch).astype(np.float32)


def loss(library: Library, model: Any, inputs: Sequence[Any]) -> Any:
    """Return the cross entropy of clicks."""
    numbers, rows, clicks = inputs
    scores = model(numbers, rows)
    return library.functional.binary_cross_entropy_with_logits(scores, clicks)


MODEL = Model(
    title="recommender",
    network=network,
    inputs=inputs,
    sizes={
        "full": sized(numbers=13, tables=26, rows=100_000, width=64),
        "small": sized(numbers=13, tables=26, rows=2000, width=16),
        "tiny": sized(numbers=5, tables=3, rows=11, width=4),
    },
    batches={"inference": 2048, "training": 2048},
    few=128,
    optimizer="sgd",
    loss=loss,
)
