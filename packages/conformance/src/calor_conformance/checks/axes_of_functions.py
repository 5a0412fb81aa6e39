"""Axes of functions: first, middle, last, negative, several, kept or not; all are one meaning.

Every public function with an axis among its parameters is found by its signature, in each package
that has such functions. Its result along any axes is its result along the last one of the tensor
whose axes were moved there, so that the rows which compare a function with NumPy at one axis hold
at every other; the same for gradients, and for calls that are jitted or mapped.
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
from calor import tree
from calor.dtypes import float32

from .base import Array, Check, Place
from .public_functions import public_functions

CONTRACT: Final = "a function along any axes is the function along the last one, with axes moved"
_PACKAGES: Final = ("calor", "calor_numerics", "calor_linalg", "calor_nn.functional", "calor.fft")
_TURNS, _NEAR = 2, 2e-5
Rng = np.random.Generator
# Functions that are no maps of lines of one or two tensors: what they do along an axis is not told
# by moving it, or is not the same twice.
_OTHERS: Final = frozenset((
    "apply_along_axis", "concat", "stack", "index_update", "insert", "scatter_along_axis",
    "lexsort", "packbits", "unpackbits", "expand_dims", "squeeze", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unique_consecutive", "gumbel_softmax", "unfold",
    "array_split", "chunk", "split", "unstack", "gradient", "rot90", "tensordot", "flip", "roll",
    "take_along_axis",
))  # fmt: skip
# What is given for parameters that have no default, by an axis' length.
_GIVEN: Final[dict[str, Callable[[Rng, int], Any]]] = {
    "q": lambda rng, n: (0.25, [0.5, 0.125], [0.75])[int(rng.integers(3))],
    "k": lambda rng, n: int(rng.integers(1, n + 1)), "kth": lambda rng, n: int(rng.integers(n)),
    "repeats": lambda rng, n: int(rng.integers(0, 3)), "indices": lambda rng, n: [n - 1, 0],
    "segment_ids": lambda rng, n: calor.asarray(np.sort(rng.integers(0, 3, n))),
}  # fmt: skip
# Options that change what a function of lines computes, by name of the parameter.
_OPTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "ord": (1, 2, 3, float("inf"), -float("inf"), 0.5), "correction": (0, 1, 0.5),
    "p": (1.0, 2.0, 3.0), "descending": (False, True), "include_initial": (False, True),
    "reverse": (False, True),
    "method": ("linear", "lower", "higher", "nearest", "midpoint"), "num_segments": (3,),
    "largest": (False, True), "norm": ("backward", "ortho", "forward"),
}  # fmt: skip
_DIMENSIONS: Final = {"percentile": 100, "nanpercentile": 100}
_NEEDED: Final = {"num_segments"}


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions that take an axis, once each, by name."""
    for name, function, signature in public_functions(_PACKAGES, _OTHERS):
        if "axis" in signature.parameters:
            yield name, function


