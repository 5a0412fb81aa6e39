"""Drawing programs of nested transforms, and running them in both libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .calling import Calor
from .meanings import Plain
from .pieces import Block, Rng, piece
from .wrappers import WRAPPERS, fits, wrapped

SHAPES: Final = ((3,), (2, 2), (2,), (2,))
# Derivatives within each other: the meaning takes each element of each.
_MOST: Final = 3
_DIFFERENTIATING: Final = {
    name for name, (_, means) in WRAPPERS.items() if means and not means.startswith("-")
}


@dataclass(frozen=True)
class Nest:
    """A program with the arrays that it is called with."""

    block: Block
    arrays: tuple[Any, Any]

    def calor(self, *tensors: Any) -> Any:
        """Run the program of calor."""
        return self.block.run(Calor(), *tensors)

    def meaning(self, *arrays: Any) -> Any:
        """Return what the program means."""
        with np.errstate(all="ignore"):
            return np.asarray(self.block.run(Plain(), *arrays))


def _inside(rng: Rng, shape: tuple[int, ...], depth: int, derivatives: int) -> Block:
    if depth == 0:
        return piece(rng, shape)
    for _ in range(20):
        name = str(rng.choice(list(WRAPPERS)))
        cost = _cost(name)
        if cost > derivatives:
            continue
        made = _around(name, rng, shape, depth, derivatives - cost)
        if made is not None:
            return made
    return piece(rng, shape)


def _around(
    name: str, rng: Rng, shape: tuple[int, ...], depth: int, derivatives: int
) -> Block | None:
    inner = _inside(rng, shape, depth - 1, derivatives)
    other = piece(rng, shape)
    if not fits(name, inner):
        return None
    if name == "still" and any(other in inner.text for other in _DIFFERENTIATING):
        return None
    return wrapped(name, rng, shape, inner, other)


# What stands around a program, the outermost first: where what a trace keeps is used from outside.
CHAINS: Final[tuple[tuple[str, ...], ...]] = (
    (), ("jit",), ("grad", "jit"), ("jvp", "jit"), ("vmap",), ("grad",), ("vjp", "checkpoint"),
    ("grad", "vmap"), ("linearize", "jit"), ("grad", "scan"), ("jit", "vmap"), ("vjp", "cond"),
    ("grad", "jit", "checkpoint"), ("jacrev", "jit"), ("jvp", "vmap"), ("vjp", "jit", "vmap"),
    ("vmap", "grad"), ("grad", "grad", "jit"), ("jvp", "grad", "jit"),
)  # fmt: skip


def _cost(*names: str) -> int:
    return sum(2 if name == "hessian" else name in _DIFFERENTIATING for name in names)


def drawn(name: str, number: int, depth: int = 3, around: tuple[str, ...] = ()) -> Nest:
    """Draw a program whose outermost transform is the named one, within others."""
    rng = np.random.default_rng([number, list(WRAPPERS).index(name)])
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    left = max(_MOST - _cost(name, *around), 0)
    made = None
    while made is None:
        made = _around(name, rng, shape, depth, left)
    for outer in reversed(around):
        if fits(outer, made):
            made = wrapped(outer, rng, shape, made, piece(rng, shape))
    x, w = (np.asarray(rng.uniform(0.2, 1.0, shape) * rng.choice((-1, 1), shape)) for _ in "xw")
    return Nest(made, (x, w))
