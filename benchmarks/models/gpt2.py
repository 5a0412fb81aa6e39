"""GPT-2 (Radford et al., 2019), 124M parameters: training, and decoding with a cache of keys."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models._in_jax import Layers
from models.base import Array, Library, Model, Size, sized, tokens


def network(library: Library, size: Size) -> Any:
    """Return the model of tokens (N, T) with scores (N, T, words)."""
    nn: Any = library.nn
    functional, arrays = library.functional, library.arrays
    width, heads = size["width"], size["heads"]

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.c_attn = nn.Linear(width, 3 * width)
            self.c_proj = nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            n, length, _ = x.shape
            q, k, v = (
                part.reshape(n, length, heads, width // heads).swapaxes(1, 2)
                for part in self.c_attn(x).chunk(3, -1)
            )
            y = library.attention(q, k, v, causal=True)
            return self.c_proj(y.swapaxes(1, 2).reshape(n, length, width))

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.attn = nn.LayerNorm(width), Attention()
            self.ln_2 = nn.LayerNorm(width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class GPT2(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.wte = nn.Embedding(size["words"], width)
            self.wpe = nn.Embedding(size["tokens"], width)
            self.h = nn.Sequential(*(Block() for _ in range(size["layers"])))
            self.ln_f = nn.LayerNorm(width)

        def forward(self, tokens: Any) -> Any:
            places = arrays.arange(tokens.shape[1], device=tokens.device)
            x = self.ln_f(self.h(self.wte(tokens) + self.wpe(places)))
            # The head's weights are those of the words.
            return functional.linear(x, self.wte.weight)

    return GPT2()


def decoder(library: Library, size: Size) -> Any:
    """Return the model with one step of decoding: the state's token becomes the one after it.

    Called without arguments it returns the scores of the next token. Caches have room for
    ``size["tokens"]`` tokens; behind the last the step begins anew.
    """
    nn: Any = library.nn
    arrays, functional = library.arrays, library.functional
    heads, room = size["heads"], size["tokens"]
    head = size["width"] // heads
    model = network(library, size)

    class Decoder(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            # A token, and where the caches are written: the place is the third number.
            self.register_buffer("token", arrays.zeros((1,), dtype=arrays.int64))
            self.register_buffer("place", arrays.zeros((4,), dtype=arrays.int64))
            onward = arrays.zeros((4,), dtype=arrays.int64)
            onward[2] = 1
            self.register_buffer("onward", onward)
            for layer in range(size["layers"]):
                for name in ("keys", "values"):
                    cache = arrays.zeros((1, heads, room, head))
                    self.register_buffer(f"{name}_{layer}", cache)

        def forward(self) -> Any:
            gpt, place = self.model, self.place
            now = place[2:3]
            seen = (arrays.arange(room, device=place.device) <= now).reshape(1, 1, 1, room)
            x = (gpt.wte(self.token) + gpt.wpe(now)).reshape(1, 1, size["width"])
            for number, block in enumerate(gpt.h):
                parts = block.attn.c_attn(block.ln_1(x)).chunk(3, -1)
                q, k, v = (p.reshape(1, 1, heads, head).swapaxes(1, 2) for p in parts)
                keys = library.written(getattr(self, f"keys_{number}"), k, place)
                values = library.written(getattr(self, f"values_{number}"), v, place)
                y = library.attention(q, keys, values, mask=seen)
                x = x + block.attn.c_proj(y.swapaxes(1, 2).reshape(1, 1, size["width"]))
                x = x + block.mlp(block.ln_2(x))
            scores = functional.linear(gpt.ln_f(x), gpt.wte.weight).reshape(1, size["words"])
            self.token[...] = arrays.argmax(scores, axis=-1)
            self.place[...] = (place + self.onward) % room
            return scores

    return Decoder()


def begin(size: Size, state: dict[str, Array]) -> None:
    """Fill the caches, and place the next token in their middle."""
    generator = np.random.default_rng(0)
    for name, held in state.items():
        if name.startswith(("keys_", "values_")):
            held[...] = generator.standard_normal(held.shape, np.float32)
    state["place"][2] = size["tokens"] // 2


def in_jax(size: Size, parameters: Any, inputs: Sequence[Any]) -> Any:
    """Return the scores."""
    layers = Layers(parameters)
    (tokens,) = inputs
    x = parameters["wte.weight"][tokens] + parameters["wpe.weight"][: tokens.shape[1]]
    for number in range(size["layers"]):
        parts = layers.linear(f"h.{number}.attn.c_attn", layers.norm(f"h.{number}.ln_1", x))
        thirds = layers.jax.numpy.split(parts, 3, -1)
        y = layers.attention(thirds, size["heads"], causal=True)
        x = x + layers.linear(f"h.{number}.attn.c_proj", y)
        y = layers.linear(f"h.{number}.mlp.0", layers.norm(f"h.{number}.ln_2", x))
        x = x + layers.linear(f"h.{number}.mlp.2", layers.jax.nn.gelu(y, approximate=True))
    return layers.norm("ln_f", x) @ parameters["wte.weight"].T


MODEL = Model(
    title="GPT-2 124M",
    network=network,
    inputs=tokens,
    sizes={
        "large": sized(words=50257, tokens=1024, width=1280, heads=20, layers=36),
        "full": sized(words=50257, tokens=1024, width=768, heads=12, layers=12),
        "small": sized(words=5003, tokens=128, width=256, heads=4, layers=3),
        "tiny": sized(words=101, tokens=7, width=16, heads=2, layers=2),
    },
    batches={"inference": 4, "training": 4, "decoding": 1},
    decoder=decoder,
    begin=begin,
    jax=in_jax,
)
