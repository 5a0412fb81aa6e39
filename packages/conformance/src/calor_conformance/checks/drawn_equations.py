"""Equations of einsum that are drawn: labels several times, an ellipsis, sizes of 1, no output.

A term may have a label up to four times, which takes the diagonal of a cube; a label of size 1 goes
with a longer one elsewhere, and axes of an ellipsis broadcast. Operands are small whole numbers, so
sums are exact in every order of the products, and NumPy says what is due.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

import calor
from calor.dtypes import float32

from .base import Array, Check, Place

CONTRACT: Final = "einsum means NumPy's equation, whatever labels its terms have and how often"
_EQUATIONS = 60
_MOST_ELEMENTS = 400
Rng = np.random.Generator


def _term(rng: Rng, names: list[str], dots: bool) -> str:
    """Return labels in a drawn order, one of them up to four times, and maybe an ellipsis."""
    count = int(rng.integers(0 if dots else 1, len(names) + 1))
    labels = list(rng.permutation(names)[:count])
    if labels and rng.random() < 0.5:
        labels += [labels[0]] * int(rng.integers(1, 4))
    rng.shuffle(labels)
    at = int(rng.integers(len(labels) + 1))
    return "".join([*labels[:at], "..." * dots, *labels[at:]])


def _operand(rng: Rng, term: str, sizes: dict[str, int], dots: tuple[int, ...]) -> Array:
    """Return whole numbers for a term; a label may be 1 in all its places, or an axis of dots."""
    mine = {n: 1 if rng.random() < 0.15 else size for n, size in sizes.items()}
    shape: list[int] = []
    for name in term.replace("...", "."):
        if name == ".":
            spread = dots[int(rng.integers(len(dots) + 1)) :]
            shape += [1 if rng.random() < 0.2 else n for n in spread]
        else:
            shape.append(mine[name])
    return rng.integers(-3, 4, shape).astype(np.float32)


def _drawn(rng: Rng) -> tuple[str, list[Array]]:
    """Return an equation and its operands."""
    names = list(rng.permutation(list(string.ascii_letters))[: int(rng.integers(1, 5))])
    sizes = {n: int(rng.integers(1, 5)) for n in names}
    dots = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 3)))
    terms = [
        _term(rng, names, bool(rng.random() < 0.35)) for _ in range(rng.choice((1, 1, 2, 2, 3)))
    ]
    operands = [_operand(rng, term, sizes, dots) for term in terms]
    equation = ",".join(terms)
    if rng.random() < 0.3:
        return equation, operands
    used = sorted({*equation} - {",", "."})
    kept = list(rng.permutation(used)[: int(rng.integers(len(used) + 1))]) if used else []
    if "..." in equation:
        kept.insert(int(rng.integers(len(kept) + 1)), "...")
    return f"{equation}->{''.join(kept)}", operands


def _run(place: Place) -> None:
    for count in range(_EQUATIONS):
        rng = np.random.default_rng([place.seed, 301, count])
        equation, operands = _drawn(rng)
        if not place.tries(count, 6) or any(x.size > _MOST_ELEMENTS for x in operands):
            continue
        want = np.einsum(equation, *operands)
        tensors = [calor.asarray(x) for x in operands]
        made = place.call(partial(calor.einsum, equation), *tensors)
        told = f"einsum({equation!r}) of {', '.join(str(x.shape) for x in operands)}"
        assert made.shape == want.shape, f"{told} has shape {made.shape}, not {want.shape}"
        got = made.numpy()
        assert (got == want).all(), f"{told} is {got.tolist()}, not {want.tolist()}"


def drawn_equations() -> Iterator[Check]:
    """Yield a check of drawn equations."""
    yield Check(
        kind="functions",
        subject="drawn-equations",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _drawn),
        op="slice",
        dtypes=(float32,),
        looks=True,
    )
