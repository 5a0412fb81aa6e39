"""A GPT of 46 thousand parameters on characters, with heads batched (the lecture of nanoGPT)."""

from collections.abc import Sequence
from typing import Any

from models._in_jax import Layers
from models.base import Library, Model, Size, sized, tokens


def network(library: Library, size: Size) -> Any:
    """Return the model of characters (N, T) with scores (N, T, words)."""
    nn: Any = library.nn
    arrays = library.arrays
    width, heads = size["width"], size["heads"]

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name in ("query", "key", "value"):
                setattr(self, name, nn.Linear(width, width, bias=False))
            self.proj = nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            n, length, _ = x.shape
            q, k, v = (
                part(x).reshape(n, length, heads, width // heads).swapaxes(1, 2)
                for part in (self.query, self.key, self.value)
            )
            y = library.attention(q, k, v, causal=True)
            return self.proj(y.swapaxes(1, 2).reshape(n, length, width))

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.attention = nn.LayerNorm(width), Attention()
            self.ln2 = nn.LayerNorm(width)
            self.ffwd = nn.Sequential(
                nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.ln1(x))
            return x + self.ffwd(self.ln2(x))

    class MiniGPT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(size["words"], width)
            self.positions = nn.Embedding(size["tokens"], width)
            self.blocks = nn.Sequential(*(Block() for _ in range(size["layers"])))
            self.ln = nn.LayerNorm(width)
            self.head = nn.Linear(width, size["words"])

        def forward(self, characters: Any) -> Any:
            places = arrays.arange(characters.shape[1], device=characters.device)
            x = self.characters(characters) + self.positions(places)
            return self.head(self.ln(self.blocks(x)))

    return MiniGPT()


def in_jax(size: Size, parameters: Any, inputs: Sequence[Any]) -> Any:
    """Return the scores."""
    layers = Layers(parameters)
    (given,) = inputs
    x = parameters["characters.weight"][given] + parameters["positions.weight"][: given.shape[1]]
    for number in range(size["layers"]):
        block = f"blocks.{number}"
        y = layers.norm(f"{block}.ln1", x)
        names = ("query", "key", "value")
        parts = [layers.linear(f"{block}.attention.{name}", y) for name in names]
        y = layers.attention(parts, size["heads"], causal=True)
        x = x + layers.linear(f"{block}.attention.proj", y)
        y = layers.linear(f"{block}.ffwd.0", layers.norm(f"{block}.ln2", x))
        x = x + layers.linear(f"{block}.ffwd.2", layers.jax.nn.relu(y))
    return layers.linear("head", layers.norm("ln", x))


_FULL = sized(words=65, tokens=8, width=24, heads=6, layers=6)

MODEL = Model(
    title="mini GPT",
    network=network,
    inputs=tokens,
    sizes={
        "full": _FULL,
        "small": _FULL,
        "tiny": sized(words=11, tokens=5, width=8, heads=2, layers=2),
    },
    batches={"inference": 64, "training": 64},
    few=64,
    optimizer="sgd",
    jax=in_jax,
)
