"""Models that are served, from a few products to a residual network; their first axis is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import calor
from calor import nn

Array = np.ndarray[Any, Any]


class Residual(nn.Module):
    """A block of two convolutions around which its input passes."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Any) -> Any:
        """Return the block's result."""
        return calor.relu(x + self.second(calor.relu(self.first(x))))


class Images(nn.Module):
    """Three stages of residual blocks, then ten scores."""

    def __init__(self) -> None:
        super().__init__()
        stages: list[Any] = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()]
        for channels in (16, 32, 64):
            stages += [Residual(channels), Residual(channels)]
            if channels < 64:
                stages += [nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1), nn.ReLU()]
        self.stages = nn.Sequential(*stages)
        self.scores = nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        """Return the scores of images."""
        return self.scores(self.stages(x).mean((2, 3)))


class Tokens(nn.Module):
    """Two layers of a transformer over 16 tokens, then four scores."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.layers = nn.Sequential(
            *[nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2)]
        )
        self.scores = nn.Linear(64, 4)

    def forward(self, x: Any) -> Any:
        """Return the scores of sequences."""
        return self.scores(self.layers(self.embedding(x)).mean(1))


def dense(*sizes: int) -> Any:
    """Return linear layers with ReLU between."""
    layers: list[Any] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _normal(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# A module, and a request of one row for it.
MODELS: Mapping[str, tuple[Callable[[], Any], Array]] = {
    "mlp": (lambda: dense(16, 32, 4), _normal(1, 16)),
    "digits": (lambda: dense(784, 512, 512, 10), _normal(1, 784)),
    "tokens": (Tokens, np.arange(16).reshape(1, 16) * 60),
    "images": (Images, _normal(1, 3, 32, 32)),
}


def write(name: str, folder: Path) -> tuple[Path, dict[str, Array]]:
    """Write a model as an ONNX file; return it, and the inputs of a request."""
    import calor_onnx

    make, example = MODELS[name]
    calor.random.seed(0)
    path = folder / f"{name}.onnx"
    module = make().eval()
    calor_onnx.export(module, calor.asarray(example), path=path, dynamic={"x": {0: "batch"}})
    return path, {"x": example}
