"""The feature encoder of wav2vec 2.0 (Baevski et al., 2020): seven 1-d convolutions on samples."""

from typing import Any

import numpy as np

from models.base import Arrays, Library, Model, Size, sized

_LAYERS = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))


def network(library: Library, size: Size) -> Any:
    """Return the model of samples (N, 1, L) with scores (N, frames, classes)."""
    nn: Any = library.nn
    width = size["width"]

    class Encoder(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            layers: list[Any] = []
            for number, (kernel, stride) in enumerate(_LAYERS):
                layers.append(nn.Conv1d(width if number else 1, width, kernel, stride, bias=False))
                layers += [] if number else [nn.GroupNorm(width, width)]
                layers.append(nn.GELU())
            self.layers = nn.Sequential(*layers)
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, size["classes"])

        def forward(self, samples: Any) -> Any:
            return self.head(self.norm(self.layers(samples).swapaxes(1, 2)))

    return Encoder()


def inputs(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
    """Draw samples, and a class for each frame."""
    samples = generator.standard_normal((batch, 1, size["samples"]), np.float32)
    frames = size["samples"]
    for kernel, stride in _LAYERS:
        frames = (frames - kernel) // stride + 1
    return samples, generator.integers(0, size["classes"], (batch, frames))


MODEL = Model(
    title="speech encoder, 1-d convolutions",
    network=network,
    inputs=inputs,
    sizes={
        "full": sized(samples=16000, width=512, classes=32),
        "small": sized(samples=4000, width=64, classes=32),
        "tiny": sized(samples=1000, width=8, classes=5),
    },
    batches={"inference": 8, "training": 16},
)
