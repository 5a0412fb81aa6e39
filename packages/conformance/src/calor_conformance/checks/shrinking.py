"""The smallest input with which a row still fails.

The steps are greedy (delta debugging, Zeller and Hildebrandt, 2002): for elementwise ops one
element instead of all, then simpler numbers for each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType
from calor.errors import CalorError

from ..rows.judging import judge, numpy_of, outputs, put
from ..rows.language import Case
from .base import Array, Place

# Limit of the trials of a row, for slow devices.
TRIES = 200


class _Trial:
    """Whether a row fails with given operands, for a limited number of trials."""

    def __init__(self, c: Case, dtype: DType, place: Place) -> None:
        self.case, self.dtype, self.place = c, dtype, place
        self.left = TRIES

    def _call(self, *tensors: Any) -> list[Any]:
        return outputs(self.case.call(*tensors, dtype=self.dtype))

    def fails(self, arrays: Sequence[Array]) -> bool:
        if self.left == 0:
            return False
        self.left -= 1
        try:
            with calor.device(self.place.device):
                got = numpy_of(self.place.call(self._call, *put(arrays)))
            judge(self.case, self.dtype, list(arrays), got, self.place.flushes)
        except (AssertionError, CalorError):
            return True
        return False


def smallest(c: Case, dtype: DType, place: Place) -> list[Array]:
    """Return small operands with which the row fails, or the drawn ones if it no longer fails."""
    arrays = c.draw(dtype, place.seed)
    trial = _Trial(c, dtype, place)
    if not trial.fails(arrays):
        return arrays
    if c.elementwise:
        arrays = _one_element(arrays, trial)
    return _simpler(arrays, trial)


def _one_element(arrays: list[Array], trial: _Trial) -> list[Array]:
    """Halve the operands while one half fails."""
    flat = [a.reshape(-1) for a in arrays]
    if not trial.fails(flat):
        return arrays
    while flat[0].size > 1:
        middle = flat[0].size // 2
        halves = ([a[:middle] for a in flat], [a[middle:] for a in flat])
        found = next((half for half in halves if trial.fails(half)), None)
        if found is None:
            break
        flat = found
    return flat


def _simpler(arrays: list[Array], trial: _Trial) -> list[Array]:
    """Replace each element by 0 or 1 if the row still fails."""
    made = [a.copy() for a in arrays]
    for array in made:
        for at in np.ndindex(*array.shape):
            before = array[at]
            for simple in (0, 1):
                array[at] = simple
                if array[at] == before or trial.fails(made):
                    break
                array[at] = before
    return made
