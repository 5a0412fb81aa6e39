"""The models of the census, a module each, with a `MODEL`."""

from __future__ import annotations

import importlib

from models.base import Model

NAMES = (
    *("resnet50", "roberta", "gpt2", "mini_gpt", "vit", "convnext", "unet", "lstm_lm"),
    *("translator", "dlrm", "mobilenet_v3", "efficientnet", "speech", "graph_network"),
    *("dcgan", "mlp_mixer"),
)


def load(name: str) -> Model:
    """Return a model; ValueError for a name that there is not."""
    if name not in NAMES:
        raise ValueError(f"no model {name!r}; there are {', '.join(NAMES)}")
    found: Model = importlib.import_module(f"models.{name}").MODEL
    return found
