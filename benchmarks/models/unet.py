"""The U-Net of DDPM (Ho et al., 2020) for images of 32: it predicts the noise of a time."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from models.base import Arrays, Library, Model, Size, sized

_MOST = 1000


def network(library: Library, size: Size) -> Any:
    """Return the model of images (N, 3, H, W) and times (N,) with the noise of the images."""
    nn: Any = library.nn
    arrays, width, groups = library.arrays, size["width"], size["groups"]
    inner = 4 * width

    class Times(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.mlp = nn.Sequential(nn.Linear(width, inner), nn.SiLU(), nn.Linear(inner, inner))

        def forward(self, t: Any) -> Any:
            steps = arrays.arange(width // 2, dtype=t.dtype, device=t.device)
            angles = t[:, None] * arrays.exp(steps * (-math.log(10000.0) / (width // 2)))
            return self.mlp(arrays.concat([arrays.sin(angles), arrays.cos(angles)], axis=1))

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self, before: int, after: int) -> None:
            super().__init__()
            self.norm1 = nn.GroupNorm(groups, before)
            self.conv1 = nn.Conv2d(before, after, 3, padding=1)
            self.time = nn.Linear(inner, after)
            self.norm2 = nn.GroupNorm(groups, after)
            self.conv2 = nn.Conv2d(after, after, 3, padding=1)
            self.side = nn.Identity() if before == after else nn.Conv2d(before, after, 1)
            self.silu = nn.SiLU()

        def forward(self, x: Any, t: Any) -> Any:
            y = self.conv1(self.silu(self.norm1(x)))
            y = y + self.time(self.silu(t))[:, :, None, None]
            return self.side(x) + self.conv2(self.silu(self.norm2(y)))

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(groups, channels)
            self.parts = nn.Conv2d(channels, 3 * channels, 1)
            self.out = nn.Conv2d(channels, channels, 1)

        def forward(self, x: Any, t: Any) -> Any:
            n, channels, height, across = x.shape
            rows = self.parts(self.norm(x)).reshape(n, 3, channels, height * across)
            q, k, v = (rows[:, i].swapaxes(1, 2)[:, None] for i in range(3))
            y = library.attention(q, k, v)[:, 0].swapaxes(1, 2)
            return x + self.out(y.reshape(n, channels, height, across))

    class UNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.times, self.first = Times(), nn.Conv2d(3, width, 3, padding=1)
            self.down, self.shrink = nn.ModuleList([]), nn.ModuleList([])
            self.up, self.grow = nn.ModuleList([]), nn.ModuleList([])
            kept, now = [width], width
            for level in range(size["levels"]):
                wide = width * min(2, level + 1)
                for _ in range(size["blocks"]):
                    self.down.append(Residual(now, wide))
                    self.down.append(Attention(wide) if level == 1 else Still())
                    now = wide
                    kept.append(now)
                if level < size["levels"] - 1:
                    self.shrink.append(nn.Conv2d(now, now, 3, 2, 1))
                    kept.append(now)
            self.middle = nn.ModuleList([Residual(now, now), Attention(now), Residual(now, now)])
            for level in reversed(range(size["levels"])):
                wide = width * min(2, level + 1)
                for _ in range(size["blocks"] + 1):
                    self.up.append(Residual(now + kept.pop(), wide))
                    self.up.append(Attention(wide) if level == 1 else Still())
                    now = wide
                if level:
                    self.grow.append(
                        nn.Sequential(nn.Upsample(scale_factor=2.0), nn.Conv2d(now, now, 3, 1, 1))
                    )
            self.norm, self.last = nn.GroupNorm(groups, now), nn.Conv2d(now, 3, 3, padding=1)
            self.silu = nn.SiLU()

        def forward(self, x: Any, t: Any) -> Any:
            t = self.times(t)
            x = self.first(x)
            kept, blocks = [x], size["blocks"]
            for level in range(size["levels"]):
                for number in range(level * blocks, (level + 1) * blocks):
                    x = self.down[2 * number + 1](self.down[2 * number](x, t), t)
                    kept.append(x)
                if level < size["levels"] - 1:
                    x = self.shrink[level](x)
                    kept.append(x)
            for part in self.middle:
                x = part(x, t)
            for level in range(size["levels"]):
                for number in range(level * (blocks + 1), (level + 1) * (blocks + 1)):
                    x = arrays.concat([x, kept.pop()], axis=1)
                    x = self.up[2 * number + 1](self.up[2 * number](x, t), t)
                if level < size["levels"] - 1:
                    x = self.grow[level](x)
            return self.last(self.silu(self.norm(x)))

    class Still(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, t: Any) -> Any:
            return x

    return UNet()


def inputs(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
    """Draw images, times, and the noise that is to be found."""
    shape = (batch, 3, size["image"], size["image"])
    x, noise = (generator.standard_normal(shape, np.float32) for _ in range(2))
    return x, generator.integers(0, _MOST, batch).astype(np.float32), noise


def loss(library: Library, model: Any, inputs: Sequence[Any]) -> Any:
    """Return the squared error of the noise."""
    x, t, noise = inputs
    return library.functional.mse_loss(model(x, t), noise)


MODEL = Model(
    title="diffusion U-Net",
    network=network,
    inputs=inputs,
    sizes={
        "full": sized(image=32, width=128, groups=32, levels=4, blocks=2),
        "small": sized(image=16, width=32, groups=8, levels=3, blocks=1),
        "tiny": sized(image=8, width=8, groups=4, levels=2, blocks=1),
    },
    batches={"inference": 16, "training": 64},
    loss=loss,
)
