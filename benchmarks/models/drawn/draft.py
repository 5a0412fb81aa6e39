"""What a network is drawn with: random choices, the library, and modules made of parts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from models.base import Library

# The activations that models use, and those that only few use.
_COMMON = ("ReLU", "GELU", "SiLU")
_RARE = (
    *("Hardswish", "LeakyReLU", "ELU", "Mish", "Tanh", "Sigmoid", "Softplus", "PReLU", "ReLU6"),
    *("SELU", "Hardtanh", "Softsign", "Hardsigmoid", "CELU", "LogSigmoid"),
)


class Draft:
    """A network while it is drawn: the same choices with each library, told in `words`."""

    def __init__(self, library: Library, seed: int) -> None:
        self.library, self.nn = library, library.nn
        self.functional, self.arrays = library.functional, library.arrays
        self.rng = random.Random(seed)
        self.words: list[str] = []

    def say(self, *words: object) -> None:
        """Add a layer to the description."""
        self.words.append(" ".join(map(str, words)))

    def one(self, *choices: Any) -> Any:
        """Choose one."""
        return self.rng.choice(choices)

    def chance(self, probability: float) -> bool:
        """Return whether something happens."""
        return self.rng.random() < probability

    def divisor(self, number: int, most: int) -> int:
        """Choose a divisor of a number, at most ``most``."""
        return self.rng.choice([d for d in range(1, min(number, most) + 1) if number % d == 0])

    def module(self, forward: Callable[..., Any], **parts: Any) -> Any:
        """Return a module with the parts; ``forward(module, *inputs)`` is its forward pass."""
        nn: Any = self.nn

        class Made(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                for name, part in parts.items():
                    setattr(self, name, part)

            def forward(self, *inputs: Any) -> Any:
                return forward(self, *inputs)

        return Made()

    def chain(self, layers: Sequence[Any]) -> Any:
        """Return layers one after the other."""
        return self.nn.Sequential(*layers)

    def residual(self, inner: Any, scale: float | None = None, width: int = 0) -> Any:
        """Return x + inner(x), or with a learned scale of ``width`` features in the last axis."""
        if scale is None:
            return self.module(lambda m, x: x + m.inner(x), inner=inner)
        learned = self.nn.Parameter(self.arrays.full((width,), scale))
        return self.module(lambda m, x: x + m.scale * m.inner(x), inner=inner, scale=learned)

    def activation(self) -> str:
        """Choose the name of an activation."""
        return self.rng.choice(_COMMON if self.chance(0.7) else _RARE)

    def parameter(self, *shape: int, spread: float = 0.02) -> Any:
        """Return a parameter of normal numbers."""
        return self.nn.Parameter(self.library.normal(shape) * spread)

    def parts(self, x: Any, count: int) -> list[Any]:
        """Return equal parts of the last axis."""
        size = x.shape[-1] // count
        return [x[..., i * size : (i + 1) * size] for i in range(count)]

    def repeated(self, x: Any, count: int) -> Any:
        """Return each of the second axis ``count`` times, one after the other."""
        n, few, *rest = x.shape
        wide = self.arrays.broadcast_to(x[:, :, None], (n, few, count, *rest))
        return wide.reshape(n, few * count, *rest)
