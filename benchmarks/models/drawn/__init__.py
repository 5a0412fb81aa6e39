"""Networks drawn from a seed: layers that models have, put together as no model of the census is.

A network of images has stages of blocks; it ends in a class for the image, grows again to a class
for each pixel, or goes on as a sequence. A network of sequences takes tokens, samples, or images
cut into patches. A network of a table has columns of numbers and of categories. What a seed draws
stays the same only while these modules do.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from models.base import Arrays, Library, Model, Size, sized
from models.drawn import from_images, from_sequences, from_tables
from models.drawn.draft import Draft

KINDS = {
    "images": from_images,
    "pixels": from_images,
    "hybrid": from_images,
    "tokens": from_sequences,
    "samples": from_sequences,
    "patches": from_sequences,
    "table": from_tables,
}


def model(seed: int) -> Model:
    """Return the network of a seed."""
    rng = random.Random(f"sizes {seed}")
    kind = rng.choice(list(KINDS))
    module = KINDS[kind]

    def network(library: Library, size: Size) -> Any:
        draft = Draft(library, seed)
        made = module.network(draft, size, kind)
        made.layers_in_words = " ".join(draft.words)
        return made

    def inputs(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
        made: Arrays = module.inputs(size, batch, generator, kind)
        return made

    batch = rng.choice((4, 8, 8, 16, 24, 32, 48, 64)) * (16 if kind == "table" else 1)
    return Model(
        title=f"drawn {seed}, {kind}",
        network=network,
        inputs=inputs,
        sizes=sizes(rng),
        batches={"inference": max(1, batch // 8), "training": batch},
        optimizer=rng.choice(("sgd", "adamw")),
    )


def sizes(rng: random.Random) -> dict[str, Size]:
    """Draw the sizes of a network; ``each``: whether each position has a class, not the whole."""
    first = rng.choice((1, 2, 4))
    drawn = {
        "width": rng.choice((32, 40, 48, 56, 64, 64, 72, 80, 96, 96, 100, 112, 128)),
        "image": rng.choice((32, 48, 56, 64, 64, 80, 96, 100, 112, 128)),
        "tokens": rng.choice((33, 64, 77, 100, 128, 128, 197, 256, 256, 384, 500)),
        "classes": rng.choice((10, 37, 100, 1000, 1203)),
        "deep": rng.choice((1, 2, 2, 3, 4)),
        "wide": rng.choice((2, 4, 6)),
        "each": rng.choice((0, 1)),
        "first": first,
        "kernel": rng.choice((first, 2 * first - 1)) if first > 1 else 3,
        "cut": rng.choice((4, 8, 8)),
    }
    drawn["words"] = drawn["classes"]
    small = drawn | {"image": 32, "tokens": 64, "width": 32, "deep": 1, "wide": 2}
    tiny = {"image": 16, "tokens": 9, "width": 8, "deep": 1, "wide": 1, "cut": 4}
    tiny |= {"classes": 5, "words": 5}
    return {"full": sized(**drawn), "small": sized(**small), "tiny": sized(**drawn | tiny)}
