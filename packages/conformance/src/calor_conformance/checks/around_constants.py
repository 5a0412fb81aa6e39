"""Sizes around the constants of the sources: just below, at, and beyond where one way ends.

Whoever writes ``size > 4096`` or a tile of 64 makes two ways of one, and each is wrong at a size of
its own. The numbers that select ways are read from the sources of the core and of what the device
is made of, so new ones are asked for without being named. Sizes of one axis, of two together and of
all elements are drawn at them, along any axis, in views and fused with a step before and after.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64
from calor.ops.base import find

from .base import Array, Check, Place

CONTRACT: Final = "an op is right just below, at and beyond each size at which its ways change"
_TURNS: Final = 9
# What a compiled device compiles anew for each size, it is asked at fewer.
_COMPILED: Final = 6
_ELEMENTS: Final = 1 << 17
_LEAST: Final = 3
# The largest side of a tile, a vector or a block of rows.
_TILE: Final = 128
_WORK: Final = 1 << 22
_NUMBER: Final = r"(\d[\d_]*(?:\s*(?:<<|\*\*|\*)\s*\d[\d_]*)?)"
# Assigned to a name of a constant, compared with, or given to min and max.
_SELECTING: Final = re.compile(
    rf"(?:^_?[A-Z][A-Z0-9_]*(?::[^=\n]*)? = {_NUMBER}$|[<>]=? {_NUMBER}|"
    rf"\b(?:min|max)\({_NUMBER},|\b(?:min|max)\([^()\n]*, {_NUMBER}\))",
    re.MULTILINE,
)
Rng = np.random.Generator
Function = Callable[..., Any]


def _value(text: str) -> int:
    """Return the number that a product, a power or a shift of two numbers is."""
    parts = re.split(r"\s*(<<|\*\*|\*)\s*", text.replace("_", ""))
    if len(parts) == 1:
        return int(parts[0])
    a, b = int(parts[0]), int(parts[2])
    if parts[1] == "*":
        return a * b
    return (a << b if parts[1] == "<<" else a**b) if b < 64 else 0


def numbers_of(text: str) -> set[int]:
    """Return the whole numbers of a source that select between ways.

    Parameters
    ----------
    text : str
        Source of a module.

    Returns
    -------
    set of int
        Numbers of constants by name, of comparisons, and of ``min`` and ``max``.

    Examples
    --------
    >>> from calor_conformance.checks.around_constants import numbers_of
    >>> sorted(numbers_of("_BLOCK = 1 << 7\\nif n > 48: m = min(n, 6)"))
    [6, 48, 128]
    """
    found = {_value(next(filter(None, m.groups()))) for m in _SELECTING.finditer(text)}
    return {n for n in found if n >= _LEAST}


@cache
def constants(packages: tuple[str, ...]) -> tuple[int, ...]:
    """Return the numbers that select between ways in packages, those of a range of sizes."""
    found: set[int] = set()
    for name in packages:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for file in sorted(Path(folder).rglob("*.py")):
                found |= numbers_of(file.read_text("utf-8"))
    return tuple(sorted(n for n in found if n <= _ELEMENTS))


def _packages(place: Place) -> tuple[str, ...]:
    """Return the packages in whose classes the device's backend is written, and the core."""
    made = {kind.__module__.partition(".")[0] for kind in type(place.plain.backend).__mro__}
    return tuple(sorted({"calor", *(m for m in made if m.startswith("calor_"))}))


@dataclass(frozen=True)
class Subject:
    """A program of operands whose shapes have letters; each letter has a size.

    ``limits`` are the largest sizes of letters that make work, and not elements, grow.
    """

    shapes: tuple[str, ...]
    run: Function
    meaning: Function
    bound: float = 0.0
    limits: tuple[tuple[str, int], ...] = ()
    low: int = -4
    op: str = ""


def _boundaries(rng: Rng, numbers: Sequence[int]) -> list[int]:
    """Return small numbers with both neighbours in a drawn order, powers of two more often."""
    small = [n for n in numbers if n <= _TILE]
    # Sides of tiles and vectors are mostly powers of two.
    more = [n for n in small if n & (n - 1) == 0 and n > 4] * 2
    return [int(n) for n in rng.permutation([n + d for n in (*small, *more) for d in (-1, 0, 1)])]


