"""Indexing by keys of every form: reads, assignments, updates in place, gradients and refusals.

A key mixes integers, slices, None, Ellipsis, masks, lists and index arrays of each dtype, and each
mixture has a rule of its own for where its axes stand. Keys are drawn and NumPy says what they
mean; what is out of range is one element of a key that fits otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import as_dtype, bool_, float32, int64
from calor.errors import DTypeError, ElementIndexError, IndexingError, ShapeError
from calor.tensor.values import Handle

from .base import Array, Check, Place, Tier
from .errors import raised

CONTRACT: Final = "a key of any form reads and writes what it does in NumPy, or is refused as there"
_KEYS, _JITTED = 112, 8
_SIZES: Final = (1, 2, 3, 5)
_KINDS: Final = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
Rng = np.random.Generator


class _Keys:
    """What draws keys with the index dtypes that a device stores."""

    def __init__(self, place: Place, *seed: int) -> None:
        self.rng = np.random.default_rng([place.seed, *seed])
        stored = place.plain.info.dtypes
        self.with_mask = self.block = False
        self.kinds = [k for k in _KINDS if stored.get(as_dtype(k))]

    def shape(self, least: int = 0) -> tuple[int, ...]:
        rank = max(int(self.rng.choice((0, 1, 2, 2, 3, 3, 4))), least)
        return tuple(int(n) for n in self.rng.choice(_SIZES, rank))

    def array(self, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.rng.integers(-99, 100, shape), np.float32)

    def coin(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def cut(self, n: int) -> slice:
        """Return a slice, whose ends may lie outside and whose step may be negative."""
        first, last = (
            None if self.coin(0.3) else int(v) for v in self.rng.integers(-n - 2, n + 3, 2)
        )
        step = None if self.block or self.coin(0.4) else int(self.rng.choice((-3, -2, -1, 1, 2, 3)))
        return slice(first, last, step)

    def places(self, n: int, shape: tuple[int, ...]) -> Any:
        """Return places along an axis in one of the forms in which users have them."""
        made = np.asarray(self.rng.integers(-n, n, shape))
        form = int(self.rng.integers(4))
        if form == 0 and shape:
            return made.tolist()
        if form == 1:
            return made
        kind = str(self.rng.choice(self.kinds))
        return calor.asarray((made % n if kind.startswith("u") else made).astype(kind))

    def mask(self, shape: tuple[int, ...]) -> Any:
        made = self.rng.random(shape) < 0.6
        return (calor.asarray(made), made, made.tolist())[int(self.rng.integers(3))]

    def key(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return a key that fits a shape; its index arrays broadcast."""
        advanced, lead = self.coin(0.7), self.shape(1)[:2]
        self.with_mask = advanced and self.coin(0.25)
        # A mask selects a number of elements that other index arrays do not broadcast with.
        # Places that are single numbers name one block, which is written without moving elements.
        self.block = advanced and not self.with_mask and self.coin(0.15)
        lead = () if self.with_mask or self.block else lead
        rank = len(shape)
        front = rank if self.block or self.coin() else int(self.rng.integers(0, rank + 1))
        items = self.items(shape[:front], advanced, lead)
        if front == rank and not self.block and self.coin(0.4):
            # For no axis, between any two items: index arrays beside it are apart.
            items.insert(int(self.rng.integers(len(items) + 1)), Ellipsis)
        elif not self.block and self.coin(0.4):
            # It may stand for no axis, which tells index arrays apart all the same.
            back = rank - front if self.coin() else int(self.rng.integers(0, rank - front + 1))
            items += [Ellipsis, *self.items(shape[rank - back :], advanced, lead)]
        return tuple(items)

    def items(self, shape: tuple[int, ...], advanced: bool, lead: tuple[int, ...]) -> list[Any]:
        """Return what indexes neighbouring axes."""
        made: list[Any] = []
        axis = 0
        while axis < len(shape):
            n, draw = shape[axis], self.rng.random()
            if draw < 0.12:
                made.append(None)
                continue
            if self.with_mask and draw < 0.45:
                rank = int(self.rng.integers(0 if self.coin(0.3) else 1, len(shape) - axis + 1))
                made.append(self.mask(shape[axis : axis + rank]))
                axis, self.with_mask = axis + rank, False
                continue
            if advanced and draw < 0.7:
                made.append(self.places(n, self.fitting(lead)))
            elif draw < 0.8:
                place = int(self.rng.integers(-n, n))
                made.append(np.int64(place) if self.coin(0.3) else place)
            else:
                made.append(self.cut(n))
            axis += 1
        return made + [None] * self.coin(0.15)

    def fitting(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        kept = tuple(1 if self.coin(0.2) else n for n in shape)
        return kept[int(self.rng.integers(0, len(kept) + 1)) if self.coin(0.3) else 0 :]

    def value(self, shape: tuple[int, ...]) -> Any:
        """Return what can be assigned to a part: a number, or numbers that broadcast."""
        if self.coin(0.2):
            return float(self.rng.integers(-9, 10))
        return self.array(self.fitting(shape))


def _known(key: Any) -> Any:
    """Return a key as NumPy has it."""
    if isinstance(key, tuple):
        return tuple(map(_known, key))
    return key.numpy() if isinstance(key, Handle) else key  # type: ignore[attr-defined]


def _form(key: tuple[Any, ...], keys: _Keys) -> Any:
    """Return the key, alone without its tuple now and then."""
    return key[0] if len(key) == 1 and keys.coin() else key


def _told(key: Any, shape: tuple[int, ...]) -> str:
    return f"x[{key!r}] of shape {shape}"


def _drawn(keys: _Keys, shape: tuple[int, ...]) -> tuple[Any, Any]:
    key = _form(keys.key(shape), keys)
    return key, _known(key)


def _cases(
    keys: _Keys, count: int, least: int = 0
) -> Iterator[tuple[tuple[int, ...], Array, Any, Any]]:
    """Yield shapes of at least so many axes, arrays, keys, and the keys as NumPy takes them."""
    for _ in range(count):
        shape = keys.shape(least)
        array = keys.array(shape)
        yield shape, array, *_drawn(keys, shape)


def _same(made: Any, want: Array, what: str) -> None:
    got = made.numpy()
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    assert (got == want).all(), f"{what}: {got.tolist()}, not {want.tolist()}"


def _masked(key: Any) -> bool:
    """Return whether the size of a result depends on what a key holds."""
    items = key if isinstance(key, tuple) else (key,)
    return any(isinstance(i, Handle) and i.dtype is bool_ for i in items)  # type: ignore[attr-defined]


def _read(place: Place) -> None:
    keys = _Keys(place, 1)
    for turn, (shape, array, key, known) in enumerate(_cases(keys, _KEYS)):
        x, what = calor.asarray(array), _told(key, shape)
        want = np.asarray(array[known])
        _same(x[key], want, what)
        _same(calor.reshape(x, (-1,)).reshape(shape)[key] + 1, want + 1, f"of a view, {what}")
        if turn < _JITTED and not _masked(key):
            _same(calor.jit(lambda t, key=key: t[key] * 2)(x), want * 2, f"jitted, {what}")
        _same(x, array, f"after a read, {what}")


def _write(place: Place) -> None:
    keys = _Keys(place, 2)
    for turn, (shape, array, key, known) in enumerate(_cases(keys, _KEYS)):
        value = keys.value(np.asarray(array[known]).shape)
        x, what = calor.asarray(array), f"{_told(key, shape)} = {value!r}"
        kept, given = x.copy(), value if isinstance(value, float) else calor.asarray(value)
        wanted = array.copy()
        wanted[known] = value

        def assign(t: Any, v: Any, key: Any = key) -> Any:
            t = t * 1
            t[key] = v
            return t

        _same(assign(x, given), wanted, what)
        if turn < _JITTED and not (_masked(key) and np.ndim(value)):
            _same(calor.jit(assign)(x, calor.asarray(value)), wanted, f"jitted, {what}")
        x[key] = given
        _same(x, wanted, what)
        _same(kept, array, f"a copy after {what}")
    _write_masked(keys)


def _write_masked(keys: _Keys) -> None:
    """A mask writes while tracing if its value has one element for all that it selects."""
    for _ in range(_JITTED):
        shape = keys.shape(1)
        array = keys.array(shape)
        first = int(keys.rng.integers(len(shape)))
        last = int(keys.rng.integers(first + 1, len(shape) + 1))
        mask = keys.rng.random(shape[first:last]) < 0.6
        rest = keys.fitting(shape[last:])
        value = keys.array(
            (*keys.fitting(shape[:first]), 1, *shape[last:]) if keys.coin() else rest
        )
        wanted = array.copy()
        lead = (slice(None),) * first
        place: Any = (*lead, mask)
        wanted[place] = value

        def assign(t: Any, m: Any, v: Any, lead: Any = lead) -> Any:
            t = t * 1
            t[(*lead, m)] = v
            return t

        if last < len(shape) and value.ndim <= len(shape) - last:
            value = np.broadcast_to(value, (1, *np.broadcast_shapes(value.shape, shape[last:])))
        made = calor.jit(assign)(*map(calor.asarray, (array, mask, value.copy())))
        _same(made, wanted, f"jitted, x[{first} axes, {mask!r}] = {value!r} of shape {shape}")


def _update(place: Place) -> None:
    """``x[key] += v`` reads, adds and writes, so a place that comes again gets one of the sums."""
    keys = _Keys(place, 3)
    for shape, array, key, known in _cases(keys, _KEYS // 2, 1):
        value = keys.value(np.asarray(array[known]).shape)
        x, y, z = (calor.asarray(array) for _ in range(3))
        given = value if isinstance(value, float) else calor.asarray(value)
        what = f"{_told(key, shape)} += {value!r}"
        x[key] += given
        y[key] -= given
        z[key] *= given
        for made, sign in ((x, 1), (y, -1)):
            wanted = array.copy()
            wanted[known] += sign * np.asarray(value, np.float32)
            _same(made, wanted, what if sign > 0 else what.replace("+=", "-="))
        wanted = array.copy()
        wanted[known] *= np.asarray(value, np.float32)
        _same(z, wanted, what.replace("+=", "*="))


def _gradient(place: Place) -> None:
    """The gradient of a read adds up at places that come again; of a write, it stops there."""
    keys = _Keys(place, 4)
    for shape, array, key, known in _cases(keys, _KEYS // 3, 1):
        part = np.asarray(array[known])
        weights, what = keys.array(part.shape), _told(key, shape)

        def read(t: Any, key: Any = key, w: Any = weights) -> Any:
            return calor.sum(t[key] * calor.asarray(w))

        want = np.zeros(shape, np.float32)
        np.add.at(want, known, weights)
        _same(calor.grad(read)(calor.asarray(array)), want, f"the gradient of {what}")
        all_weights, value = keys.array(shape), np.float32(keys.rng.integers(-9, 10))

        def write(t: Any, v: Any, key: Any = key, w: Any = all_weights) -> Any:
            t = t * 1
            t[key] = v
            return calor.sum(t * calor.asarray(w))

        written = np.zeros(shape, bool)
        written[known] = True
        found = calor.grad(write, argnums=(0, 1))(calor.asarray(array), calor.asarray(value))
        _same(found[0], np.where(written, 0, all_weights), f"the gradient after {what} = v")
        total = np.asarray(all_weights[written].sum(), np.float32)
        _same(found[1], total, f"the gradient of v after {what} = v")


def _indices_of(key: tuple[Any, ...]) -> list[int]:
    """Return which items of a key are integers or index arrays with elements."""
    found = []
    for k, item in enumerate(key):
        array = _known(item) if not isinstance(item, slice) else None
        if item is None or item is Ellipsis or array is None:
            continue
        whole = np.asarray(array)
        if whole.size and whole.dtype.kind in "iu":
            found.append(k)
    return found


def _spoiled(item: Any, index: int, at: int) -> Any:
    """Return an item of a key with one of its indices out of range."""
    if isinstance(item, int | np.integer):
        return type(item)(index)
    array = np.array(_known(item))
    array.reshape(-1)[at % array.size] = index
    if isinstance(item, Handle):
        return calor.asarray(array)
    return array.tolist() if isinstance(item, list) else array


def _axes_of(key: tuple[Any, ...], rank: int) -> list[int]:
    """Return the axis of the tensor at which each item of a key begins."""
    counts = []
    for item in key:
        array: Any = None if isinstance(item, slice) or item is Ellipsis else _known(item)
        mask = array is not None and np.asarray(array).dtype == bool
        counts.append(0 if item is None or item is Ellipsis else np.ndim(array) if mask else 1)
    axes, axis = [], 0
    for item, count in zip(key, counts, strict=True):
        axes.append(axis)
        axis += rank - sum(counts) if item is Ellipsis else count
    return axes


def _outside(place: Place) -> None:
    keys, found = _Keys(place, 5), 0
    for _ in range(20 * _KEYS):
        if found == _KEYS // 2:
            break
        shape = keys.shape(1)
        key = keys.key(shape)
        picked = _indices_of(key)
        array = keys.array(shape)
        if not picked or not array[_known(key)].size:
            continue
        found += 1
        k = int(keys.rng.choice(picked))
        axis = _axes_of(key, len(shape))[k]
        n, signed = shape[axis], np.asarray(_known(key[k])).dtype.kind == "i"
        index = -n - 1 if signed and keys.coin() else n + int(keys.rng.integers(2))
        bad = (*key[:k], _spoiled(key[k], index, int(keys.rng.integers(99))), *key[k + 1 :])
        x, what = calor.asarray(array), _told(bad, shape)
        names = f"index {index} ", f"axis {axis} "
        for way in (partial(_looked_at, x, bad), partial(_assigned, x, bad)):
            error = raised(way)
            assert isinstance(error, IndexError), f"{what}: {error!r}"
            late = isinstance(error, ElementIndexError)
            assert late <= isinstance(key[k], Handle), f"{what} is known at once: {error!r}"
            lacks = [name for name in names if name not in f"{error} ".replace(";", " ")]
            assert not lacks, f"{what}: {', '.join(lacks)} is not in: {error}"
    assert found


def _looked_at(x: Any, key: Any) -> Any:
    return x[key].numpy()


def _assigned(x: Any, key: Any) -> Any:
    made = x * 1
    made[key] = 7.0
    return made.numpy()


def _refused(place: Place) -> None:
    x = calor.asarray(np.zeros((2, 3), np.float32))
    masks = np.ones(2, bool), np.ones((2, 2), bool), np.ones((2, 3, 1), bool)
    bad: dict[str, Any] = {
        "too many": (0, 0, 0), "two ellipses": (..., ...), "a number": 1.0, "a text": "a",
        "a complex": 1j, "floats": calor.asarray(np.zeros(2, np.float32)), "a float": [0.5],
        "a step of 0": slice(None, None, 0), "bounds of floats": slice(0.5, 1),
        "a short mask": (0, masks[0]), "another mask": masks[1], "a deep mask": masks[2],
        "arrays apart": ([0, 1], [0, 1, 2]),
    }  # fmt: skip
    for what, key in bad.items():
        for way in (partial(_looked_at, x, key), partial(_assigned, x, key)):
            error = raised(way)
            assert isinstance(error, IndexingError), f"{what}: {error!r}"
    for value, wants in ((np.zeros(4), ShapeError), (np.zeros((3, 1)), ShapeError),
                         (np.zeros(3, np.complex64), DTypeError)):  # fmt: skip
        error = raised(partial(x.__setitem__, slice(0, 2), value))
        assert isinstance(error, wants), f"{value}: {error!r}"


_WAYS: Final[dict[str, tuple[Callable[[Place], None], Tier, str]]] = {
    "read": (_read, "full", "gather_nd"), "written": (_write, "full", "scatter_nd"),
    "updated": (_update, "full", "scatter_nd"), "out-of-range": (_outside, "full", "gather_nd"),
    "refused": (_refused, "full", "gather_nd"),
    "differentiated": (_gradient, "training", "scatter_nd"),
}  # fmt: skip


def index_forms() -> Iterator[Check]:
    """Yield a check of each use of keys of every form."""
    for name, (run, tier, op) in _WAYS.items():
        yield Check(
            kind="functions",
            subject=f"keys-{name}",
            tier=tier,
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, _Keys),
            op=op,
            dtypes=(float32, int64, bool_),
            looks=True,
        )
