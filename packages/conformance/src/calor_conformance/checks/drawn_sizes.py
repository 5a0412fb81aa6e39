"""Drawn programs at drawn sizes: plain, with states that they replace, and as bodies of loops.

One function is planned at some lengths and called at others, in an order in which lengths come
again. States are replaced by functions of themselves and of each other, and what they were is read
after that; carries of loops change places.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64
from calor.transforms.state import Stateful

from ..rows.crossed.programs import Program
from ..rows.crossed.sized_programs import LEAST, operands, sized_program
from .base import Array, Check, Place

CONTRACT: Final = "a drawn program is right at every size, in any order of sizes"
_PROGRAMS, _OPS = 8, (6, 10, 15)
_TURNS: Final = 3


def _lengths(rng: np.random.Generator) -> list[int]:
    """Return lengths of which some come twice, about vectors and beyond blocks."""
    few = [LEAST, *rng.integers(LEAST, 20, 2), *rng.choice((31, 32, 33, 64, 129, 300), 3)]
    return [int(n) for n in rng.permutation([*few, *rng.choice(few, 3)])]


def _compare(found: Any, wants: list[Array], what: str) -> None:
    assert len(found) == len(wants), f"{what}: {len(found)} results, not {len(wants)}"
    for k, (made, want) in enumerate(zip(found, wants, strict=True)):
        got = made.numpy()
        assert got.shape == want.shape, f"{what}, result {k}: {got.shape}, not {want.shape}"
        wrong = np.argwhere(got != want)
        assert not wrong.size, (
            f"{what}, result {k}: {got[tuple(wrong[0])]} at {wrong[0].tolist()}, not "
            f"{want[tuple(wrong[0])]}; {len(wrong)} are wrong"
        )


def _put(arrays: list[Array]) -> list[Any]:
    return [calor.asarray(a.astype(np.float32)) for a in arrays]


def _plain(made: Program, rng: np.random.Generator, what: str) -> None:
    step = calor.jit(made.run)
    for turn, n in enumerate(_lengths(rng)):
        arrays = operands(rng, n)
        _compare(step(*_put(arrays)), made.meaning(*arrays), f"{what} of {n}, call {turn + 1}")


class _Held(Stateful):
    def __init__(self, *tensors: Any) -> None:
        self.tensors = list(tensors)


def _replaced(made: Program, results: list[Any], first: Any, second: Any) -> tuple[Any, Any]:
    """Return two states from each other and from a result of their shape."""
    fit = [r for r in results if r.shape == first.shape]
    return second[::-1] - 1, fit[-1] if fit else first * 1


def _states(made: Program, rng: np.random.Generator, what: str) -> None:
    @calor.jit
    def step(held: _Held, x: Any) -> list[Any]:
        first, second = held.tensors
        results = made.run(first, second, x)
        held.tensors[0], held.tensors[1] = _replaced(made, results, first, second)
        # What the states were, and what they are.
        return [*results, first + second, held.tensors[0] * 2]

    for n in _lengths(rng)[:5]:
        first, second, x = operands(rng, n)
        held = _Held(*_put([first, second]))
        for turn in range(_TURNS):
            results = made.meaning(first, second, x)
            after = _replaced(made, results, first, second)
            wants = [*results, first + second, after[0] * 2]
            first, second = (np.asarray(a) % 61 for a in after)
            told = f"{what} of {n} with states, call {turn + 1}"
            _compare(step(held, *_put([x])), wants, told)
            _compare(held.tensors, list(after), f"{told}, its states")
            held.tensors = [calor.remainder(t, 61) for t in held.tensors]


def _loops(made: Program, rng: np.random.Generator, what: str) -> None:
    def turned(results: list[Any], a: Any, b: Any, c: Any) -> tuple[Any, Any, Any]:
        fit = [r for r in results if r.shape == a.shape]
        return b, fit[-1] if fit else a, a[::-1]

    def run(a: Any, b: Any, c: Any) -> list[Any]:
        def body(carry: Any, by: Any) -> Any:
            one, other, third = carry
            results = made.run(one, other + by, c)
            after = turned(results, one, other, third)
            return tuple(calor.remainder(t, 61) for t in after), (results[0], third)

        last, every = calor.scan(body, (a, b, a * 2), calor.asarray(np.arange(3, dtype=np.float32)))
        return [*last, *every]

    def meaning(a: Array, b: Array, c: Array) -> list[Array]:
        carry, every = (a, b, a * 2), []
        for by in range(_TURNS):
            results = made.meaning(carry[0], carry[1] + by, c)
            every.append((results[0], carry[2]))
            carry = tuple(np.remainder(t, 61) for t in turned(results, *carry))
        return [*carry, *(np.stack(each) for each in zip(*every, strict=True))]

    step = calor.jit(run)
    for n in _lengths(rng)[:5]:
        arrays = operands(rng, n)
        _compare(step(*_put(arrays)), meaning(*arrays), f"{what} of {n} in a loop")


Way = Callable[[Program, np.random.Generator, str], None]
_WAYS: Final[dict[str, tuple[Way, tuple[str, ...]]]] = {
    "plain": (_plain, ()), "states": (_states, ("in_place",)),
    "loops": (_loops, ("control_flow",)),
}  # fmt: skip


def _run(name: str, number: int, place: Place) -> None:
    way, ops = _WAYS[name][0], _OPS[number % len(_OPS)]
    seed = [place.number(number), ops, crc32(name.encode())]
    way(sized_program(seed, ops, float32), np.random.default_rng([*seed, 1]), f"program {seed}")


def drawn_sizes() -> Iterator[Check]:
    """Yield checks of drawn programs in each way."""
    for name, (way, features) in _WAYS.items():
        for number in range(_PROGRAMS):
            yield Check(
                kind="sizes",
                subject=f"drawn-{name}-{number}",
                tier="compiled",
                contract=CONTRACT,
                run=partial(_run, name, number),
                text=partial(inspect.getsource, way),
                dtypes=(float32, int64, bool_),
                features=features,
                looks=False,
            )
