"""Nested sequences of numbers, arrays and tensors: ``calor.asarray`` joins them, as NumPy does.

Parts are drawn: rows of numbers, arrays of NumPy and tensors of any dtype, tensors that take
gradients, and those of a trace or of a map. NumPy says what the numbers are; arrays and tensors
decide the dtype as in an operation; gradients arrive at each tensor as often as it is there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor import dtypes
from calor.dtypes import float32, float64, int8, int32, int64
from calor.errors import CalorError

from .base import Array, Check, Place

CONTRACT: Final = "a nested sequence becomes the tensor of its numbers, and keeps their gradients"
_TURNS: Final = 20
Rng = np.random.Generator
_DTYPES: Final = (float32, int32, int8, int64, float64)


class _Drawn:
    """A nested list of one shape, and what NumPy makes of it."""

    def __init__(self, rng: Rng, floats: bool) -> None:
        self.rng, self.floats = rng, floats
        self.shape = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(1, 4))))
        self.tensors: list[Array] = []
        self.counts: list[float] = []
        self.strong: list[Any] = []
        self.deciding = False
        self.form = self._form(self.shape)

    def _form(self, shape: tuple[int, ...]) -> Any:
        """Return a nested list; the number of a tensor stands for it as a text."""
        draw = self.rng.random()
        leaf = len(shape) < len(self.shape)
        if leaf and draw < 0.3:
            dtype = float32 if self.floats else _DTYPES[int(self.rng.integers(len(_DTYPES)))]
            self.tensors.append(self.rng.integers(-9, 9, shape).astype(dtype.numpy))
            self.strong.append(dtype)
            return f"t{len(self.tensors) - 1}"
        if leaf and draw < 0.45:
            dtype = _DTYPES[int(self.rng.integers(1 if self.floats else len(_DTYPES)))]
            self.strong.append(dtype)
            return self.rng.integers(-9, 9, shape).astype(dtype.numpy)
        if not shape:
            number = self.rng.integers(-9, 9)
            return float(number) + 0.5 if self.rng.random() < 0.3 else int(number)
        parts = [self._form(shape[1:]) for _ in range(shape[0])]
        return tuple(parts) if self.rng.random() < 0.3 else parts

    def given(self, tensors: Any, form: Any = None) -> Any:
        """Return the sequence with these tensors."""
        form = self.form if form is None else form
        if isinstance(form, str):
            return tensors[int(form[1:])]
        if isinstance(form, list | tuple):
            return type(form)(self.given(tensors, part) for part in form)
        return form

    def dtype(self) -> Any:
        """Return the dtype that the parts decide together."""
        numbers = [n for n in _numbers(self.form) if not isinstance(n, str)]
        made = self.strong[0]
        for one in self.strong:
            made = dtypes.promote(made, one)
        real = any(isinstance(n, float) for n in numbers)
        return float32 if real and not made.is_floating else made


def _numbers(form: Any) -> Iterator[Any]:
    if isinstance(form, list | tuple):
        for part in form:
            yield from _numbers(part)
    elif not isinstance(form, np.ndarray):
        yield form


def _draws(place: Place, number: int, floats: bool) -> Iterator[tuple[_Drawn, str]]:
    for turn in range(_TURNS):
        drawn = _Drawn(np.random.default_rng([place.seed, 733, number, turn]), floats)
        if drawn.tensors:
            yield drawn, f"asarray({drawn.form!r}) with {[t.tolist() for t in drawn.tensors]}"


def _same(got: Any, want: Array, told: str) -> None:
    made = got.numpy()
    assert made.shape == want.shape, f"{told}: shape {made.shape}, not {want.shape}"
    assert np.array_equal(made, want), f"{told}: {made.tolist()}, not {want.tolist()}"


def _wanted(drawn: _Drawn) -> Array:
    return np.array(_listed(drawn.given(drawn.tensors)), np.float64)


def _listed(form: Any) -> Any:
    return (
        [_listed(p) for p in form] if isinstance(form, list | tuple) else np.asarray(form).tolist()
    )


def _values(place: Place) -> None:
    """Numbers, shape and dtype of sequences of all dtypes; a given dtype wins."""
    for drawn, told in _draws(place, 0, False):
        tensors = [calor.asarray(t) for t in drawn.tensors]
        want = _wanted(drawn)
        made = calor.asarray(drawn.given(tensors))
        assert made.dtype is drawn.dtype(), f"{told}: {made.dtype}, not {drawn.dtype()}"
        _same(made, want.astype(made.dtype.numpy), told)
        asked = calor.asarray(drawn.given(tensors), dtype=float64)
        assert asked.dtype is float64, f"{told}, dtype=float64: {asked.dtype}"
        _same(asked, want, told)
        traced = calor.jit(lambda *ts, drawn=drawn: calor.asarray(drawn.given(ts)) * 1)(*tensors)
        _same(traced, want.astype(made.dtype.numpy), f"jitted, {told}")


def _gradients(place: Place) -> None:
    """Gradients of what a sequence holds, plainly, in a trace and in a map."""
    for drawn, told in _draws(place, 1, True):
        tensors = [calor.asarray(t) for t in drawn.tensors]
        weights = drawn.rng.integers(1, 9, drawn.shape).astype(np.float32)
        want = [np.zeros(t.shape, np.float32) for t in drawn.tensors]
        _weigh(drawn.form, weights, want)

        def loss(*ts: Any, drawn: _Drawn = drawn, weights: Array = weights) -> Any:
            return calor.sum(calor.asarray(drawn.given(ts)) * calor.asarray(weights))

        numbers = tuple(range(len(tensors)))
        for how, function in (
            ("", calor.grad(loss, numbers)),
            ("jitted ", calor.jit(calor.grad(loss, numbers))),
        ):
            for got, slope in zip(function(*tensors), want, strict=True):
                _same(got, slope, f"the {how}gradient of {told}")
        mapped = calor.vmap(lambda *ts, drawn=drawn: calor.asarray(drawn.given(ts)))
        twice = mapped(*(calor.stack([t, t * 2]) for t in tensors)).numpy()
        _same(calor.asarray(twice[0]), _wanted(drawn), f"mapped, {told}")
        doubled = drawn.given([t * 2 for t in drawn.tensors])
        _same(calor.asarray(twice[1]), np.array(_listed(doubled), np.float64), f"mapped, {told}")


def _weigh(form: Any, weights: Any, into: list[Array]) -> None:
    if isinstance(form, str):
        into[int(form[1:])] += weights
    elif isinstance(form, list | tuple):
        for part, rows in zip(form, weights, strict=True):
            _weigh(part, rows, into)


def _refusals(place: Place) -> None:
    """Parts of two shapes and what is no number are refused, with a tensor beside them."""
    x = calor.asarray([1.0, 2.0])
    wrong: dict[str, Any] = {
        "shorter numbers": [x, [1.0]], "a longer array": [np.ones(3), x], "a number": [x, 1.0],
        "a deeper list": [x, [[1.0, 2.0]]], "a text": [x, "ab"], "None": [x, None],
        "an object": [x, object()],
    }  # fmt: skip
    for name, parts in wrong.items():
        for how, function in (("", calor.asarray), ("jitted, ", None)):
            try:
                if function is None:
                    calor.jit(lambda t, parts=parts: calor.asarray([t, *parts]) * 1)(x)
                else:
                    function(parts)
            except (CalorError, ValueError, TypeError):
                continue
            raise AssertionError(f"{how}asarray takes a tensor beside {name}")


_FORMS: Final[dict[str, Callable[[Place], None]]] = {
    "values": _values, "gradients": _gradients, "refusals": _refusals,
}  # fmt: skip


def nested_sequences() -> Iterator[Check]:
    """Yield a check of values, one of gradients and one of refusals."""
    for name, form in _FORMS.items():
        yield Check(
            kind="functions",
            subject=f"nested-sequences-{name}",
            tier="training",
            contract=CONTRACT,
            run=form,
            text=partial(inspect.getsource, form),
            op="concat",
            dtypes=_DTYPES if name == "values" else (float32,),
            looks=True,
        )
