"""``calor.vmap`` over axes of one member and of more than 2¹⁶, by every kind of batching rule.

A rule adds an axis to shapes, starts, places and counts, so each kind of op runs once at sizes at
which a count of 8 or 16 bits has passed. The first, the last and drawn members are compared with
the function of that member alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int64

from .base import Array, Check, Place

CONTRACT: Final = "a mapped function is the function of each member, however many there are"
_NEAR: Final = 1e-5
# One member, and how many a count of 8 and of 16 bits cannot hold.
_SIZES: Final = (1, 257, 65_539)
# Functions of a member x of shape (2, 3), a line w of 3 numbers, and places p of 2.
_PROGRAMS: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "moves": lambda x, w, p: calor.flip(calor.pad(x.T[1:], ((1, 0), (0, 1))), axis=0).reshape(-1),
    "pads": lambda x, w, p: calor.pad(x, ((0, 1), (2, 0)), value=w[1]),
    "steps": lambda x, w, p: calor.concat([x[:, ::2], calor.broadcast_to(w[:2], (2, 2))], axis=1),
    "numbers": lambda x, w, p: calor.where(x > w, x * w, calor.maximum(x, 0.5) - w),
    "sums": lambda x, w, p: calor.sum(x * w, axis=1) + calor.max(x, axis=1) * calor.mean(x),
    "runs": lambda x, w, p: calor.cumulative_sum(x, axis=1) - calor.sort(x, axis=1),
    "places": lambda x, w, p: calor.take(w, p) * calor.argmax(x, axis=1).astype(x.dtype),
    "reads": lambda x, w, p: calor.take_along_axis(x, p[:, None], axis=1),
    "products": lambda x, w, p: x @ calor.stack([w, w * 2], axis=1) + calor.vecdot(x, w)[:, None],
    "slopes": lambda x, w, p: calor.grad(lambda t: calor.sum(calor.sin(t * w) * t))(x),
}


# Programs that read the line too, so that it may be mapped alone.
_BY_LINES: Final = frozenset(("pads", "numbers", "sums", "products", "slopes"))


def _run(name: str, place: Place) -> None:
    function = _PROGRAMS[name]
    rng = np.random.default_rng([place.seed, 911, list(_PROGRAMS).index(name)])
    for size in _SIZES:
        # Each operand is mapped or stays, but one that the program reads is mapped.
        mask = [bool(m) for m in rng.integers(2, size=3)]
        mask[int(name in _BY_LINES and not mask[0])] = True
        arrays: tuple[Array, ...] = (
            rng.normal(size=(size, 2, 3)).astype(np.float32),
            rng.normal(size=(size, 3)).astype(np.float32),
            rng.integers(0, 3, (size, 2)),
        )
        given = [a if m else a[0] for a, m in zip(arrays, mask, strict=True)]
        axes = tuple(0 if m else None for m in mask)
        made = place.call(calor.vmap(function, axes), *map(calor.asarray, given)).numpy()
        assert len(made) == size, f"{len(made)} members, not {size}"
        for at in {0, size - 1, min(size - 1, 65_536), *rng.integers(0, size, 2).tolist()}:
            alone = [calor.asarray(a[at] if m else a) for a, m in zip(given, mask, strict=True)]
            _compare(made[at], place.call(function, *alone).numpy(), f"member {at} of {size}")


def _compare(got: Array, want: Array, told: str) -> None:
    assert got.shape == want.shape, f"{told}: shape {got.shape}, not {want.shape}"
    off = np.abs(got - want).max()
    assert off <= _NEAR * (1 + np.abs(want).max()), f"{told}: {got.tolist()}, not {want.tolist()}"


def sizes_of_maps() -> Iterator[Check]:
    """Yield a check of each kind of rule."""
    for name, program in _PROGRAMS.items():
        yield Check(
            kind="vmap",
            subject=f"one-to-many-members-{name}",
            tier="compiled",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, program),
            op="sum",
            dtypes=(float32, int64),
            looks=True,
        )
