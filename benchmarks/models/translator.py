"""The transformer of Vaswani et al. (2017), base size: encoder and decoder, shared words."""

from typing import Any

import numpy as np

from models.base import Arrays, Library, Model, Size, sized


def network(library: Library, size: Size) -> Any:
    """Return the model of source (N, S) and target (N, T) tokens with scores (N, T, words)."""
    nn: Any = library.nn
    functional, width = library.functional, size["width"]

    class Translator(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(size["words"], width)
            self.positions = nn.Embedding(size["tokens"], width)
            self.transformer = nn.Transformer(
                width,
                size["heads"],
                size["layers"],
                size["layers"],
                4 * width,
                dropout=0.0,
                batch_first=True,
            )

        def embedded(self, tokens: Any) -> Any:
            return self.words(tokens) + self.positions.weight[: tokens.shape[1]]

        def forward(self, source: Any, target: Any) -> Any:
            given = self.embedded(source), self.embedded(target)
            x = library.translated(self.transformer, *given)
            return functional.linear(x, self.words.weight)

    return Translator()


def inputs(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
    """Draw source tokens, target tokens, and the tokens that follow these."""
    source = generator.integers(0, size["words"], (batch, size["tokens"]))
    target = generator.integers(0, size["words"], (batch, size["tokens"] + 1))
    return source, np.ascontiguousarray(target[:, :-1]), np.ascontiguousarray(target[:, 1:])


MODEL = Model(
    title="encoder-decoder transformer",
    network=network,
    inputs=inputs,
    sizes={
        "full": sized(words=32000, tokens=64, width=512, heads=8, layers=6),
        "small": sized(words=3001, tokens=24, width=128, heads=4, layers=2),
        "tiny": sized(words=31, tokens=5, width=16, heads=2, layers=1),
    },
    batches={"inference": 16, "training": 32},
    few=4,
)