def _spread(rng: Rng, letters: Sequence[str], number: int) -> dict[str, int]:
    """Return sizes of two letters whose product is a number, or beside it."""
    first, second = rng.permutation(list(letters))[:2]
    one = int(rng.choice((1, 2, 3, 7, 16, 33, 64)))
    return {str(first): one, str(second): max(1, number // one + int(rng.integers(-1, 2)))}


def sizes(
    rng: Rng, subject: Subject, numbers: Sequence[int], turns: int
) -> Iterator[dict[str, int]]:
    """Draw sizes of a subject's letters about some numbers.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the sizes.
    subject : Subject
        The program.
    numbers : sequence of int
        The numbers that select between ways.
    turns : int
        How many sizes are drawn.

    Yields
    ------
    dict of str to int
        The size of each letter: beyond all numbers along one letter or two, about a large number,
        and about small numbers in every letter at once.
    """
    letters = sorted({c for shape in subject.shapes for c in shape if c.isalpha()})
    queues = {c: _boundaries(rng, numbers) for c in letters}
    large = [int(n) for n in rng.permutation([n for n in numbers if n > _TILE])]
    for turn in range(turns):
        made = {c: int(rng.choice((1, 2, 3, 5))) for c in letters}
        if turn == 0 or (turn % 3 == 1 and len(letters) > 1):
            number = (_ELEMENTS // 2 + 5, *large)[turn // 3 % (1 + len(large))]
            if turn or len(letters) > 1:
                made.update(_spread(rng, letters, number))
            else:
                made[letters[0]] = number
        elif turn % 3 == 2 or len(letters) == 1:
            made[str(rng.choice(letters))] = large[turn // 3 % len(large)] + int(
                rng.integers(-1, 2)
            )
        else:
            made = {c: queues[c].pop() for c in letters}
        yield _fitted(rng, subject, made)


def _fitted(rng: Rng, subject: Subject, made: dict[str, int]) -> dict[str, int]:
    """Return sizes whose largest are smaller, so that their work is no more than the bound."""
    made = {c: min(n, dict(subject.limits).get(c, n)) for c, n in made.items()}
    while _work(subject, made) > _WORK or any(_count(s, made) > _ELEMENTS for s in subject.shapes):
        worst = max(made, key=lambda c: made[c])
        made[worst] = made[worst] // 2 + 1 if made[worst] > 2 * _TILE else int(rng.integers(1, 6))
    return made


def _shape(text: str, made: dict[str, int]) -> tuple[int, ...]:
    return tuple(made[c] if c.isalpha() else int(c) for c in text)


def _count(text: str, made: dict[str, int]) -> int:
    return math.prod(_shape(text, made))


def _placed(rng: Rng, x: Array) -> tuple[Any, str]:
    """Return a tensor of an array's numbers: whole, turned, or a part of a longer one."""
    form = int(rng.integers(5))
    if form == 1 and x.ndim > 1:
        axes = tuple(int(a) for a in rng.permutation(x.ndim))
        back = np.argsort(axes)
        held = np.ascontiguousarray(x.transpose(axes))
        return calor.permute_dims(calor.asarray(held), tuple(int(a) for a in back)), "turned"
    if form == 2:
        axis = int(rng.integers(x.ndim))
        if x.size > _ELEMENTS // 16:
            # Five more along a short axis would be several times as much.
            axis = int(np.argmax(x.shape))
        start = int(rng.integers(1, 4))
        at = tuple(slice(start, start + n) if a == axis else slice(None)
                   for a, n in enumerate(x.shape))  # fmt: skip
        held = np.zeros([n + 5 if a == axis else n for a, n in enumerate(x.shape)], x.dtype)
        held[at] = x
        return calor.asarray(held)[at], "a part"
    if form == 3:
        return calor.asarray(np.ascontiguousarray(x[::-1]))[::-1], "from the end"
    return calor.asarray(x), "whole"


def _softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def _windows(x: Array, k: int, step: int = 1) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, k, -1)[..., ::step, :]


def _conv(x: Array, w: Array) -> Array:
    return np.asarray(np.einsum("nclk,ock->nol", _windows(x, w.shape[-1]), w))


def _conv2(x: Array, w: Array) -> Array:
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.asarray(np.tensordot(seen, w, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2))


def _convolved(x: Any, w: Any) -> Any:
    ones = (1,) * (x.ndim - 2)
    return find("conv")(x, w, stride=ones, dilation=ones, padding=((0, 0),) * len(ones), groups=1)


def _attended(q: Array, k: Array, v: Array) -> Array:
    return np.asarray(_softmax(q @ k.swapaxes(-1, -2) * 0.25) @ v)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return find("attention")(q, k, v, causal=False, scale=0.25)[0]


def _slope(function: Function, x: Any, y: Any) -> Any:
    """Return the gradients of the sum of squares of a function, joined along one axis."""
    made = calor.grad(lambda a, b: calor.sum(function(a, b) ** 2) / 2, argnums=(0, 1))(x, y)
    return calor.concat([calor.reshape(g, (-1,)) for g in made])


def _product_slope(x: Array, y: Array) -> Array:
    return np.concatenate([(x @ y @ y.T).ravel(), (x.T @ (x @ y)).ravel()])


def _conv_slope(x: Array, w: Array) -> Array:
    y, k = _conv(x, w), w.shape[-1]
    back = np.einsum("nol,nclk->ock", y, _windows(x, k))
    padded = np.pad(y, ((0, 0), (0, 0), (k - 1, k - 1)))
    through = np.einsum("nolk,ock->ncl", _windows(padded, k), w[..., ::-1])
    return np.concatenate([through.ravel(), back.ravel()])


def _counted(x: Array, y: Array) -> Array:
    """Add rows of y to the rows of x at whole numbers made of y."""
    made = x.copy()
    np.add.at(made, (np.abs(y[:, 0]).astype(int) * 7) % len(x), y)
    return made


def _added(x: Any, y: Any) -> Any:
    places = calor.remainder(calor.abs(y[:, :1]).astype(int64) * 7, x.shape[0])
    return find("scatter_nd")(x, places, y, update="add")


def _named(name: str, **options: Any) -> tuple[Function, Function]:
    return partial(getattr(calor, name), **options), partial(getattr(np, name), **options)


def _over(name: str) -> Iterator[tuple[str, Subject]]:
    """Yield subjects of a reduction along each axis of three, and two, kept or not."""
    for axis in (0, 1, 2, *(() if name.startswith("arg") else ((0, 1), (1, 2), (0, 2)))):
        ours, theirs = _named(name, axis=axis, keepdims=axis in (0, (1, 2)))
        told = "".join(map(str, axis)) if isinstance(axis, tuple) else str(axis)
        yield f"{name}-{told}", Subject(("abc",), ours, theirs, op=name)


_STEPS: Final[dict[str, Subject]] = {
    "chain": Subject(("ab", "ab"), lambda x, y: (x * y + 1) - calor.maximum(x, y) * 2,
                     lambda x, y: (x * y + 1) - np.maximum(x, y) * 2, op="mul"),
    "chain-of-rows": Subject(("abc", "b1", "c"), lambda x, y, z: x * y + z - 1,
                             lambda x, y, z: x * y + z - 1, op="mul"),
    "where": Subject(("ab", "ab"), lambda x, y: calor.where(x > y, x, -y),
                     lambda x, y: np.where(x > y, x, -y), op="where"),
    "cast": Subject(("ab",), lambda x: x.astype(int64) * 3, lambda x: x.astype(np.int64) * 3,
                    op="cast"),
    "permute": Subject(("abc",), lambda x: calor.permute_dims(x, (2, 0, 1)) + 1,
                       lambda x: x.transpose(2, 0, 1) + 1, op="permute"),
    "transpose": Subject(("ab",), lambda x: calor.permute_dims(x * 2, (1, 0)),
                         lambda x: x.T * 2, op="permute"),
    "swap": Subject(("abcd",), lambda x: calor.permute_dims(x, (0, 2, 1, 3)),
                    lambda x: x.transpose(0, 2, 1, 3), op="permute"),
    "concat": Subject(("ab", "cb", "ab"), lambda x, y, z: calor.concat([x, y + 1, z], axis=0),
                      lambda x, y, z: np.concatenate([x, y + 1, z], 0), op="concat"),
    "concat-last": Subject(("ab", "ac"), lambda x, y: calor.concat([x, y], axis=1) * 2,
                           lambda x, y: np.concatenate([x, y], 1) * 2, op="concat"),
    "slice": Subject(("ab",), lambda x: x[::2, ::-1] * 2, lambda x: x[::2, ::-1] * 2, op="slice"),
    "pad": Subject(("ab",), lambda x: calor.pad(x, ((1, 2), (0, 3))),
                   lambda x: np.pad(x, ((1, 2), (0, 3))), op="pad"),
    "roll": Subject(("ab",), lambda x: calor.roll(x, 3, axis=1), lambda x: np.roll(x, 3, 1),
                    op="concat"),
    "repeat": Subject(("ab",), lambda x: calor.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)),
                      op="expand"),
    "reduced-chain": Subject(("ab", "ab"), lambda x, y: calor.sum(x * y - x, axis=1) * 2 + 1,
                             lambda x, y: np.sum(x * y - x, 1) * 2 + 1, op="sum"),
    "reduced-first": Subject(("ab", "b"), lambda x, y: calor.sum(x + y, axis=0, keepdims=True),
                             lambda x, y: np.sum(x + y, 0, keepdims=True), op="sum"),
    "all": Subject(("abc",), lambda x: calor.sum(x * 2), lambda x: np.sum(x * 2), op="sum"),
    "less-mean": Subject(("ab",), lambda x: x - calor.sum(x, axis=-1, keepdims=True),
                         lambda x: x - x.sum(-1, keepdims=True), op="sum"),
    "softmax": Subject(("ab",), calor.softmax, _softmax, 1e-5, op="softmax"),
    "softmax-first": Subject(("abc",), lambda x: calor.softmax(x, axis=0),
                             lambda x: _softmax(x, 0), 1e-5, op="softmax"),
    "running": Subject(("ab",), lambda x: calor.cumulative_sum(x, axis=1) + 1,
                       lambda x: np.cumsum(x, 1) + 1, op="cumsum"),
    "running-first": Subject(("abc",), lambda x: calor.cumulative_sum(x, axis=0),
                             lambda x: np.cumsum(x, 0), op="cumsum"),
    "running-back": Subject(("abc",), lambda x: find("cumsum")(x, axis=1, reverse=True),
                            lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1], op="cumsum"),
    "running-max": Subject(("ab",), lambda x: find("cummax")(x, axis=1, reverse=False),
                           lambda x: np.maximum.accumulate(x, 1), op="cummax"),
    "sort": Subject(("ab",), lambda x: calor.sort(x, axis=1), lambda x: np.sort(x, 1),
                    low=-5000, op="sort"),
    "sort-first": Subject(("ab",), lambda x: calor.sort(x, axis=0, descending=True),
                          lambda x: np.sort(x, 0)[::-1], low=-5000, op="sort"),
    "order": Subject(("ab",), lambda x: calor.argsort(x, axis=1),
                     lambda x: np.argsort(x, 1, kind="stable"), op="sort"),
    "front": Subject(("ab",), lambda x: calor.sort(x, axis=1)[:, :5],
                     lambda x: np.sort(x, 1)[:, :5], low=-5000, op="sort"),
    "take": Subject(("ab", "c"), lambda x, i: calor.take(
                        x, calor.remainder(calor.abs(i).astype(int64), x.shape[0]), axis=0),
                    lambda x, i: x[np.abs(i).astype(int) % len(x)], low=-9999, op="gather"),
    "added": Subject(("ab", "cb"), _added, _counted, op="scatter_nd"),
    "matmul": Subject(("ab", "bc"), lambda x, y: x @ y, np.matmul, op="dot_general",
                      limits=(("a", 4096), ("c", 4096))),
    "matmul-turned": Subject(("ba", "cb"), lambda x, y: x.T @ y.T + 1,
                             lambda x, y: x.T @ y.T + 1, op="dot_general",
                             limits=(("a", 4096), ("c", 4096))),
    "matmul-batched": Subject(("dab", "dbc"), lambda x, y: x @ y, np.matmul, op="dot_general",
                              limits=(("a", 1024), ("c", 1024), ("d", 1024))),
    "matmul-fused": Subject(("ab", "bc", "c"), lambda x, y, z: calor.maximum(x @ y + z, 0),
                            lambda x, y, z: np.maximum(x @ y + z, 0), op="dot_general",
                            limits=(("a", 4096), ("c", 4096))),
    "matrix-vector": Subject(("ab", "b"), lambda x, y: x @ y, np.matmul, op="dot_general"),
    "matmul-slope": Subject(("ab", "bc"), partial(_slope, calor.matmul), _product_slope,
                        op="dot_general",
                        limits=(("a", 64), ("b", 64), ("c", 64)), low=-2),
    "conv": Subject(("abc", "db5"),
                    lambda x, w: _convolved(calor.concat([x, x[..., :1]] * 4, 2), w),
                    lambda x, w: _conv(np.concatenate([x, x[..., :1]] * 4, 2), w), op="conv",
                    limits=(("a", 66), ("b", 130), ("d", 260), ("c", 8200)), low=-2),
    "conv-2d": Subject(("abcd", "eb23"), lambda x, w: _convolved(calor.pad(
                           x, ((0, 0), (0, 0), (1, 1), (1, 2))), w),
                       lambda x, w: _conv2(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 2))), w),
                       op="conv", limits=(("a", 33), ("b", 65), ("e", 130), ("c", 130),
                                          ("d", 260)), low=-2),
    "conv-slope": Subject(("abc", "db2"), lambda x, w: _slope(
                              _convolved, calor.concat([x, x], 2), w),
                          lambda x, w: _conv_slope(np.concatenate([x, x], 2), w), op="conv",
                          limits=(("a", 33), ("b", 33), ("d", 33), ("c", 65)), low=-1),
    "windows": Subject(("ab",), lambda x: find("window_reduce")(
                           calor.concat([x, x, x], 1), kind="max", window=(3,), padding=((0, 0),),
                           stride=(1,), dilation=(1,)),
                       lambda x: _windows(np.concatenate([x, x, x], 1), 3).max(-1),
                       op="window_reduce"),
    "window-sums": Subject(("ab",), lambda x: find("window_reduce")(
                               calor.concat([x, x, x], 1), kind="sum", window=(3,),
                               padding=((0, 0),), stride=(2,), dilation=(1,)),
                           lambda x: _windows(np.concatenate([x, x, x], 1), 3, 2).sum(-1),
                           op="window_reduce"),
    "attention": Subject(("abcd", "abed", "abef"), _attention, _attended, 2e-5, op="attention",
                         limits=(("a", 9), ("b", 9), ("c", 520), ("e", 520), ("d", 130),
                                 ("f", 130)), low=-1),
    **dict(_over("sum")), **dict(_over("max")), **dict(_over("argmax")), **dict(_over("prod")),
    "fft": Subject(("ab",), calor.fft.fft, np.fft.fft, 1e-5, limits=(("b", 5000),), op="fft"),
}  # fmt: skip


