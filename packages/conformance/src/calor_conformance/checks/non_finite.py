"""What ``calor.debug_nans`` says of results: the op, how many are not finite, and the first."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import float32
from calor.errors import NonFiniteError

from .base import Array, Place
from .contract import Contracts
from .errors import raised

errors = Contracts("errors")
_ZEROS = [[1.0, 0.0, -2.0], [0.0, -0.0, 4.0]]
_MADE: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array], Any]] = {
    "div": (lambda x: 1 / x, lambda a: 1 / a, _ZEROS),
    "log": (calor.log, np.log, [[1.0, -1.0, 2.0, -3.0], [0.0, 1.0, 1.0, -2.0]]),
    "sqrt": (calor.sqrt, np.sqrt, [4.0, -1.0, 0.0]),
    "exp": (calor.exp, np.exp, [[1.0], [1000.0], [500.0]]),
    "sub": (lambda x: x - x, lambda a: a - a, [1.0, np.inf, -np.inf]),
}


@errors("debug_nans names the op, counts what is not finite, and says where the first is",
        tier="full", dtypes=(float32,))  # fmt: skip
def what_is_not_finite_is_counted(place: Place) -> None:
    for op, (run, meaning, numbers) in _MADE.items():
        x = np.array(numbers, np.float32)
        with np.errstate(all="ignore"):
            made = meaning(x)
        wrong = np.isnan(made) if np.isnan(made).any() else ~np.isfinite(made)
        with calor.debug_nans():
            error = raised(partial(_read, run, x))
        assert isinstance(error, NonFiniteError), f"{op} of {numbers}: {error!r}"
        found = re.search(r"^(\S+) made (NaN|an infinity) .*\((\d+) of (\d+) .* at (\(.*?\))",
                          str(error))  # fmt: skip
        kind = "NaN" if np.isnan(made).any() else "an infinity"
        first = tuple(int(n) for n in np.argwhere(wrong)[0])
        told = (op, kind, str(int(wrong.sum())), str(made.size), str(first))
        assert found is not None, f"{error}: it counts nothing"
        assert found.groups() == told, f"{error}, which is {told}"
        finite = np.isfinite(x).all()
        assert ("operands are finite" in str(error)) == finite, f"{op}: {error}"


@errors("debug_nans lets pass what is finite, and infinities where NaN alone is asked for",
        tier="full", dtypes=(float32,))  # fmt: skip
def what_is_finite_passes(place: Place) -> None:
    x = calor.asarray(np.array([1.0, 2.0, 4.0], np.float32))
    with calor.debug_nans():
        assert (calor.sqrt(x) * 2 - calor.log(x) / x).shape == (3,)
        assert calor.isnan(calor.asarray(np.array([np.nan], np.float32))).tolist() == [True]
    with calor.debug_nans(infinities=False):
        assert (1 / (x - 1)).tolist()[0] == np.inf
        error = raised(lambda: ((x - 1) / (x - 1)).numpy())
        assert isinstance(error, NonFiniteError), repr(error)


def _read(run: Callable[[Any], Any], x: Array) -> None:
    run(calor.asarray(x)).numpy()


CHECKS = errors.checks
