"""The form of a suite, on NumPy alone: one way of writing a sum or a product beside another.

It measures nothing about calor. It is there to copy, and the runner's own tests run it.
"""

import numpy as np

from harness import Case


def cases(device: str) -> list[Case]:
    generator = np.random.default_rng(0)
    x = generator.random((64, 64))
    y = generator.random((64, 64))
    return [
        Case(
            "matmul 64x64",
            ours=lambda: lambda: np.einsum("ij,jk->ik", x, y),
            peers={"numpy": lambda: lambda: x @ y},
        ),
        Case(
            "sum 64x64",
            ours=lambda: lambda: np.add.reduce(x, axis=None),
            peers={"numpy": lambda: lambda: np.sum(x)},
            inner=100,
        ),
    ]