def _work(subject: Subject, made: dict[str, int]) -> int:
    """Return an estimate of how much a program computes: all letters together, of what grows so."""
    if subject.limits:
        return math.prod(made.values())
    return max(_count(s, made) for s in subject.shapes)


def _compare(got: Array, want: Array, bound: float, what: str) -> None:
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    room = bound * np.max(np.abs(want), initial=1.0)
    wrong = ~(np.abs(got - want) <= room)
    if wrong.any():
        at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise AssertionError(
            f"{what}: {got[at]} at {tuple(map(int, at))}, not {want[at]}; "
            f"{np.count_nonzero(wrong)} of {wrong.size} are off"
        )


def _run(name: str, place: Place) -> None:
    subject, numbers = _STEPS[name], constants(_packages(place))
    rng = np.random.default_rng([place.seed, crc32(name.encode()), 211])
    turns = _TURNS if place.interpreted else _COMPILED
    for made in sizes(rng, subject, numbers, turns):
        high = 1 - subject.low
        arrays = [rng.integers(subject.low, high, _shape(s, made)) for s in subject.shapes]
        if name.startswith("prod"):
            arrays = [np.where(a < 0, -1, 1) for a in arrays]
        given = [_placed(rng, a.astype(np.float32)) for a in arrays]
        exact = [a.astype(np.float64) for a in arrays]
        got = place.call(subject.run, *(t for t, _ in given)).numpy()
        told = ", ".join(f"{list(t.shape)} {how}" for t, how in given)
        _compare(got, np.asarray(subject.meaning(*exact)), subject.bound, f"{name} of {told}")


def around_constants() -> Iterator[Check]:
    """Yield a check of each program at sizes around the constants of the sources."""
    for name, subject in _STEPS.items():
        yield Check(
            kind="sizes",
            subject=f"around-constants-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, sizes),
            op=subject.op,
            dtype=float32,
            dtypes=(float32, int64, bool_),
            # Operands with another place, and what a program makes of them without joined ops.
            nbytes=10 * 4 * _ELEMENTS,
        )
