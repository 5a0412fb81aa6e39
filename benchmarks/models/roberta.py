"""RoBERTa (Liu et al., 2019), base size: an encoder with a head that classifies sequences."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models._in_jax import Layers
from models.base import Array, Arrays, Library, Model, Size, sized

# Positions begin behind that of the padding token.
_FIRST = 2


def network(library: Library, size: Size) -> Any:
    """Return the model of tokens (N, T) with scores (N, classes)."""
    nn: Any = library.nn
    arrays = library.arrays

    class Embeddings(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(size["words"], size["width"])
            self.positions = nn.Embedding(size["tokens"] + _FIRST, size["width"])
            self.kinds = nn.Embedding(1, size["width"])
            self.norm = nn.LayerNorm(size["width"])

        def forward(self, tokens: Any) -> Any:
            places = arrays.arange(_FIRST, tokens.shape[1] + _FIRST, device=tokens.device)
            x = self.words(tokens) + self.positions(places) + self.kinds.weight[0]
            return self.norm(x)

    class Classifier(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(size["width"], size["width"])
            self.out_proj = nn.Linear(size["width"], size["classes"])

        def forward(self, x: Any) -> Any:
            return self.out_proj(arrays.tanh(self.dense(x[:, 0])))

    layer = nn.TransformerEncoderLayer(
        size["width"],
        size["heads"],
        4 * size["width"],
        dropout=0.0,
        activation="gelu",
        batch_first=True,
    )
    encoder = library.encoder(layer, size["layers"])
    return nn.Sequential(Embeddings(), encoder, Classifier())


def inputs(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
    """Draw tokens (N, T) and a class for each row."""
    tokens: Array = generator.integers(0, size["words"], (batch, size["tokens"]))
    return tokens, generator.integers(0, size["classes"], batch)


def in_jax(size: Size, parameters: Any, inputs: Sequence[Any]) -> Any:
    """Return the scores."""
    layers = Layers(parameters)
    (given,) = inputs
    places = parameters["0.positions.weight"][_FIRST : _FIRST + given.shape[1]]
    x = parameters["0.words.weight"][given] + places + parameters["0.kinds.weight"][0]
    x = layers.norm("0.norm", x)
    for number in range(size["layers"]):
        block = f"1.layers.{number}"
        joint = x @ parameters[f"{block}.self_attn.in_proj_weight"].T
        joint = joint + parameters[f"{block}.self_attn.in_proj_bias"]
        y = layers.attention(layers.jax.numpy.split(joint, 3, -1), size["heads"], causal=False)
        x = layers.norm(f"{block}.norm1", x + layers.linear(f"{block}.self_attn.out_proj", y))
        y = layers.jax.nn.gelu(layers.linear(f"{block}.linear1", x), approximate=False)
        x = layers.norm(f"{block}.norm2", x + layers.linear(f"{block}.linear2", y))
    return layers.linear("2.out_proj", layers.jax.numpy.tanh(layers.linear("2.dense", x[:, 0])))


MODEL = Model(
    title="RoBERTa-base",
    network=network,
    inputs=inputs,
    sizes={
        "full": sized(words=50265, tokens=256, width=768, heads=12, layers=12, classes=2),
        "small": sized(words=5003, tokens=64, width=256, heads=4, layers=3, classes=2),
        "tiny": sized(words=101, tokens=7, width=16, heads=2, layers=2, classes=2),
    },
    batches={"inference": 8, "training": 8},
    jax=in_jax,
)
