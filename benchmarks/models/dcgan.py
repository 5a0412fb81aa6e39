"""DCGAN (Radford et al., 2015) for images of 64: both networks are trained in a step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.base import Arrays, Library, Model, Size, sized


def network(library: Library, size: Size) -> Any:
    """Return both networks; called with noise (N, Z, 1, 1) the model generates images."""
    nn: Any = library.nn
    width, levels = size["width"], size["levels"]

    def generator() -> Any:
        wide = width << (levels - 1)
        layers = [nn.ConvTranspose2d(size["noise"], wide, 4, 1, 0, bias=False)]
        for _ in range(levels - 1):
            layers += [nn.BatchNorm2d(wide), nn.ReLU()]
            layers.append(nn.ConvTranspose2d(wide, wide // 2, 4, 2, 1, bias=False))
            wide //= 2
        layers += [nn.BatchNorm2d(wide), nn.ReLU()]
        return nn.Sequential(*layers, nn.ConvTranspose2d(wide, 3, 4, 2, 1, bias=False), nn.Tanh())

    def discriminator() -> Any:
        layers, wide = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)], width
        for _ in range(levels - 1):
            layers.append(nn.Conv2d(wide, 2 * wide, 4, 2, 1, bias=False))
            wide *= 2
            layers += [nn.BatchNorm2d(wide), nn.LeakyReLU(0.2)]
        return nn.Sequential(*layers, nn.Conv2d(wide, 1, 4, 1, 0, bias=False), nn.Flatten(0))

    class DCGAN(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.discriminator = generator(), discriminator()

        def forward(self, noise: Any) -> Any:
            return self.generator(noise)

    return DCGAN()


def inputs(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
    """Draw noise, and images that stand for real ones."""
    side = 4 << size["levels"]
    noise = generator.standard_normal((batch, size["noise"], 1, 1), np.float32)
    return noise, generator.uniform(-1, 1, (batch, 3, side, side)).astype(np.float32)


def _error(library: Library, scores: Any, real: bool) -> Any:
    wanted = (library.arrays.ones_like if real else library.arrays.zeros_like)(scores)
    return library.functional.binary_cross_entropy_with_logits(scores, wanted)


def loss(library: Library, model: Any, inputs: Sequence[Any]) -> Any:
    """Return the generator's loss."""
    noise, _ = inputs
    return _error(library, model.discriminator(model(noise)), True)


def step(library: Library, loss: Any, model: Any, optimizers: Any, inputs: Any) -> Any:
    """Return the sum of both losses after an update of the discriminator and of the generator."""
    of_generator, of_discriminator = optimizers
    noise, images = inputs
    made = model(noise)
    told = _error(library, model.discriminator(images), True)
    told = told + _error(library, model.discriminator(made.detach()), False)
    told.backward()
    of_discriminator.step()
    of_discriminator.zero_grad()
    fooled = _error(library, model.discriminator(made), True)
    fooled.backward()
    of_generator.step()
    of_generator.zero_grad()
    of_discriminator.zero_grad()
    return told.detach() + fooled.detach()


MODEL = Model(
    title="DCGAN",
    network=network,
    inputs=inputs,
    sizes={
        "full": sized(noise=100, width=64, levels=4),
        "small": sized(noise=50, width=16, levels=3),
        "tiny": sized(noise=5, width=4, levels=2),
    },
    batches={"inference": 64, "training": 64},
    few=16,
    loss=loss,
    step=step,
    parts=lambda model: [model.generator, model.discriminator],
)
