"""Arguments as tensors, and results beside those of NumPy in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

import calor

from ..judging import numpy_of, put
from ..language import Array

NEAR: Final = 2e-5
_UNIT: Final = float(np.finfo(np.float32).eps)


class Call:
    """The text of a call, which is made when something is told of it.

    Parameters
    ----------
    name : str
        What is called.
    given : sequence
        The arguments.
    options : dict
        Those that are given by name.
    more : str, optional
        What else is told.
    """

    def __init__(
        self, name: str, given: Sequence[Any], options: dict[str, Any], more: str = ""
    ) -> None:
        self.name, self.given, self.options, self.more = name, given, options, more

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.given))}, {self.options}){self.more}"


def tensors(given: Any) -> Any:
    """Return arguments with arrays, also those of a list or an index, made tensors."""
    if isinstance(given, list | tuple):
        return type(given)(tensors(one) for one in given)
    return put([given])[0] if isinstance(given, np.ndarray) else given


@contextmanager
def quiet() -> Iterator[None]:
    """Let NumPy say nothing of NaN, infinities, and means of nothing."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def narrow(given: Any) -> bool:
    """Return whether an argument is an array of floating numbers below float64."""
    kind = np.float32, np.float16, calor.bfloat16.numpy
    return isinstance(given, np.ndarray) and given.dtype in kind


def widened(given: Any) -> Any:
    """Return arguments with narrow floating numbers in float64."""
    if isinstance(given, list | tuple):
        return type(given)(widened(one) for one in given)
    return given.astype(np.float64) if narrow(given) else given


def parts(made: Any) -> list[Array]:
    """Return the arrays of NumPy's result in their order."""
    if isinstance(made, tuple | list):
        return [part for one in made for part in parts(one)]
    return [np.asarray(made)]


def results(made: Any) -> list[Array]:
    """Return what a function made as arrays, also what is no tensor."""
    if isinstance(made, bool | int | tuple) and not _has_tensors(made):
        return parts(made)
    return [wide(a) for a in numpy_of(made)]


def wide(array: Array) -> Array:
    """Return bfloat16 as float32, which has its numbers."""
    return array.astype(np.float32) if array.dtype == calor.bfloat16.numpy else array


def _has_tensors(made: Any) -> bool:
    if isinstance(made, tuple | list):
        return any(map(_has_tensors, made))
    return isinstance(made, calor.Tensor)


def _moved(given: Any, rng: np.random.Generator) -> Any:
    """Return arguments with every narrow number moved by its rounding."""
    if isinstance(given, list | tuple):
        return type(given)(_moved(one, rng) for one in given)
    if not narrow(given):
        return given
    return given.astype(np.float64) * (1 + _UNIT * rng.choice((-1.0, 1.0), given.shape))


def slack(
    meaning: Callable[..., Any], given: list[Any], options: dict[str, Any], wants: list[Array]
) -> list[Any]:
    """Return how far each result moves when operands do by their rounding, a few times over."""
    made: list[Any] = [0.0] * len(wants)
    for seed in range(3):
        moved = parts(meaning(*_moved(list(given), np.random.default_rng(seed)), **options))
        for n, (a, b) in enumerate(zip(moved, wants, strict=True)):
            if a.dtype.kind in "fc":
                off = np.nan_to_num(np.abs(a - b), nan=0.0, posinf=0.0)
                made[n] = np.maximum(made[n], 64 * off)
    return made


def nothing(wants: list[Array]) -> bool:
    """Return whether NumPy, too, has no number: its results are NaN for lack of elements."""
    return all(a.dtype.kind == "f" and np.isnan(a).all() for a in wants)


def compare(
    got: Array, want: Array, what: str | Call, near: float = NEAR, slack: Any = 0.0
) -> None:
    """Raise AssertionError unless a result is NumPy's.

    Parameters
    ----------
    got, want : ndarray
        The result, and NumPy's in float64.
    what : str or Call
        The call.
    near : float, default 2e-5
        The largest error beside the number, or beside 1 if that is more.
    slack : float or ndarray, default 0
        How far the result moves when operands do by their rounding.
    """
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    kind, wanted = ("i" if t.dtype.kind == "u" else t.dtype.kind for t in (got, want))
    assert kind == wanted, f"{what}: dtype {got.dtype}, not {want.dtype}"
    with np.errstate(all="ignore"):
        if kind == "f":
            rounded = want.astype(got.dtype).astype(np.float64)
            want = np.where(np.isinf(rounded), rounded, want)
        close: Any = False
        if kind in "fc":
            bound = near * np.maximum(np.abs(want), 1) + slack
            close = np.isfinite(want) & (np.abs(got - want) <= bound)
    wrong = ~(close | (got == want) | ((got != got) & (want != want)))
    if wrong.any():
        at = np.unravel_index(np.argmax(wrong), want.shape)
        raise AssertionError(f"{what}: {got[at]!r} at {tuple(map(int, at))}, not {want[at]!r}")