class _Call:
    """A function with drawn operands and options, to be called along some axes."""

    def __init__(self, name: str, function: Callable[..., Any], rng: Rng) -> None:
        self.name, self.function = name, function
        parameters = inspect.signature(function).parameters
        needs = [p.name for p in parameters.values() if p.default is p.empty]
        self.pair = "x2" in needs
        self.reduces = "keepdims" in parameters
        # Along two axes a norm is that of matrices.
        self.several = (
            self.reduces and "Axis" in str(parameters["axis"].annotation) and name != "norm"
        )
        rank = int(rng.integers(2, 5))
        side = 3 if name == "cross" else 2 * int(rng.integers(1, 3))
        self.shape = tuple(int(n) for n in rng.choice((1, 2, 3, 4), rank))
        count = int(rng.integers(2, rank + 1)) if self.several and rng.random() < 0.5 else 1
        self.axes = tuple(int(a) for a in rng.permutation(rank)[:count])
        if not self.several:
            self.shape = tuple(side if a in self.axes else n for a, n in enumerate(self.shape))
        self.arrays = [self.numbers(rng) for _ in range(1 + self.pair)]
        length = int(np.prod([self.shape[a] for a in self.axes]))
        self.more: list[Any] = []
        for need in needs[1 + self.pair :]:
            given = _GIVEN[need](rng, length)
            scale = _DIMENSIONS.get(name, 1)
            self.more.append(np.multiply(given, scale).tolist() if scale != 1 else given)
        self.options = {
            p: some[int(rng.integers(len(some)))]
            for p, some in _OPTIONS.items()
            if p in parameters and (rng.random() < 0.6 or p in _NEEDED)
        }

    def numbers(self, rng: Rng) -> Array:
        made = np.asarray(rng.normal(size=self.shape) * 2 + 0.1, np.float32)
        if self.name.startswith("nan") and not self.name.startswith("nanarg"):
            made[rng.random(self.shape) < 0.2] = np.nan
        return made

    def along(self, tensors: list[Any], axis: Any, **more: Any) -> Any:
        return self.function(*tensors, *self.more, axis=axis, **self.options, **more)

    def moved(self, tensors: list[Any]) -> list[Any]:
        """Return tensors whose one last axis is what the drawn axes are."""
        rest = [a for a in range(len(self.shape)) if a not in self.axes]
        turned = [calor.permute_dims(t, (*rest, *sorted(self.axes))) for t in tensors]
        return [calor.reshape(t, (*(self.shape[a] for a in rest), -1)) for t in turned]

    def lines(self, tensors: list[Any]) -> list[Array]:
        """Return the results along the last axis, with their axes where they belong."""
        made = tree.leaves(self.along(self.moved(tensors), -1))
        if self.reduces or made[0].ndim < len(self.shape):
            return [t.numpy() for t in made]
        return [np.moveaxis(t.numpy(), -1, self.axes[0]) for t in made]

    def forms(self, rng: Rng) -> Any:
        """Return the axes as a user may have them."""
        rank = len(self.shape)
        drawn = [a - rank if rng.random() < 0.5 else a for a in self.axes]
        if len(drawn) == 1 and not (self.several and rng.random() < 0.4):
            return drawn[0]
        if len(drawn) == rank and rng.random() < 0.4:
            return None
        return tuple(drawn)

    def kept(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a result's shape with the reduced axes kept; what is before them stays."""
        rest = len(self.shape) - len(self.axes)
        before = shape[: len(shape) - rest]
        return (*before, *(1 if a in self.axes else n for a, n in enumerate(self.shape)))


def _near(got: Any, want: Array, what: str) -> None:
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    found = got.numpy()
    same = np.allclose(found, want, rtol=_NEAR, atol=_NEAR, equal_nan=True)
    assert same, f"{what}: {found.tolist()}, not {want.tolist()}"


def _compare(call: _Call, rng: Rng) -> None:
    tensors, axis = [calor.asarray(a) for a in call.arrays], call.forms(rng)
    wants = call.lines(tensors)
    what = f"{call.name} of {call.shape} along {axis} with {call.more} {call.options}"
    ways: dict[str, Callable[..., Any]] = {"at once": call.along}
    if rng.random() < 0.2:
        ways["jitted"] = lambda ts, at: calor.jit(lambda *t: call.along(list(t), at))(*ts)
    for how, way in ways.items():
        for got, want in zip(tree.leaves(way(tensors, axis)), wants, strict=True):
            _near(got, want, f"{what}, {how}")
    if call.reduces:
        for got, want in zip(tree.leaves(call.along(tensors, axis, keepdims=True)), wants,
                             strict=True):  # fmt: skip
            _near(got, want.reshape(call.kept(want.shape)), f"{what}, kept")
    if wants[0].dtype.kind == "f" and len(wants) == 1 and rng.random() < 0.5:
        _gradient(call, tensors, axis, rng, what)


def _gradient(call: _Call, tensors: list[Any], axis: Any, rng: Rng, what: str) -> None:
    """The gradient along axes is that along the last one."""
    keep = {"keepdims": True} if call.reduces and rng.random() < 0.5 else {}

    def total(made: Any) -> Any:
        return calor.sum(made * made)

    try:
        want = calor.grad(lambda t: total(call.along(call.moved([t, *tensors[1:]]), -1)))(
            tensors[0]
        )
    except calor.errors.CalorError:
        # A function without a gradient.
        return
    got = calor.grad(lambda t: total(call.along([t, *tensors[1:]], axis, **keep)))(tensors[0])
    _near(got, want.numpy(), f"the gradient of {what}")


def _matrix_norms(rng: Rng) -> None:
    """Norms along two axes in any order, beside NumPy's."""
    linalg = import_module("calor_linalg")
    for _ in range(6):
        rank = int(rng.integers(2, 5))
        array = np.asarray(rng.normal(size=rng.integers(1, 4, rank)), np.float32)
        axes = tuple(int(a) for a in rng.permutation(rank)[:2] - rank * rng.integers(0, 2, 2))
        keep = bool(rng.integers(2))
        for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            want = np.linalg.norm(array.astype(np.float64), order, axis=axes, keepdims=keep)
            what = f"norm of {array.shape} along {axes} of order {order}, {keep=}"
            options = {} if order is None else {"ord": order}
            made = linalg.norm(calor.asarray(array), axis=axes, keepdims=keep, **options)
            _near(made, want, what)


def _run(place: Place) -> None:
    if find_spec("calor_linalg") is not None:
        _matrix_norms(np.random.default_rng([place.seed, 172]))
    for number, (name, function) in enumerate(_functions()):
        for turn in range(_TURNS):
            rng = np.random.default_rng([place.seed, 171, number, turn])
            with np.errstate(all="ignore"):
                _compare(_Call(name, function, rng), rng)


def axes_of_functions() -> Iterator[Check]:
    """Yield the check of axes."""
    yield Check(
        kind="functions",
        subject="axes",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Call),
        op="sum",
        dtypes=(float32,),
        looks=True,
    )
