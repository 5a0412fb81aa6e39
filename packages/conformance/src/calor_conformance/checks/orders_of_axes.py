"""Axes in any order: functions that take several are called with permutations, from either end.

A function that pairs axes, moves them or solves along them means them in the order in which they
are named, and which order that is only a list that does not ascend tells. Orders, signs and shapes
are drawn; NumPy says what they mean, and what is linear has the gradient of its meaning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.errors import ShapeError

from .base import Array, Check, Place
from .errors import raised

CONTRACT: Final = "axes mean what they do in NumPy, in the order in which they are named"
_TURNS, _NEAR = 5, 5e-4
Rng = np.random.Generator
Shape = tuple[int, ...]
# Functions of calor's tensor and of NumPy's array that are linear in it, and its shape.
Pair = tuple[Callable[[Any], Any], Callable[[Array], Any], Shape]


def _shape(rng: Rng, least: int = 2) -> Shape:
    return tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(least, 5))))


def _axes(rng: Rng, rank: int, count: int) -> Shape:
    """Return different axes in any order, each from either end."""
    return tuple(int(a) - rank * int(rng.integers(2)) for a in rng.permutation(rank)[:count])


def _some(rng: Rng, rank: int, least: int = 1) -> Shape:
    return _axes(rng, rank, int(rng.integers(least, rank + 1)))


def _permute(rng: Rng) -> Pair:
    shape = _shape(rng)
    axes = _axes(rng, len(shape), len(shape))
    function = (calor.permute_dims, calor.transpose)[int(rng.integers(2))]
    return lambda t: function(t, axes), lambda a: np.transpose(a, axes), shape


def _moved(rng: Rng) -> Pair:
    shape = _shape(rng)
    count = int(rng.integers(1, len(shape) + 1))
    source, target = _axes(rng, len(shape), count), _axes(rng, len(shape), count)
    return (lambda t: calor.moveaxis(t, source, target),
            lambda a: np.moveaxis(a, source, target), shape)  # fmt: skip


def _product(rng: Rng) -> Pair:
    shape = _shape(rng)
    first = _some(rng, len(shape))
    sizes = [shape[a] for a in first]
    # The axes that are summed stand anywhere in the other, in another order.
    rest = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
    rank = len(sizes) + len(rest)
    second = _axes(rng, rank, len(sizes))
    other = [0] * rank
    for axis, n in zip(second, sizes, strict=True):
        other[axis] = n
    left = iter(rest)
    weights = np.asarray(rng.normal(size=[n or next(left) for n in other]), np.float32)
    return (lambda t: calor.tensordot(t, calor.asarray(weights), axes=(first, second)),
            lambda a: np.tensordot(a, weights, axes=(first, second)), shape)  # fmt: skip


def _solution(rng: Rng) -> Pair:
    linalg = import_module("calor_linalg")
    lead = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(1, 4))))
    size = int(np.prod(lead))
    matrix = np.asarray(rng.normal(size=(size, size)) + 5 * np.eye(size), np.float32)
    whole = matrix.reshape(*lead, *lead)
    axes = _axes(rng, 2 * len(lead), int(rng.integers(1, len(lead) + 1)))
    # NumPy takes one axis after the other to the end: places are found that come out at the end.
    order = [a for a in range(2 * len(lead)) if a not in {b % (2 * len(lead)) for b in axes}]
    order += [b % (2 * len(lead)) for b in axes]
    given = np.transpose(whole, np.argsort(order))
    named = tuple(a % given.ndim for a in axes) if rng.random() < 0.5 else axes
    plain = tuple(a % given.ndim for a in axes)
    return (lambda t: linalg.tensorsolve(calor.asarray(given), t, axes=named),
            lambda a: np.linalg.tensorsolve(given.astype(float), a, axes=plain),
            lead)  # fmt: skip


def _turned(rng: Rng) -> Pair:
    shape = _shape(rng)
    (first, second), k = _axes(rng, len(shape), 2), int(rng.integers(-3, 5))
    return (lambda t: calor.rot90(t, k, axes=(first, second)),
            lambda a: np.rot90(a, k, axes=(first, second)), shape)  # fmt: skip


def _flipped(rng: Rng) -> Pair:
    shape = _shape(rng)
    axes = _some(rng, len(shape))
    return lambda t: calor.flip(t, axis=axes), lambda a: np.flip(a, axes), shape


def _rolled(rng: Rng) -> Pair:
    shape = _shape(rng)
    # An axis may be named twice.
    axes = tuple(int(a) for a in rng.integers(-len(shape), len(shape), int(rng.integers(1, 4))))
    shifts = tuple(int(n) for n in rng.integers(-5, 6, len(axes)))
    return lambda t: calor.roll(t, shifts, axis=axes), lambda a: np.roll(a, shifts, axes), shape


def _without(rng: Rng) -> Pair:
    shape = list(_shape(rng))
    axes = _some(rng, len(shape))
    for axis in axes:
        shape[axis] = 1
    return lambda t: calor.squeeze(t, axes), lambda a: np.squeeze(a, axes), tuple(shape)


def _with(rng: Rng) -> Pair:
    shape = _shape(rng, 1)
    count = int(rng.integers(1, 4))
    axes = _axes(rng, len(shape) + count, count)
    return (lambda t: calor.expand_dims(t, axis=axes), lambda a: np.expand_dims(a, axes),
            shape)  # fmt: skip


def _diagonal(rng: Rng) -> Pair:
    shape = _shape(rng)
    (first, second), offset = _axes(rng, len(shape), 2), int(rng.integers(-2, 3))
    return (lambda t: calor.diagonal(t, offset=offset, axis1=first, axis2=second),
            lambda a: np.diagonal(a, offset, first, second), shape)  # fmt: skip


def _embedded(rng: Rng) -> Pair:
    shape = _shape(rng, 1)
    (first, second), offset = _axes(rng, len(shape) + 1, 2), int(rng.integers(-2, 3))

    def meaning(a: Array) -> Array:
        side = a.shape[-1] + abs(offset)
        made = np.zeros((*a.shape[:-1], side, side), a.dtype)
        rows = np.arange(a.shape[-1])
        made[..., rows + max(-offset, 0), rows + max(offset, 0)] = a
        return np.moveaxis(made, (-2, -1), (first, second))

    return (lambda t: calor.diag_embed(t, offset=offset, axis1=first, axis2=second), meaning,
            shape)  # fmt: skip


def _swapped(rng: Rng) -> Pair:
    shape = _shape(rng)
    first, second = _axes(rng, len(shape), 2)
    return (lambda t: calor.swapaxes(t, first, second), lambda a: np.swapaxes(a, first, second),
            shape)  # fmt: skip


def _spectrum(rng: Rng) -> Pair:
    """Fourier transforms of several axes; of real ones the last that is named is halved."""
    shape = tuple(n + 1 for n in _shape(rng))
    axes = _some(rng, len(shape))
    sizes = tuple(int(n) for n in rng.integers(2, 6, len(axes))) if rng.random() < 0.5 else None
    name = str(rng.choice(["fftn", "ifftn", "rfftn", "fftshift", "ifftshift"]))
    if name.endswith("shift"):
        return (lambda t: getattr(calor.fft, name)(t, axes=axes),
                lambda a: getattr(np.fft, name)(a, axes=axes), shape)  # fmt: skip
    norm = str(rng.choice(["backward", "ortho", "forward"]))

    def both(made: Any) -> Any:
        package = np if isinstance(made, np.ndarray) else calor
        return package.real(made) + 2 * package.imag(made)

    return (lambda t: both(getattr(calor.fft, name)(t, s=sizes, axes=axes, norm=norm)),
            lambda a: both(getattr(np.fft, name)(a, s=sizes, axes=axes, norm=norm)),
            shape)  # fmt: skip


_FUNCTIONS: Final[dict[str, tuple[str, Callable[[Rng], Pair]]]] = {
    "moveaxis": ("", _moved), "tensordot": ("", _product),
    "tensorsolve": ("calor_linalg", _solution), "rot90": ("", _turned), "flip": ("", _flipped),
    "roll": ("", _rolled), "squeeze": ("", _without), "expand_dims": ("", _with),
    "diagonal": ("", _diagonal), "diag_embed": ("", _embedded), "swapaxes": ("", _swapped),
    "fft": ("", _spectrum), "permute_dims": ("", _permute),
}  # fmt: skip


def _one(name: str, pair: Pair, rng: Rng) -> None:
    function, meaning, shape = pair
    array = np.asarray(rng.normal(size=shape), np.float32)
    held = inspect.getclosurevars(function).nonlocals
    plain = {k: v for k, v in held.items() if isinstance(v, int | str | tuple)}
    what = f"{name} of {shape} with {plain}"
    x, want = calor.asarray(array), np.asarray(meaning(array.astype(np.float64)))
    ways = {"at once": function}
    if rng.random() < 0.25:
        ways["jitted"] = calor.jit(function)
    for how, way in ways.items():
        got = way(x).numpy()
        assert got.shape == want.shape, f"{what}, {how}: shape {got.shape}, not {want.shape}"
        same = np.allclose(got, want, rtol=_NEAR, atol=_NEAR)
        assert same, f"{what}, {how}: {got.tolist()}, not {want.tolist()}"
    if rng.random() < 0.5:
        # What is linear gives with one array what its gradient gives with another.
        cotangent = np.asarray(rng.normal(size=want.shape), np.float32)
        slope = calor.grad(lambda t: calor.sum(function(t) * calor.asarray(cotangent)))(x).numpy()
        got, there = np.sum(slope * array), np.sum(want * cotangent)
        near = np.isclose(got, there, rtol=1e-3, atol=1e-3 * max(want.size, 1))
        assert near, f"the gradient of {what}: {slope.tolist()}"


def _refused() -> None:
    """An axis that is named twice is refused where the axes of a result hang on it."""
    x = calor.zeros((2, 3, 2))
    twice: list[Callable[[], Any]] = [
        lambda: calor.permute_dims(x, (0, 1, -3)), lambda: calor.moveaxis(x, (0, 0), (1, 2)),
        lambda: calor.rot90(x, axes=(0, -3)), lambda: calor.flip(x, axis=(1, -2)),
        lambda: calor.diagonal(x, axis1=0, axis2=-3),
    ]  # fmt: skip
    for work in twice:
        error = raised(work)
        source = inspect.getsource(work).strip()
        assert isinstance(error, ShapeError | ValueError), f"{error!r}: {source}"


def _run(place: Place) -> None:
    for number, (name, (package, draw)) in enumerate(_FUNCTIONS.items()):
        if package and find_spec(package) is None:
            continue
        for turn in range(_TURNS):
            rng = np.random.default_rng([place.seed, 183, number, turn])
            _one(name, draw(rng), rng)
    _refused()


def orders_of_axes() -> Iterator[Check]:
    """Yield the check of the orders of axes."""
    yield Check(
        kind="functions",
        subject="orders-of-axes",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _one),
        op="permute",
        dtypes=(float32,),
        looks=True,
    )
