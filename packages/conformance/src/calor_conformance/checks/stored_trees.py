"""Trees that are stored and read: their structure, keys, types, ties and bits.

Trees are drawn deep and narrow, with few keys that meet in joined names, such as "a.b" beside "b"
in "a", the text of a number beside the number, and names that the file needs itself.
"""

from __future__ import annotations

import inspect
import io
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bfloat16, float32, int32

from .base import Check, Place

CONTRACT: Final = "a tree that is stored and read has its structure, keys, types, ties and bits"
_TURNS: Final = 8
_KEYS: Final = (
    "a", "b", "a.b", "b.a", ".", "", "0", "1", "value", "value#2", "a#2", "None", "True",
    "__metadata__", "calor.tree", "ä\n\"\\", 0, 1, -1, 2.5, None,
)  # fmt: skip
_PLAIN: Final[tuple[Any, ...]] = (
    None, True, False, 0, -(1 << 70), 1.5, -0.0, float("inf"), float("nan"), 5e-324, 2 - 3j, "",
    "tensor", "ü\x00", b"", b"\x00\xff", slice(None, 3, -1), range(2, 9, 3), {1, "1", 2.5},
    frozenset(), float32, bfloat16, [], (), {},
)  # fmt: skip
Rng = np.random.Generator


def _tensor(rng: Rng, kept: list[Any]) -> Any:
    """Return a tensor or an array; one in four is there already."""
    if kept and rng.random() < 0.25:
        return kept[int(rng.integers(len(kept)))]
    shape = [int(n) for n in rng.integers(0, 4, int(rng.integers(0, 3)))]
    x = np.asarray(rng.integers(-99, 99, shape)).astype(rng.choice(["float32", "int8", "int64"]))
    made = x if rng.random() < 0.2 else calor.asarray(x)
    kept.append(made)
    return made


def _drawn(rng: Rng, depth: int, kept: list[Any]) -> Any:
    kind = int(rng.integers(6)) if depth else 4
    if kind < 2:
        keys = [_KEYS[int(n)] for n in rng.permutation(len(_KEYS))[: int(rng.integers(1, 6))]]
        made = {key: _drawn(rng, depth - 1, kept) for key in keys}
        return OrderedDict(made) if kind else made
    if kind < 4:
        found = [_drawn(rng, depth - 1, kept) for _ in range(int(rng.integers(0, 4)))]
        return tuple(found) if kind == 2 else found
    if rng.random() < 0.3:
        return _PLAIN[int(rng.integers(len(_PLAIN)))]
    return _tensor(rng, kept)


def _bits(value: Any) -> Any:
    """Return what two numbers share that are one, −0 and NaN too."""
    if type(value) is float:
        return struct.pack("d", value)
    return (value.real.hex(), value.imag.hex()) if type(value) is complex else value


def _same(got: Any, want: Any, at: str, ties: dict[int, Any]) -> None:
    kind = type(want)
    assert type(got) is kind, f"{at} is read as {got!r}, not as {want!r}"
    if isinstance(want, calor.Tensor | np.ndarray):
        assert got.dtype == want.dtype, f"{at} has dtype {got.dtype}, not {want.dtype}"
        a, b = (np.asarray(x) for x in (got, want))
        assert a.shape == b.shape, f"{at} has shape {a.shape}, not {b.shape}"
        assert a.tobytes() == b.tobytes(), f"{at} is read as {a}, not {b}"
        assert ties.setdefault(id(want), got) is got, f"{at} is another object where it was one"
        if isinstance(got, np.ndarray):
            assert got.flags.writeable, f"{at} is read as an array that cannot be written to"
            assert got.dtype.isnative, f"{at} is read in the byte order of the file"
        return
    if isinstance(want, dict):
        found, keys = ([(type(k), k) for k in x] for x in (got, want))
        assert found == keys, f"{at} has the keys {list(got)}, not {list(want)}"
        for key, one in want.items():
            _same(got[key], one, f"{at}[{key!r}]", ties)
        return
    if kind in (list, tuple):
        assert len(got) == len(want), f"{at} has {len(got)} items, not {len(want)}"
        for number, (a, b) in enumerate(zip(got, want, strict=True)):
            _same(a, b, f"{at}[{number}]", ties)
        return
    assert _bits(got) == _bits(want), f"{at} is read as {got!r}, not as {want!r}"


def _turn(rng: Rng) -> None:
    kept: list[Any] = []
    # Two ways to one joined name are in each tree.
    tree = {
        "a": {"b": _tensor(rng, kept), "c": _drawn(rng, 3, kept)},
        "a.b": _tensor(rng, kept),
        "rest": [_drawn(rng, 4, kept) for _ in range(3)],
        "rest.0": _drawn(rng, 2, kept),
    }
    _back(tree, "the tree")
    kept.clear()
    # Each key alone is the whole name of what is stored under it.
    flat = {key: _tensor(rng, kept) for key in (_KEYS[int(n)] for n in rng.permutation(len(_KEYS)))}
    _back(flat, "the flat tree")


def _back(tree: Any, what: str) -> None:
    stream = io.BytesIO()
    calor.save(tree, stream)
    stream.seek(0)
    _same(calor.load(stream), tree, what, {})


def _run(place: Place) -> None:
    for turn in range(_TURNS):
        _turn(np.random.default_rng([place.seed, crc32(b"stored trees"), turn]))


def stored_trees() -> Iterator[Check]:
    """Yield the check of trees."""
    source: Callable[[], str] = partial(inspect.getsource, _drawn)
    yield Check(
        kind="transfers",
        subject="kept-trees",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=source,
        dtypes=(float32, int32),
        looks=True,
    )
