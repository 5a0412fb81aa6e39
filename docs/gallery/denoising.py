"""A small diffusion model learns a distribution of points and draws new ones from noise.

    python docs/gallery/denoising.py denoising.png

The model predicts the noise (J. Ho, A. Jain and P. Abbeel, "Denoising Diffusion Probabilistic
Models", 2020). Samples are drawn in one compiled loop (J. Song, C. Meng and S. Ermon, "Denoising
Diffusion Implicit Models", 2021).
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import calor
from calor import nn, train

STEPS = 60
# The share of a point's variance that is left at each time; the rest is noise.
KEPT = np.cumprod(1 - np.linspace(1e-4, 0.12, STEPS), dtype=np.float32)


def moons(points: int, rng: np.random.Generator) -> np.ndarray:
    """Return positions (points, 2) on two half circles."""
    angle, side = rng.random(points) * np.pi, rng.choice([-1.0, 1.0], points)
    x = np.stack([np.cos(angle) - 0.5 * side, np.sin(angle) * side + 0.25 - 0.25 * side], axis=1)
    return (x + rng.normal(scale=0.04, size=x.shape)).astype(np.float32)


class Denoiser(nn.Module):
    """Predicts the noise in points (N, 2) at times (N,)."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.time = nn.Embedding(STEPS, width)
        self.into = nn.Linear(2, width)
        self.hidden = nn.Sequential(
            nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.out = nn.Linear(width, 2)

    def forward(self, x, time):
        return self.out(self.hidden(self.into(x) + self.time(time)))


def main(picture: str, updates: int = 3000, points: int = 2000) -> float:
    """Train, draw data and samples, and return the mean distance of a sample to the data."""
    calor.random.seed(0)
    data = calor.asarray(moons(points, np.random.default_rng(0)))
    kept = calor.asarray(KEPT)
    model = Denoiser()
    optimizer = train.AdamW(model, lr=2e-3)

    @calor.jit
    def update(model, optimizer, data):
        time = calor.random.integers(0, STEPS, (data.shape[0],))
        noise = calor.random.normal(data.shape)
        share = kept[time][:, None]
        error = model(calor.sqrt(share) * data + calor.sqrt(1 - share) * noise, time) - noise
        loss = (error**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    @calor.jit
    def sample(model, noise):
        def back(i, x):
            time = STEPS - 1 - i
            share, after = kept[time], calor.where(time > 0, kept[time - 1], 1.0)
            predicted = model(x, calor.zeros(points, dtype="int64") + time)
            clean = (x - calor.sqrt(1 - share) * predicted) / calor.sqrt(share)
            return calor.sqrt(after) * clean + calor.sqrt(1 - after) * predicted

        return calor.fori_loop(0, STEPS, back, noise)

    for _ in range(updates):
        update(model, optimizer, data)
    with calor.no_grad():
        drawn = sample(model, calor.random.normal(data.shape))
    distance = calor.sqrt(((drawn[:, None] - data[None]) ** 2).sum(axis=2)).min(axis=1)
    figure, axes = plt.subplots(1, 2, figsize=(6, 3), sharex=True, sharey=True)
    for axis, shown, title in zip(axes, (data, drawn), ("data", "samples"), strict=True):
        axis.scatter(*shown.numpy().T, s=2, alpha=0.5)
        axis.set_title(title, fontsize=9)
        axis.axis("off")
    figure.savefig(picture, bbox_inches="tight", pad_inches=0.02, dpi=100)
    plt.close(figure)
    return distance.mean().item()


if __name__ == "__main__":
    print(f"a sample is {main(sys.argv[1]):.3f} from the data")
