"""A network learns two spirals; its output colours the plane.

python docs/gallery/spirals.py spirals.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import calor
from calor import nn, train
from calor.nn import functional as F


def spirals(points: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return positions (2 · points, 2) on two noisy spirals, and their labels (2 · points,)."""
    turn = np.sqrt(rng.random(points)) * 3 * np.pi
    arm = np.stack([np.cos(turn), np.sin(turn)], axis=1) * turn[:, None] / 10
    noise = rng.normal(scale=0.03, size=(2 * points, 2))
    positions = np.concatenate([arm, -arm]) + noise
    return positions.astype(np.float32), np.repeat(np.arange(2), points)


def main(picture: str, steps: int = 1500) -> float:
    """Train, draw the picture and return the share of points that are classified correctly."""
    calor.random.seed(0)
    x, y = map(calor.asarray, spirals(400, np.random.default_rng(0)))
    model = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    optimizer = train.AdamW(model, lr=3e-3)

    @calor.jit
    def step(model, optimizer, x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(steps):
        step(model, optimizer, x, y)

    side = np.linspace(-1.15, 1.15, 300, dtype=np.float32)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    with calor.no_grad():
        right = F.softmax(model(calor.asarray(grid)), axis=-1)[:, 1].reshape(300, 300)
        accuracy = (calor.argmax(model(x), axis=1) == y).astype("float32").mean().item()
    plt.figure(figsize=(4, 4))
    extent = (-1.15, 1.15, -1.15, 1.15)
    plt.imshow(right.numpy(), origin="lower", extent=extent, cmap="RdBu_r", vmin=0, vmax=1)
    plt.scatter(*x.numpy().T, c=y.numpy(), cmap="RdBu_r", s=6, edgecolors="white", linewidths=0.3)
    plt.axis("off")
    plt.savefig(picture, bbox_inches="tight", pad_inches=0.02, dpi=100)
    plt.close()
    return accuracy


if __name__ == "__main__":
    print(f"{main(sys.argv[1]):.1%} of the points are classified correctly")
