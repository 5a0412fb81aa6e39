"""Operands of any shapes that broadcast: a function of them is the function of them made whole.

Every public function of two or more operands is found by its signature. Where it takes operands of
one shape, it is also given some whose axes are missing, of one element or numbers of Python, along
the axis that it sums or takes the norm of as along any other. What it gives, and the gradient of
each operand, are those of operands that were expanded before; or the shapes are refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor import tree
from calor.dtypes import float32, int32
from calor.errors import CalorError

from .base import Array, Check, Place
from .public_functions import public_functions

CONTRACT: Final = "operands that broadcast give what they give when they are expanded before"
_PACKAGES: Final = ("calor", "calor_numerics", "calor_linalg", "calor_nn.functional",
                    "calor_special")  # fmt: skip
_TURNS, _NEAR = {False: 1, True: 8}, 2e-5
Rng = np.random.Generator
# Functions whose operands have axes of their own: an axis more is another meaning.
_OTHERS: Final = frozenset((
    "array_equal", "attention_weights", "bilinear", "bincount", "cdist", "cholesky_solve", "choose",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "convolve", "correlate", "cov", "cross", "ctc_loss", "deform_conv2d", "diagonal_scatter",
    "digitize", "dot", "embedding", "embedding_bag", "fill_diagonal", "gather_nd", "grid_sample",
    "histogram", "histogram_bin_edges", "histogramdd", "householder_product", "index_update",
    "inner", "interp", "isin", "kron", "linear", "lstsq", "masked_scatter", "matmul", "matrix_rank",
    "matvec", "multi_margin_loss", "multilabel_margin_loss", "nll_loss", "ormqr", "outer", "pinv",
    "polyadd", "polymul", "polysub", "polyval", "prelu", "put", "scaled_dot_product_attention",
    "scatter_along_axis", "scatter_nd", "searchsorted", "segment_max", "segment_mean",
    "segment_min", "segment_prod", "segment_sum", "select", "solve", "solve_triangular", "take",
    "take_along_axis", "tensorsolve", "vecmat",
))  # fmt: skip
_PLAIN: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _functions() -> Iterator[tuple[str, Callable[..., Any], int]]:
    """Yield the functions of several operands, once each: name, function, number of operands."""
    for name, function, signature in public_functions(_PACKAGES, _OTHERS):
        every = signature.parameters.values()
        needs = [p for p in every if p.default is p.empty and p.kind in _PLAIN]
        if len(needs) > 1 and all(_is_operand(p) for p in needs):
            yield name, function, len(needs)


def _is_operand(parameter: inspect.Parameter) -> bool:
    return str(parameter.annotation).strip("'\"") in ("Operand", "Operand | None")


def _shapes(rng: Rng, count: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return a shape, and some that broadcast to it together."""
    whole = tuple(int(n) for n in rng.integers(2, 5, int(rng.integers(1, 4))))
    made = []
    for _ in range(count):
        kept = tuple(1 if rng.random() < 0.35 else n for n in whole)
        made.append(kept[int(rng.integers(len(whole) + 1)) :] if rng.random() < 0.4 else kept)
    made[int(rng.integers(count))] = whole
    return whole, made


class _Call:
    """A function with drawn operands and an axis, if it has one."""

    def __init__(self, name: str, function: Callable[..., Any], count: int, rng: Rng) -> None:
        self.name, self.function = name, function
        self.whole, self.shapes = _shapes(rng, count)
        self.arrays = [np.asarray(rng.uniform(0.1, 0.9, s), np.float32) for s in self.shapes]
        parameters, rank = inspect.signature(function).parameters, len(self.whole)
        self.options: dict[str, Any] = {}
        if "axis" in parameters and (rank < 2 or rng.random() < 0.8):
            self.options["axis"] = int(rng.integers(-rank, rank))
        if "keepdims" in parameters:
            self.options["keepdims"] = bool(rng.integers(2))

    def __call__(self, *tensors: Any) -> Any:
        return self.function(*tensors, **self.options)

    def expanded(self, *tensors: Any) -> Any:
        return self(*(calor.broadcast_to(t, self.whole) for t in tensors))


def _leaves(made: Any) -> list[Array]:
    return [np.asarray(t.numpy() if hasattr(t, "numpy") else t) for t in tree.leaves(made)]


def _near(found: Any, wants: list[Array], what: str) -> None:
    for got, want in zip(_leaves(found), wants, strict=True):
        assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
        assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
        same = np.allclose(got, want, rtol=_NEAR, atol=_NEAR, equal_nan=True)
        assert same, f"{what}: {got.tolist()}, not {want.tolist()}"


def _compare(call: _Call, rng: Rng) -> bool:
    """Compare a call with the one of expanded operands; return whether it takes both."""
    tensors = [calor.asarray(a) for a in call.arrays]
    try:
        wants = _leaves(call.expanded(*tensors))
    except CalorError:
        # Other operands are what it takes: whole numbers, or whole ones where they are drawn.
        tensors = [calor.asarray(np.asarray(a * 9, np.int32)) for a in call.arrays]
        try:
            wants = _leaves(call.expanded(*tensors))
        except CalorError:
            return False
    what = f"{call.name} of {call.shapes} with {call.options}"
    try:
        made = call(*tensors)
    except CalorError:
        return False
    _near(made, wants, what)
    if tensors[0].dtype is float32 and any(w.dtype.kind == "f" for w in wants):
        if rng.random() < 0.08:
            _near(calor.jit(call)(*tensors), wants, f"{what}, jitted")
        _numbers(call, tensors, wants, what)
        if len(wants) == 1 and rng.random() < 0.3:
            _gradients(call, tensors, what)
    return True


def _numbers(call: _Call, tensors: list[Any], wants: list[Array], what: str) -> None:
    """Numbers of Python stand for operands of no axis."""
    given = [a.item() if not a.shape else t for a, t in zip(call.arrays, tensors, strict=True)]
    if any(g is not t for g, t in zip(given, tensors, strict=True)):
        try:
            made = call(*given)
        except (CalorError, TypeError, AttributeError):
            return
        _near(made, wants, f"{what}, numbers of Python")


def _gradients(call: _Call, tensors: list[Any], what: str) -> None:
    places = tuple(range(len(tensors)))

    def slopes(function: Callable[..., Any]) -> Any:
        def total(*given: Any) -> Any:
            made = function(*given)
            return calor.sum(made * made)

        return calor.grad(total, argnums=places)(*tensors)

    try:
        wants = _leaves(slopes(call.expanded))
    except CalorError:
        # A function without a gradient.
        return
    _near(slopes(call), wants, f"the gradient of {what}")


def _run(place: Place) -> None:
    asked, taken = set(), set()
    for number, (name, function, count) in enumerate(_functions()):
        along = "axis" in inspect.signature(function).parameters
        if not along and not place.tries(number, 6):
            continue
        asked.add(name)
        for turn in range(_TURNS[along]):
            rng = np.random.default_rng([place.seed, 181, number, turn])
            with np.errstate(all="ignore"):
                if _compare(_Call(name, function, count, rng), rng):
                    taken.add(name)
    missing = ({"add", "maximum", "where", "hypot"} & asked) - taken
    assert not missing, f"{sorted(missing)} refuse operands that broadcast"


def broadcast_operands() -> Iterator[Check]:
    """Yield the check of operands that broadcast."""
    yield Check(
        kind="functions",
        subject="broadcast-operands",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Call),
        op="expand",
        dtypes=(float32, int32),
        looks=True,
    )
