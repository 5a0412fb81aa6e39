"""What a step of the census is: the model, its mode, size, dtype and batch, and its data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import models
from models.base import Arrays, Model, Size

DTYPES = ("float32", "tf32", "bfloat16")
MODES = ("inference", "training", "decoding")
# The batch of the size for tests.
_TINY = 3


@dataclass(frozen=True)
class Setting:
    """A step: ``batch`` None is the model's own for the mode, one in decoding."""

    name: str
    mode: str
    dtype: str
    size_name: str
    batch_given: int | None = None

    @property
    def model(self) -> Model:
        """The model."""
        return models.load(self.name)

    @property
    def size(self) -> Size:
        """The sizes of the network."""
        return self.model.sizes[self.size_name]

    @property
    def batch(self) -> int:
        """The number of samples."""
        if self.mode == "decoding":
            return 1
        model = self.model
        known = {"full": model.batches[self.mode], "small": model.few, "tiny": _TINY}
        return self.batch_given or known[self.size_name]

    @property
    def title(self) -> str:
        """The name in tables."""
        size = "" if self.size_name == "full" else f", {self.size_name}"
        return f"{self.model.title} {self.mode} {self.dtype}, batch {self.batch}{size}"

    def arrays(self) -> Arrays:
        """Return the same inputs and targets at every call."""
        if self.mode == "decoding":
            return ()
        drawn = self.model.inputs(self.size, self.batch, np.random.default_rng(0))
        return drawn if self.mode == "training" else drawn[:-1]
