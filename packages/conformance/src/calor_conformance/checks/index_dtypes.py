"""Indices of every dtype: what they name is what whole numbers of 64 bits name.

A type of few bits holds no end of a long axis, no sum of a place and a length, no number of all
elements, and an unsigned one no number below zero. So functions of indices, places, counts and
classes are called with each type, along axes shorter and longer than the type counts, and mapped,
jitted and differentiated: each time what they give is what they give with int64.
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
from calor.dtypes import as_dtype, float32, int64

from .base import Array, Check, Place

CONTRACT: Final = "an index means the same in every dtype that holds it, in every transform"
_TURNS: Final = {"anywhere": 8, "inside": 3, "below": 3, "ids": 3, "one": 3, "signed": 3}
_LENGTHS: Final = (3, 128, 129, 256, 257, 300, 400)
_KINDS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64")
Rng = np.random.Generator
# A function of a float32 tensor whose first axis has some length, and of indices of some shape.
Function = Callable[[Any, Any], Any]


def _assigned(x: Any, i: Any) -> Any:
    made = x * 1
    made[i] = x[0] + 3
    return made


def _updated(x: Any, i: Any) -> Any:
    made = x * 1
    made[i] += 2
    return made


def _many(x: Any, i: Any) -> Any:
    return calor.broadcast_to(x[:1], (i.shape[0], *x.shape[1:]))


def _of_labels(x: Any, i: Any) -> Any:
    """Classes of a sample, filled up with −1."""
    filled = calor.concat([i, calor.zeros_like(i[:1]).repeat(x.shape[0] - i.shape[0]) - 1])
    return _layers().multilabel_margin_loss(x[:, 0], filled)


# Name: the function, whether indices may lie outside or below zero, and the indices' shape.
_FUNCTIONS: Final[dict[str, tuple[Function, str, tuple[int, ...]]]] = {
    "take": (lambda x, i: calor.take(x, i, axis=0), "inside", (4,)),
    "take_along_axis": (
        lambda x, i: calor.take_along_axis(x, calor.expand_dims(i, axis=1), axis=0), "inside",
        (4,),
    ),
    "x[i]": (lambda x, i: x[i], "below", (4,)),
    "x[i, i]": (lambda x, i: x[i, i * 0], "below", (4,)),
    "x[i] = v": (_assigned, "below", (3,)),
    "x[i] += v": (_updated, "below", (3,)),
    "dynamic_slice": (lambda x, i: calor.dynamic_slice(x, i, (3, 1)), "anywhere", (2,)),
    "dynamic_update_slice": (
        lambda x, i: calor.dynamic_update_slice(x, x[:2, :1] + 1, i), "anywhere", (2,),
    ),
    "gather_nd": (lambda x, i: calor.gather_nd(x, calor.expand_dims(i, axis=1)), "inside", (4,)),
    "scatter_nd": (
        lambda x, i: calor.scatter_nd(x, calor.expand_dims(i, axis=1), _many(x, i), update="add"),
        "inside", (4,),
    ),
    "scatter_along_axis": (
        lambda x, i: calor.scatter_along_axis(
            x, calor.broadcast_to(calor.expand_dims(i, axis=1), (4, 2)), _many(x, i), axis=0,
            update="max",
        ),
        "inside", (4,),
    ),
    "index_update": (
        lambda x, i: calor.index_update(x, i, _many(x, i), axis=0, update="add"), "inside", (4,),
    ),
    "segment_sum": (lambda x, i: calor.segment_sum(x[:3], i, 300), "ids", (3,)),
    "bincount": (lambda x, i: calor.bincount(i, minlength=x.shape[0]), "ids", (5,)),
    "repeat": (lambda x, i: calor.repeat(x[:1], i % 3 + 1, axis=0), "one", (1,)),
    "unravel_index": (lambda x, i: calor.unravel_index(i, (x.shape[0], 2)), "inside", (4,)),
    "where": (lambda x, i: calor.where(i > i[0], x[0, 0], x[1, 0]), "inside", (4,)),
}  # fmt: skip
_SHAPED_BY_NUMBERS: Final = ("repeat", "bincount")
_OF_LAYERS: Final[dict[str, tuple[str, Function]]] = {
    "embedding": ("inside", lambda x, i: _layers().embedding(i, x)),
    "embedding_bag": (
        "inside", lambda x, i: _layers().embedding_bag(calor.reshape(i, (2, 2)), x),
    ),
    "embedding with padding": (
        "inside", lambda x, i: _layers().embedding(i, x, padding_index=x.shape[0] - 1),
    ),
    "nll_loss": (
        "inside", lambda x, i: _layers().nll_loss(calor.broadcast_to(
            calor.reshape(x[:, 0], (1, -1)), (4, x.shape[0])), i),
    ),
    "multi_margin_loss": (
        "inside", lambda x, i: _layers().multi_margin_loss(calor.broadcast_to(
            calor.reshape(x[:, 0], (1, -1)), (4, x.shape[0])), i),
    ),
    "multilabel_margin_loss": ("signed", _of_labels),
    "one_hot": ("inside", lambda x, i: _layers().one_hot(i, x.shape[0])),
    "cross_entropy": (
        "inside", lambda x, i: _layers().cross_entropy(calor.broadcast_to(
            calor.reshape(x[:, 0], (1, -1)), (4, x.shape[0])), i, label_smoothing=0.1),
    ),
}  # fmt: skip


def _layers() -> Any:
    return import_module("calor_nn.functional")


def _functions() -> Iterator[tuple[str, Function, str, tuple[int, ...]]]:
    for name, (function, form, shape) in _FUNCTIONS.items():
        if hasattr(calor, name) or not name.isidentifier():
            yield name, function, form, shape
    if find_spec("calor_nn") is not None:
        for name, (form, function) in _OF_LAYERS.items():
            if hasattr(_layers(), name.partition(" ")[0]):
                yield name, function, form, (3,) if form == "signed" else (4,)


def _indices(rng: Rng, kind: str, length: int, form: str, shape: tuple[int, ...]) -> Array:
    """Return numbers that a type holds; its ends are among them, where the axis is as long."""
    ends = np.iinfo(kind)
    inside, segments = (0, length - 1), (0, min(length, 299))
    least, most = {
        "inside": inside, "signed": inside, "ids": segments, "one": (0, 9),
        "below": (-length, length - 1), "anywhere": (-2 * length, 2 * length),
    }[form]  # fmt: skip
    low, high = max(least, int(ends.min)), min(most, int(ends.max))
    made = rng.integers(low, high, shape, endpoint=True)
    edges = rng.random(shape) < 0.3
    made[edges] = rng.choice((low, high), int(edges.sum()))
    return np.asarray(made, np.int64)


def _arrays(made: Any) -> list[Array]:
    return [t.numpy() for t in calor.tree.leaves(made)]


def _same(found: Any, wants: list[Array], what: str) -> None:
    got = _arrays(found)
    assert len(got) == len(wants), what
    for a, b in zip(got, wants, strict=True):
        assert a.shape == b.shape, f"{what}: shape {a.shape}, not {b.shape}"
        assert np.allclose(a, b, atol=1e-5), f"{what}: {a.tolist()}, not {b.tolist()}"[:600]


def _compare(place: Place, name: str, function: Function, rng: Rng, more: tuple[Any, ...]) -> None:
    form, shape = more
    kinds = [k for k in _KINDS if place.plain.info.dtypes.get(as_dtype(k))]
    # Axes pass the ends of the types of eight bits, which stand first.
    kinds = kinds[:2] if rng.random() < 0.7 else kinds
    kind, length = str(rng.choice(kinds)), int(rng.choice(_LENGTHS))
    x = calor.asarray(np.asarray(rng.normal(size=(length, 2)), np.float32))
    tables = [_indices(rng, kind, length, form, shape) for _ in range(3)]
    narrow = [calor.asarray(t.astype(kind)) for t in tables]
    wide = [calor.asarray(t) for t in tables]
    if form == "signed" and kind.startswith("u"):
        return
    what = f"{name} of {tables[0].tolist()} as {kind} along {length}"
    _same(function(x, narrow[0]), _arrays(function(x, wide[0])), what)
    if rng.random() < 0.3 and name not in _SHAPED_BY_NUMBERS:
        _same(calor.jit(function)(x, narrow[0]), _arrays(function(x, wide[0])), f"{what}, jitted")
    if name in _SHAPED_BY_NUMBERS or rng.random() < 0.2:
        return
    stacked = [calor.stack(given) for given in (narrow, wide)]
    if rng.random() < 0.5:
        alone = [_arrays(function(x, i)) for i in wide]
        mapped, given = calor.vmap(function, in_axes=(None, 0)), x
    else:
        rows = [x, x * 2, x - 1]
        alone = [_arrays(function(r, i)) for r, i in zip(rows, wide, strict=True)]
        mapped, given = calor.vmap(function), calor.stack(rows)
    wants = [np.stack(parts) for parts in zip(*alone, strict=True)]
    _same(mapped(given, stacked[0]), wants, f"{what}, mapped")
    if wants[0].dtype == np.float32:
        slopes = [
            calor.grad(lambda t, i=i: calor.sum(function(t, i) ** 2))(x)
            for i in (narrow[0], wide[0])
        ]
        _same(slopes[0], _arrays(slopes[1]), f"the gradient of {what}")


def _run(place: Place) -> None:
    for number, (name, function, *more) in enumerate(_functions()):
        if more[0] != "anywhere" and not place.tries(number, 3):
            continue
        for turn in range(_TURNS[str(more[0])]):
            rng = np.random.default_rng([place.seed, 182, number, turn])
            _compare(place, name, function, rng, tuple(more))


def index_dtypes() -> Iterator[Check]:
    """Yield the check of the dtypes of indices."""
    yield Check(
        kind="functions",
        subject="index-dtypes",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _compare),
        op="gather",
        dtypes=(float32, int64),
        looks=True,
    )
