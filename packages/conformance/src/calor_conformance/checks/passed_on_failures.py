"""A result of an op that failed, passed on in every way in which a value goes elsewhere.

A device may learn late that an index was out of range. Until then its result is copied, moved to
another device, kept in a container, given to a jitted function, written into state, saved or read.
Whoever looks at what came of it has the error, at the way itself or at the look, each time; the
result has it still; and a copy of a sound result of the same program has none.
"""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int32
from calor.errors import ElementIndexError
from calor.specs import spec

from .base import Check, Place, compiled
from .errors import raised

CONTRACT: Final = "what comes of a failed result, by {}, has its error each time it is looked at"
Tensor = Any


def _saved(x: Tensor) -> Tensor:
    stream = io.BytesIO()
    calor.save({"x": x}, stream)
    stream.seek(0)
    return calor.load(stream)["x"]


def _written(x: Tensor) -> Tensor:
    held = calor.zeros(x.shape, dtype=x.dtype)
    held[...] = x
    return held


def _added(x: Tensor) -> Tensor:
    held = calor.ones(x.shape, dtype=x.dtype)
    held += x
    return held - 1


def _part(x: Tensor) -> Tensor:
    held = calor.zeros((4, *x.shape[1:]), dtype=x.dtype)
    held[1 : 1 + x.shape[0]] = x
    return held[1 : 1 + x.shape[0]]


def _again(x: Tensor) -> Tensor:
    return calor.asarray(calor.asarray(x, copy=True), copy=True)


def _captured(x: Tensor) -> Tensor:
    return calor.jit(lambda y: y + x)(0 * calor.ones(x.shape))


def _elsewhere(x: Tensor) -> Tensor:
    return x.to("numpy").to(x.device)


def _beside_sound(x: Tensor) -> Tensor:
    """Return what depends on two runs, one of which is known to be sound."""
    ones = calor.ones((4, x.shape[1]))
    sound = calor.take(ones, calor.asarray(np.array([3, 1], np.int32)), axis=0)
    calor.eval(sound)
    joined = sound + x
    calor.eval(joined)
    assert sound.numpy().all()
    return joined - 1


_WAYS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "a copy": lambda x: calor.asarray(x, copy=True),
    "a copy of a copy": _again,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "the method copy": lambda x: x.copy(),
    "detach": lambda x: x.detach(),
    "the same device": lambda x: x.to(x.device),
    "another device": _elsewhere,
    "a view": lambda x: calor.permute_dims(calor.permute_dims(x, (1, 0)), (1, 0)),
    "a container": lambda x: copy.deepcopy({"x": [x, 1]})["x"][0],
    "a jitted function": lambda x: calor.jit(lambda y: y * 1)(x),
    "what a function captures": _captured,
    "a write to all of a tensor": _written,
    "a write to a part": _part,
    "an update in place": _added,
    "DLPack": lambda x: calor.from_dlpack(x),
    "DLPack with a copy": lambda x: calor.from_dlpack(x, copy=True),
    "a sum with a sound result": _beside_sound,
    "a file": _saved,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}


def _made(x: Tensor, index: int) -> Tensor:
    made = calor.take(x, calor.asarray(np.array([0, index], np.int32)), axis=0)
    return made * 2


def _looked(x: Tensor, index: int, way: Callable[[Tensor], Tensor], late: bool) -> None:
    result = _made(x, index)
    if late:
        with suppress(ElementIndexError):
            calor.eval(result)
    try:
        passed = way(result)
    except ElementIndexError:
        passed = None
    for value in (passed, passed, result, passed, result):
        if value is not None:
            error = raised(value.numpy)
            assert isinstance(error, ElementIndexError), repr(error)


def _run(name: str, place: Place) -> None:
    way = _WAYS[name]
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    x = calor.asarray(array)
    for late in (True, False, True):
        before = way(_made(x, 2))
        try:
            _looked(x, 4, way, late)
        except AssertionError as none:
            raise AssertionError(
                f"by {name}, {'computed' if late else 'pending'}: {none}"
            ) from none
        for sound in (before, way(_made(x, 3))):
            index = 2 if sound is before else 3
            got, want = sound.numpy(), 2 * array[[0, index]]
            assert np.array_equal(got, want), f"by {name}: {got.tolist()}, not {want.tolist()}"


def _copied_buffers(place: Place) -> None:
    """Copy the buffer of a failed result within the backend, as devices of several do."""
    backend, index = place.plain.backend, place.plain.index
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    x, at = calor.asarray(array), calor.asarray(np.array([0, 1], np.int32))
    take = compiled(place, calor.trace(lambda x, i: calor.take(x, i, axis=0) * 2, x, at))
    known = spec((2, 3), float32)
    for last in (2, 4, 3, 5):
        given = [backend.upload(index, a) for a in (array, np.array([0, last], np.int32))]
        try:
            (made,) = take(given)
        except ElementIndexError:
            assert last > 3, f"index {last} is in range"
            continue
        for target in range(backend.enumerate()):
            held = backend.copy(index, made, known, target)
            for buffer, device in ((held, target), (made, index), (held, target)):
                read = partial(backend.download, device, buffer, known)
                if last > 3:
                    error = raised(read)
                    assert isinstance(error, ElementIndexError), repr(error)
                else:
                    assert np.array_equal(read(), 2 * array[[0, last]]), f"index {last}"


def passed_on_failures() -> Iterator[Check]:
    """Yield a check of each way, and one of copies by the backend."""
    yield Check(
        kind="errors",
        subject="passed on by copies of buffers",
        tier="full",
        contract=CONTRACT.format("a copy of its buffer"),
        run=_copied_buffers,
        text=lambda: inspect.getsource(_copied_buffers),
        op="gather",
        dtypes=(float32, int32),
    )
    for name, way in _WAYS.items():
        yield Check(
            kind="errors",
            subject=f"passed on by {name}",
            tier="full",
            contract=CONTRACT.format(name),
            run=partial(_run, name),
            text=partial(_text, way),
            op="gather",
            dtypes=(float32, int32),
            looks=True,
        )


def _text(way: Any) -> str:
    own = inspect.getsource(way) if getattr(way, "__module__", "") == __name__ else ""
    return "\n".join((own, *(inspect.getsource(f) for f in (_run, _looked, _made))))
