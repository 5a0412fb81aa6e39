"""A kernel of one's own: the Mandelbrot set, a row of pixels for each unit.

python docs/gallery/mandelbrot.py mandelbrot.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from calor.dtypes import float32, int64
from calor_cpu.testing import run
from calor_kernel.language import Buffer, Scalar, absolute_position, kernel, loop_range, select


@kernel
def escape(xs, ys, steps, count, most, *, width):
    """Write after how many steps z ← z² + c leaves the circle of radius 2, or ``most``."""
    row = absolute_position()
    y = ys[row]
    for first in loop_range(0, count, width):
        x = xs.load(first, width)
        re, im, taken = x * 0.0, x * 0.0, x * 0.0
        for _ in loop_range(most):
            re, im = re * re - im * im + x, re * im * 2.0 + y
            taken = taken + select(re * re + im * im <= 4.0, 1.0, 0.0)
        steps.store(row * count + first, taken)


SIGNATURE = (
    Buffer(float32, writable=False),
    Buffer(float32, writable=False),
    Buffer(float32),
    Scalar(int64, nonnegative=True),
    Scalar(int64, nonnegative=True),
)


def main(picture: str, size: int = 400, most: int = 100) -> float:
    """Compute, draw the picture and return the share of pixels that never leave the circle."""
    xs = np.linspace(-2.05, 0.55, size, dtype=np.float32)
    ys = np.linspace(-1.3, 1.3, size, dtype=np.float32)
    steps = np.empty((size, size), np.float32)
    with np.errstate(all="ignore"):
        run(escape.build(SIGNATURE, width=8), size, [xs, ys, steps, size, most])
    plt.imsave(picture, np.log1p(steps), cmap="inferno", origin="lower")
    return float((steps == most).mean())


if __name__ == "__main__":
    print(f"{main(sys.argv[1]):.1%} of the pixels belong to the set")
