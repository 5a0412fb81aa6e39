"""Faults of shapes: strides, broadcasting, emptiness, ranks, places and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyExecutable
from calor.backends.op_table import Function
from calor.graph.graph import Graph

from .base import Array, Broken, Fault, afterwards, changing


def _forwards(right: Function) -> Function:
    def slice_(x: Array, *, starts: Any, stops: Any, steps: Any) -> Any:
        y = right(x, starts=starts, stops=stops, steps=steps)
        return np.flip(y, tuple(i for i, step in enumerate(steps) if step < 0))

    return slice_


class FusesFlips(Broken):
    """An elementwise op reads its operand as it lies in memory, whatever a flip said before."""

    class Flips(NumpyExecutable):
        """Replaces a flip by its operand where negation reads it."""

        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            read = {v for n in graph.nodes if n.op.name == "neg" for v in n.inputs}
            self.steps = [
                step._replace(function=lambda x: x)
                if step.name == "flip" and step.slot in read
                else step
                for step in self.steps
            ]

    executable = Flips


def _tiled(y: Array, x: Any, a: Any) -> Array:
    """Fill the result from the operand in order, whichever axis is to be repeated."""
    flat: Array = np.resize(x[0], y.shape)
    return flat


def _as_it_lies(y: Array, x: Any, a: Any) -> Array:
    flat: Array = np.ravel(x[0], order="K").reshape(y.shape)
    return flat


def _inverse(right: Function) -> Function:
    def permute(x: Array, *, axes: Any) -> Array:
        turned = np.ascontiguousarray(np.transpose(x, np.argsort(axes)))
        return turned.reshape([x.shape[i] for i in axes])

    return permute


def _one_axis(y: Array, x: Any, a: Any) -> Array:
    return y.reshape(1) if not y.ndim else y


def _of_nothing(y: Array, x: Any, a: Any) -> Array:
    return np.full_like(y, 7) if not x[0].size else y


def _to_five(y: Array, x: Any, a: Any) -> Array:
    """Leave all axes after the fifth in place."""
    axes = a["axes"]
    if len(axes) < 6:
        return y
    return np.resize(np.transpose(x[0], (*np.argsort(np.argsort(axes[:5])), *range(5, len(axes)))),
                     y.shape)  # fmt: skip


def _without_gaps(right: Function) -> Function:
    def pad(x: Array, value: Array, *, low: Any, high: Any, interior: Any) -> Any:
        y = right(x, value, low=low, high=high, interior=interior)
        none = (0,) * x.ndim
        return np.resize(right(x, value, low=low, high=high, interior=none), y.shape)

    return pad


def _one_of_several(right: Function) -> Function:
    def flip(x: Array, *, axes: Any) -> Any:
        return right(x, axes=axes[:1])

    return flip


FAULTS = [
    Fault(
        "negative-stride-ignored",
        "a slice backwards gives its elements forwards",
        changing(slice=_forwards),
        ("values/slice-backward/float32", "views/neg-stepped/float32"),
        ("slice", "neg"),
    ),
    Fault(
        "flip-lost-in-fusion",
        "an elementwise op after a flip reads the operand as it lies",
        FusesFlips,
        ("views/neg-flipped/float32",),
        ("neg",),
    ),
    Fault(
        "broadcast-along-the-wrong-axis",
        "a broadcast repeats the operand's memory, whichever axis is to be repeated",
        changing(expand=afterwards(_tiled)),
        ("values/expand-[[]2,_1]-to-[[]2,_3]/float32", "shapes/add-broadcast/float32"),
        ("expand", "add"),
    ),
    Fault(
        "reshape-of-memory",
        "a reshape takes elements in the order of memory, after a transpose too",
        changing(reshape=afterwards(_as_it_lies)),
        ("views/reshape-join-transposed/float32",),
        ("reshape",),
    ),
    Fault(
        "permutation-inverted",
        "a permutation of axes is applied the wrong way round",
        changing(permute=_inverse),
        ("values/permute-2-0-1/float32", "state/views-in-other-orders"),
        ("permute",),
    ),
    Fault(
        "axes-beyond-five",
        "a permutation moves the first five axes only",
        changing(permute=afterwards(_to_five)),
        ("features/max_rank",),
    ),
    Fault(
        "rank-0-becomes-1",
        "a sum of everything has one axis of length 1",
        changing(sum=afterwards(_one_axis)),
        ("values/sum-[[]5]-[[]0]/float32",),
        ("sum",),
    ),
    Fault(
        "empty-not-zero",
        "a sum of nothing is whatever was in memory",
        changing(sum=afterwards(_of_nothing)),
        ("values/sum-empty/float32",),
        ("sum",),
    ),
    Fault(
        "interior-padding-ignored",
        "padding between elements is left out",
        changing(pad=_without_gaps),
        ("values/pad-interior/float32",),
        ("pad",),
    ),
    Fault(
        "one-axis-flipped",
        "where several axes are flipped, the first one alone is",
        changing(flip=_one_of_several),
        ("functions/parameter-forms",),
        ("flip",),
    ),
]
