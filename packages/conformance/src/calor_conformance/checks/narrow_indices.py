"""Indices of 8 and 16 bits along axes that are longer than their type counts, mapped in all ways.

An index fits its type, and what is computed of it need not: the place of a row in memory, the row
of a batch, an index from the end plus the length, the sum of several columns. A compiler and a
batching rule compute these. So each function of indices is called along axes beyond the ends of the
types, mapped once or twice over any of its operands, and differentiated; NumPy says what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import numpy as np

import calor
from calor.dtypes import as_dtype, float32, int64

from ..rows.definitions import written
from .base import Array, Check, Place
from .indexed_functions import FUNCTIONS, Indexed

CONTRACT: Final = "an index of few bits means its place, whatever is computed of it, in transforms"
# The lengths of an axis, for types of 8 and of 16 bits. Long ones are few rows wide.
_LENGTHS: Final = {1: (100, 127, 128, 129, 200, 255, 256, 257, 300, 1000),
                   2: (20_000, 32_767, 32_768, 32_769, 40_000, 65_535, 65_536, 65_537)}  # fmt: skip
# The elements of a batch that a type of 8 bits cannot number, or just can.
_MANY: Final = (127, 128, 129, 255, 256, 257, 300)
_KINDS: Final = {1: ("int8", "uint8"), 2: ("int16", "uint16")}
_BYTES: Final = (1, 1, 2)
_TURNS: Final = 4
Rng = np.random.Generator


class _Level(NamedTuple):
    """A level of mapping: how many, and the axis of each operand there; None where it is shared."""

    size: int
    axes: tuple[int | None, ...]


class _Draw:
    """The operands of one call: a tensor, indices and values, and how they are mapped."""

    def __init__(self, rng: Rng, what: Indexed, nbytes: int, kind: str) -> None:
        self.rng, self.what, self.kind = rng, what, kind
        lengths = _LENGTHS[nbytes] if what.many else _LENGTHS[1][:-1]
        length = int(rng.choice(lengths))
        # A batch of many elements is of small ones.
        many = nbytes == 1 and rng.random() < 0.3
        length = min(length, 300) if many else length
        other = int(rng.integers(2, 150 if nbytes == 1 and not many else 5))
        self.axis = int(rng.integers(2)) if what.axes else 0
        self.shape = (other, length) if self.axis else (length, other)
        self.levels = self._levels(many) if what.static else []
        count = int(rng.integers(2, 6))
        form = {"vector": (count,), "points": (count, 2)}.get(what.form)
        beside = list(self.shape)
        beside[self.axis] = count
        self.indices = self._placed(form or tuple(beside))
        self.x, self.u = self._numbers(self.shape, 0), self._values(count)

    def _levels(self, many: bool) -> list[_Level]:
        made: list[_Level] = []
        for _ in range(1 if many else int(self.rng.choice((0, 1, 1, 2)))):
            axes = [int(self.rng.integers(2)) if self.rng.random() < 0.6 else None for _ in "xiu"]
            if not self.what.values:
                axes[2] = axes[0]
            if all(a is None for a in axes):
                axes[1] = 0
            count = int(self.rng.choice(_MANY)) if many else int(self.rng.integers(2, 4))
            made.append(_Level(count, tuple(axes)))
        return made

    def _mapped(self, shape: tuple[int, ...], operand: int) -> tuple[int, ...]:
        """Return the shape with the axes of all levels, of which the last is the innermost."""
        made = list(shape)
        for level in reversed(self.levels):
            axis = level.axes[operand]
            if axis is not None:
                made.insert(axis, level.size)
        return tuple(made)

    def _numbers(self, shape: tuple[int, ...], operand: int) -> Array:
        drawn = self.rng.integers(-9, 10, self._mapped(shape, operand))
        return np.asarray(drawn, np.float32)

    def _placed(self, inner: tuple[int, ...]) -> Array:
        """Return indices of the inner shape for each element, with mapped axes where they are."""
        axes = [(n, a) for n, (_, a, _) in self.levels if a is not None]
        shape = (*(n for n, _ in axes), *inner)
        sizes = self.shape if self.what.form == "points" else [self.shape[self.axis]]
        drawn = shape[:-1] if self.what.form == "points" else shape
        along = len(axes) + (self.axis if self.what.form == "along" else 0)
        parts = [self._drawn(drawn, size, None if n else along) for n, size in enumerate(sizes)]
        made = np.stack(parts, -1) if self.what.form == "points" else parts[0]
        for n, (_, axis) in reversed([*enumerate(axes)]):
            made = np.moveaxis(made, n, n + axis)
        return made

    def _drawn(self, shape: tuple[int, ...], length: int, along: int | None) -> Array:
        """Return numbers below a length; along an axis they name places apart if they have to."""
        known, rng = np.iinfo(self.kind), self.rng
        low = max(-length, int(known.min)) if self.what.negative else 0
        high = min(length - 1, int(known.max))
        if not self.what.apart or along is None:
            made = rng.integers(low, high, shape, endpoint=True)
            edges = rng.random(shape) < 0.3
            made[edges] = rng.choice((low, high), int(edges.sum()))
            return made
        lanes = tuple(1 if n == along else size for n, size in enumerate(shape))
        apart = rng.permutation(high + 1)[: shape[along]]
        across = [1] * len(shape)
        across[along] = shape[along]
        made = (apart.reshape(across) + rng.integers(0, high + 1, lanes)) % (high + 1)
        below = (rng.random(shape) < 0.5) & (made - length >= low)
        return np.where(below, made - length, made)

    def _values(self, count: int) -> Array:
        if self.what.values == "rows":
            return self._numbers((count, self.shape[1]), 2)
        shape = list(self.shape)
        shape[self.axis] = count
        return self._numbers((count,) if self.what.form == "points" else tuple(shape), 2)

    def meaning(self, x: Array, u: Array) -> Array:
        """Return what NumPy makes of each element of the mapped axes."""
        axis = self.axis

        def inner(levels: list[_Level], operands: list[Array]) -> Array:
            if not levels:
                return np.asarray(self.what.meaning(operands[0], operands[1], operands[2], axis))
            (count, axes), *rest = levels
            parts = [
                inner(rest, [o if a is None else np.take(o, n, a)
                             for o, a in zip(operands, axes, strict=True)])
                for n in range(count)
            ]  # fmt: skip
            return np.stack(parts)

        return inner(self.levels, [x, self.indices, u])

    def function(self) -> Callable[..., Any]:
        """Return the mapped function of tensors."""

        def made(x: Any, i: Any, u: Any) -> Any:
            return self.what.function(x, i, u, self.axis)

        for level in reversed(self.levels):
            made = calor.vmap(made, in_axes=level.axes)
        return made

    @property
    def told(self) -> str:
        levels = "".join(f", mapped {n} times over {axes}" for n, axes in self.levels)
        indices = f"{self.indices.tolist()}"[:300]
        return f"{self.kind} {indices} along axis {self.axis} of {self.shape}{levels}"


def _compare(place: Place, name: str, rng: Rng) -> None:
    what = FUNCTIONS[name]
    nbytes = int(rng.choice(_BYTES)) if what.many else 1
    kinds = [k for k in _KINDS[nbytes] if place.plain.info.dtypes.get(as_dtype(k))]
    if not kinds:
        return
    draw = _Draw(rng, what, nbytes, str(rng.choice(kinds)))
    function, told = draw.function(), f"{name} of {draw.told}"
    x, u = calor.asarray(draw.x), calor.asarray(draw.u)
    i = calor.asarray(draw.indices.astype(draw.kind))
    want = draw.meaning(draw.x, draw.u)
    jitted = calor.jit(function) if what.static and rng.random() < 0.5 else function
    _same(place.call(jitted, x, i, u).numpy(), want, told)
    if what.linear and what.static and rng.random() < 0.7:
        _gradient(draw, function, (x, i, u), want.shape, told)


def _gradient(
    draw: _Draw, function: Any, given: tuple[Any, Any, Any], shape: tuple[int, ...], told: str
) -> None:
    """Compare the slopes along drawn directions: a linear function changes by its own value."""
    x, i, u = given
    weights = np.asarray(draw.rng.integers(-3, 4, shape), np.float32)

    def weighed(x: Any, u: Any) -> Any:
        return calor.sum(function(x, i, u) * calor.asarray(weights))

    slopes = calor.jit(calor.grad(weighed, argnums=(0, 1)))(x, u)
    zeros = np.zeros_like(draw.x), np.zeros_like(draw.u)
    for n, (name, slope) in enumerate(zip(("the tensor", "the values"), slopes, strict=True)):
        if n and not draw.what.values:
            continue
        along = np.asarray(draw.rng.integers(-3, 4, slope.shape), np.float32)
        # Places that are counted from the end are drawn seldom, and so each weighs its own number.
        moved = draw.meaning(*((along, zeros[1]) if n == 0 else (zeros[0], along)))
        want = float(np.sum(moved.astype(np.float64) * weights))
        got = float(np.sum(slope.numpy().astype(np.float64) * along))
        assert got == want, f"the slope of {name} is {got}, not {want}: {told}"


def _same(got: Array, want: Array, told: str) -> None:
    assert got.shape == want.shape, f"{told}: shape {got.shape}, not {want.shape}"
    if not np.array_equal(got, want):
        wrong = np.argwhere(got != want)
        first = tuple(int(n) for n in wrong[0])
        raise AssertionError(
            f"{told}: {len(wrong)} elements differ; at {first} is {got[first]}, not {want[first]}"
        )


def _run(name: str, place: Place) -> None:
    for turn in range(_TURNS):
        if place.tries(turn, _TURNS):
            number = [*FUNCTIONS].index(name)
            _compare(place, name, np.random.default_rng([place.seed, 631, number, turn]))


def narrow_indices() -> Iterator[Check]:
    """Yield a check of each function of indices, of what is installed."""
    for name, what in FUNCTIONS.items():
        if find_spec(what.package) is None:
            continue
        yield Check(
            kind="functions",
            subject=f"narrow-indices-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(_text, name),
            op="gather",
            dtypes=(float32, int64),
            looks=True,
        )


def _text(name: str) -> str:
    return f"{name}\n{written(_Draw)}{written(_compare)}"
