"""The models of the census: a module each with a `MODEL`, and those that a seed draws."""

from __future__ import annotations

import importlib

from models.base import Model

NAMES = (
    *("resnet50", "roberta", "gpt2", "mini_gpt", "vit", "convnext", "unet", "lstm_lm"),
    *("translator", "dlrm", "mobilenet_v3", "efficientnet", "speech", "graph_network"),
    *("dcgan", "mlp_mixer"),
)


DRAWN = "drawn-"


def load(name: str) -> Model:
    """Return a model by its name, or the one that is drawn for ``drawn-SEED``."""
    seed = name.removeprefix(DRAWN)
    if seed != name and seed.isdigit():
        from models import drawn

        return drawn.model(int(seed))
    if name not in NAMES:
        known = ", ".join(NAMES)
        raise ValueError(f"no model {name!r}; there are {known}, and drawn-SEED")
    found: Model = importlib.import_module(f"models.{name}").MODEL
    return found


def named(given: str) -> list[str]:
    """Return the names that a command's one means: "all", a name, or "drawn-FIRST..LAST"."""
    if given == "all":
        return list(NAMES)
    first, dots, last = given.removeprefix(DRAWN).partition("..")
    if dots and given.startswith(DRAWN) and first.isdigit() and last.isdigit():
        return [f"{DRAWN}{seed}" for seed in range(int(first), int(last) + 1)]
    load(given)
    return [given]
