"""Four optimizers walk down Rosenbrock's valley; each path is one compiled loop.

python docs/gallery/optimizers.py optimizers.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import calor
from calor import nn, train

WALKS = {
    "SGD": lambda p: train.SGD(p, lr=1e-3),
    "SGD with momentum": lambda p: train.SGD(p, lr=3e-4, momentum=0.95),
    "Adam": lambda p: train.Adam(p, lr=0.05),
    "AdamW": lambda p: train.AdamW(p, lr=0.05, weight_decay=0.1),
}


def rosenbrock(x: calor.Tensor, y: calor.Tensor) -> calor.Tensor:
    """Return (1 − x)² + 100 (y − x²)², whose minimum is at (1, 1)."""
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


def walk(make, steps: int) -> np.ndarray:
    """Return the positions (steps, 2) of an optimizer from (−1.5, 2)."""
    place = nn.Parameter(calor.asarray([-1.5, 2.0]))
    optimizer = make([place])

    @calor.jit
    def step(optimizer):
        optimizer.zero_grad()
        rosenbrock(place[0], place[1]).backward()
        optimizer.step()
        return place + 0

    return np.array([step(optimizer).tolist() for _ in range(steps)])


def main(picture: str, steps: int = 400) -> dict[str, float]:
    """Walk, draw the picture and return the function's value at the end of each path."""
    x, y = np.meshgrid(np.linspace(-2, 2, 300), np.linspace(-1, 3, 300))
    plt.figure(figsize=(5, 4))
    plt.contourf(x, y, np.log1p(rosenbrock(x, y)), 24, cmap="Greys")
    ends = {}
    for name, make in WALKS.items():
        path = walk(make, steps)
        plt.plot(*path.T, label=name, linewidth=1.5)
        ends[name] = float(rosenbrock(*path[-1]))
    plt.plot(1, 1, "k*", markersize=10)
    plt.legend(fontsize=8)
    plt.axis("off")
    plt.savefig(picture, bbox_inches="tight", pad_inches=0.02, dpi=100)
    plt.close()
    return ends


if __name__ == "__main__":
    print(main(sys.argv[1]))
