"""Two chemicals react and spread; spots divide and fill the plane.

    python docs/gallery/reaction_diffusion.py reaction_diffusion.png

The model is that of P. Gray and S. Scott (1983), with J. Pearson's parameters (1993).
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import calor

FEED, KILL = 0.037, 0.06


def laplacian(x: calor.Tensor) -> calor.Tensor:
    """Return the sum of the differences to the eight neighbours (H, W), on a torus."""
    sides = sum(calor.roll(x, shift, axis=axis) for shift in (-1, 1) for axis in (0, 1))
    corners = sum(calor.roll(x, (i, j), axis=(0, 1)) for i in (-1, 1) for j in (-1, 1))
    return 0.2 * sides + 0.05 * corners - x


@calor.jit
def evolve(u: calor.Tensor, v: calor.Tensor, steps: int) -> tuple[calor.Tensor, calor.Tensor]:
    """Return the concentrations after some steps, which are one loop on the device."""

    def step(i, state):
        u, v = state
        reaction = u * v * v
        return (
            u + laplacian(u) - reaction + FEED * (1 - u),
            v + 0.5 * laplacian(v) + reaction - (FEED + KILL) * v,
        )

    return calor.fori_loop(0, steps, step, (u, v))


def main(picture: str, size: int = 200, steps: int = 6000) -> float:
    """Run, draw the picture and return the standard deviation of the second chemical."""
    rng = np.random.default_rng(0)
    v = np.zeros((size, size), np.float32)
    for row, column in rng.integers(0, size - 10, (12, 2)):
        v[row : row + 10, column : column + 10] = 0.5
    _, v = evolve(calor.asarray(1 - v), calor.asarray(v), steps)
    plt.imsave(picture, v.numpy(), cmap="magma")
    return calor.std(v).item()


if __name__ == "__main__":
    print(f"the standard deviation is {main(sys.argv[1]):.3f}")
