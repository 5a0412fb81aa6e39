"""Weighted sums of a few elements along axes, as one op with the gradient of the same form.

Requirements: indices and weights are tables that follow from sizes. The gradient has tables as
well: what each element of the operand gives to which results. So neither direction adds to memory
in an undefined order, and several axes are one pass over memory. Elements that are picked as they
are keep their bits, the sign of a zero included, and only their gradient is a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.dtypes import float32
from calor.errors import ShapeError
from calor.functions.operands import pair, select
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.indexing import gather
from calor.ops.movement import reshape, slice_
from calor.ops.sources import HostArray, constant
from calor.specs import Spec, spec
from calor_nn.functional.constant_tables import constant_indices

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
# The axes that are resampled together at most, and the terms of an element up to which they are.
_AXES, _TOGETHER = 2, 64


@dataclass(frozen=True)
class Taps:
    """The indices and weights of the terms of each result along an axis of ``old`` elements.

    −1 fills the rows of results with fewer terms; its weight is 0.
    """

    where: Array
    weights: Array
    old: int

    @property
    def size(self) -> int:
        """The number of results."""
        return len(self.where)

    @property
    def count(self) -> int:
        """The terms of a result."""
        return int(self.where.shape[1])

    def transposed(self) -> Taps:
        """Return the results that each element is a term of; −1 fills the rows."""
        size, count = self.where.shape
        used = self.weights.reshape(-1) != 0
        elements = self.where.reshape(-1)[used]
        order = np.argsort(elements, kind="stable")
        elements = elements[order]
        results = np.repeat(np.arange(size), count)[used][order]
        # The place of each term in its element's row.
        begins = np.searchsorted(elements, np.arange(self.old))
        places = np.arange(len(elements)) - begins[elements]
        wide = int(places.max(initial=0)) + 1
        where = np.full((self.old, wide), -1, np.int64)
        weights = np.zeros((self.old, wide))
        where[elements, places] = results
        weights[elements, places] = self.weights.reshape(-1)[used][order]
        return Taps(where, weights, size)


def _rule(x: Spec, *tables: Spec, axis: int, padded: tuple[bool, bool]) -> Spec:
    rules.real_floats(x)
    made = list(x.shape)
    for k, where in enumerate(tables[::4]):
        back = tables[4 * k + 2]
        if back.shape[0] != x.shape[axis + k]:
            raise ShapeError(f"nn.resample: the tables of axis {axis + k} do not fit {x}")
        made[axis + k] = where.shape[0]
    return spec(tuple(made), x.dtype)


def _decompose(x: Any, *tables: Any, axis: int, padded: tuple[bool, bool]) -> Any:
    dtype = x.dtype
    y = e.cast(x, dtype=float32) if dtype.itemsize == 2 else x
    for k in range(len(tables) // 4):
        y = _along(y, tables[4 * k], tables[4 * k + 1], axis + k, padded[0])
    return y if y.dtype is dtype else e.cast(y, dtype=dtype)


def _along(x: Any, where: Any, weights: Any, axis: int, padded: bool) -> Any:
    """Return the sums along one axis, term by term."""
    size, count = where.shape
    shape = tuple(size if a == axis else 1 for a in range(x.ndim))
    total = None
    for k in range(count):
        ends = {"starts": (0, k), "stops": (size, k + 1), "steps": (1, 1)}
        index = reshape(slice_(where, **ends), shape=(size,))
        weight = reshape(slice_(weights, **ends), shape=shape)
        if padded:
            zero = e.sub(index, index)
            none = reshape(e.less(index, zero), shape=shape)
            term = select(none, 0.0, gather(x, e.maximum(index, zero), axis=axis))
        else:
            term = gather(x, index, axis=axis)
        term = pair(e.mul, term, weight)
        total = term if total is None else pair(e.add, total, term)
    return total


def _vjp(g: Any, y: Any, x: Any, *tables: Any, axis: int, padded: tuple[bool, bool]) -> list[Any]:
    turned = []
    for k in range(0, len(tables), 4):
        turned += [*tables[k + 2 : k + 4], *tables[k : k + 2]]
    made = resample(g, *turned, axis=axis, padded=padded[::-1])
    return [made, *(None for _ in tables)]


# Operands: x, and of each axis from ``axis`` on four tables: the indices of the terms and their
# weights, of this direction and of the gradient. ``padded``: whether −1 fills rows of the tables.
resample = op("nn.resample", _rule, vjp=_vjp, saves="12345678", decompose=_decompose)


def _picked(x: Any, *tables: Any, axis: int, padded: tuple[bool, bool]) -> Any:
    for k, where in enumerate(tables[::4]):
        x = gather(x, reshape(where, shape=(where.shape[0],)), axis=axis + k)
    return x


# The same operands; each result has one term, of weight 1.
pick = op("nn.pick", _rule, vjp=_vjp, saves="12345678", decompose=_picked)


def resampled(x: Tensor, axis: int, taps: list[Taps], by: Op = resample) -> Tensor:
    """Return x resampled along adjacent axes from ``axis`` on."""
    back = [one.transposed() for one in taps]
    most = max(prod(one.count for one in taps), prod(one.count for one in back))
    if len(taps) > _AXES:
        return resampled(resampled(x, axis, taps[:_AXES], by), axis + _AXES, taps[_AXES:], by)
    if len(taps) > 1 and most > _TOGETHER:
        for k, one in enumerate(taps):
            x = resampled(x, axis + k, [one], by)
        return x
    dtype = np.float64 if x.dtype.itemsize == 8 else np.float32
    tables = []
    for one, turned in zip(taps, back, strict=True):
        for table in (one, turned):
            tables += [table.where.astype(np.int32), table.weights.astype(dtype)]
    with x.device:
        given = [constant(array=HostArray.of(table), weak=False) for table in tables]
    padded = tuple(bool(any((one.where < 0).any() for one in ones)) for ones in (taps, back))
    made: Tensor = by(x, *given, axis=axis, padded=padded)
    return made


def picked(x: Tensor, axis: int, places: list[Array]) -> Tensor:
    """Return the elements of x at places along adjacent axes from ``axis`` on."""
    if x.dtype.kind == "float" and x.dtype.itemsize > 1:
        ones = [np.ones((len(where), 1)) for where in places]
        pairs = enumerate(zip(places, ones, strict=True), axis)
        taps = [Taps(where[:, None], weights, x.shape[k]) for k, (where, weights) in pairs]
        return resampled(x, axis, taps, pick)
    for k, where in enumerate(places, axis):
        x = gather(x, constant_indices(where, x.device), axis=k)
    return x
