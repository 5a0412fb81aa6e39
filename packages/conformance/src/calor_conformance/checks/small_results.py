"""What results keep alive: a small part of a large intermediate result holds no large memory.

A part may be a view of what it is of, and then its bytes count as few while all of it lives. Drawn
programs make something large, take something small of it and drop the rest, at once, in steps or
compiled; after several of them the memory of the process and the figures have grown by little.
"""

from __future__ import annotations

import gc
import inspect
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.transforms.state import Stateful

from ..collecting import quick_collections
from .base import Check, Place, plain_array, plain_type
from .memory import in_use
from .process_memory import resident

CONTRACT: Final = "a result that is a small part of a large one keeps none of the rest in memory"
_PROGRAMS, _RESULTS = 30, 3
# Elements along each axis of what is large, where the size of Python's memory tells, and else.
_SIDE, _LONG_SIDE = 256, 1024
_EMPTY: Final = 1 << 20
Rng = np.random.Generator
Work = Callable[[Any], Any]


def _makers(rng: Rng, side: int) -> dict[str, Work]:
    """Return what makes something large, (side, side), of a tensor of that shape."""
    k = int(rng.integers(1, side - 1))
    return {
        "x + k": lambda x: x + k, "tanh": lambda x: calor.maximum(x * k, x),
        "rows by columns": lambda x: x[k][:, None] * x[0], "expand": lambda x: _wide(x, side),
        "concat": lambda x: calor.concat([x[k:], x[:k]]), "flip": lambda x: calor.flip(x, axis=0),
        "permute": lambda x: calor.permute_dims(x, (1, 0)),
        "sort": lambda x: calor.sort(x, axis=-1),
        "stack": lambda x: calor.stack([x[:, k]] * side),
        "where": lambda x: calor.where(x > 0, x, k),
        "roll": lambda x: calor.roll(x, k, axis=1), "pad": lambda x: calor.concat([x[:-1], x[:1]]),
        "take": lambda x: calor.take(x, calor.asarray(np.arange(side)[::-1].copy()), axis=0),
        "reshape": lambda x: calor.reshape(x + 1, (-1, side)), "copy": lambda x: x.copy(),
        "sum of parts": lambda x: calor.cumulative_sum(x, axis=0),
        "write": lambda x: _written(x, k), "full": lambda x: calor.full((side, side), 2.0) * x[0],
        "arange": lambda x: calor.reshape(calor.arange(side * side), (side, side)),
        "map": lambda x: calor.vmap(lambda row: row * 2 + row[k])(x),
        "loop": lambda x: calor.fori_loop(0, 2, lambda i, y: y + x, x * 0),
    }  # fmt: skip


def _wide(x: Any, side: int) -> Any:
    return calor.broadcast_to(x[:1], (side, side))


def _written(x: Any, k: int) -> Any:
    made = x * 1
    made[k] = 3.0
    return made


def _takers(rng: Rng, side: int) -> dict[str, Work]:
    """Return what takes something small of something large."""
    k = int(rng.integers(side))
    few = int(rng.integers(1, 4))
    every = side // few
    return {
        "x[k]": lambda x: x[k], "x[:few]": lambda x: x[:few], "x[0, k]": lambda x: x[0, k],
        "x[:, k]": lambda x: x[:, k], "x[-few:]": lambda x: x[-few:], "x[-1]": lambda x: x[-1],
        "x[::every, ::every]": lambda x: x[::every, ::every], "x[:1, :few]": lambda x: x[:1, :few],
        "x[::-1][:few]": lambda x: x[::-1][:few], "mT[0]": lambda x: x.mT[0],
        "reshape": lambda x: calor.reshape(x, (-1,))[k : k + few],
        "x[k][None]": lambda x: x[k][None],
        "split": lambda x: calor.split(x, [few, side - few])[0],
        "unstack": lambda x: calor.unstack(x[:few], axis=0)[0],
        "sorted head": lambda x: calor.sort(x[k])[:few], "max": lambda x: calor.max(x, axis=0),
        "diagonal": lambda x: calor.reshape(x, (-1,))[:: side + 1],
        "take": lambda x: calor.take(x, calor.asarray(np.array([k])), axis=0),
        "wide": lambda x: calor.broadcast_to(x[0, :1], (few, 2)), "permute": lambda x: x[:few].mT,
        "two": lambda x: (x[k], x[:, 0]), "row and sum": lambda x: [x[0], calor.sum(x)],
    }  # fmt: skip


class _Last(Stateful):
    """Holds the last part that a step made."""

    def __init__(self, last: Any) -> None:
        self.last = last


def _in_steps(make: Work, take: Work) -> Work:
    def run(x: Any) -> Any:
        large = make(x)
        calor.eval(large)
        return take(large)

    return run


def _learned(make: Work, take: Work) -> Work:
    """The part is of a result with a history, from which it is detached."""

    def run(x: Any) -> Any:
        w = x.detach()
        w.requires_grad = True
        part = take(make(w) * w)
        return calor.tree.map(lambda t: t.detach(), part)

    return run


def _without_gradients(make: Work, take: Work) -> Work:
    def run(x: Any) -> Any:
        with calor.no_grad():
            return take(make(x))

    return run


def _stepped(make: Work, take: Work) -> Work:
    def step(state: _Last, x: Any) -> None:
        state.last = calor.tree.leaves(take(make(x)))[0]

    jitted = calor.jit(step)

    def run(x: Any) -> Any:
        state = _Last(calor.tree.leaves(take(x))[0] * 1)
        jitted(state, x)
        return state

    return run


_WAYS: Final[dict[str, Callable[[Work, Work], Work]]] = {
    "at once": lambda make, take: lambda x: take(make(x)),
    "in steps": _in_steps,
    "jitted": lambda make, take: calor.jit(lambda x: take(make(x))),
    "a jitted maker": lambda make, take: _in_steps(calor.jit(make), take),
    "a jitted taker": lambda make, take: _in_steps(make, calor.jit(take)),
    "detached": _learned,
    "state": _stepped,
    "without gradients": _without_gradients,
}


@contextmanager
def _meter(place: Place) -> Iterator[tuple[Callable[[], int], bool]]:
    """Return what tells the bytes of the process, and whether these are Python's alone.

    Where a device takes its memory from Python, that is exact; else the resident size tells.
    """
    started = not tracemalloc.is_tracing()
    if started:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    probe = calor.asarray(plain_array(np.ones(_EMPTY // plain_type().itemsize)))
    exact = tracemalloc.get_traced_memory()[0] - before >= probe.nbytes
    del probe
    try:
        if exact:
            yield lambda: tracemalloc.get_traced_memory()[0], True
        else:
            if started:
                tracemalloc.stop()
            yield lambda: resident() or 0, False
    finally:
        if started:
            tracemalloc.stop()


def _run(place: Place) -> None:
    with quick_collections(), _meter(place) as (size, exact):
        side = _SIDE if exact else _LONG_SIDE
        x = calor.asarray(plain_array(np.ones((side, side))))
        for number in filter(partial(place.tries, among=5), range(_PROGRAMS)):
            rng = np.random.default_rng([place.seed, 271, number])
            makers, takers = _makers(rng, side), _takers(rng, side)
            maker, taker, way = (str(rng.choice(list(d))) for d in (makers, takers, _WAYS))
            work = _WAYS[way](makers[maker], takers[taker])
            _holds_little(place, work, x, size, f"{taker} of {maker}, {way}")


def _holds_little(place: Place, work: Work, x: Any, size: Callable[[], int], what: str) -> None:
    def made() -> Any:
        result = work(x)
        calor.eval(result.last if isinstance(result, _Last) else result)
        return result

    for _ in range(2):
        # Programs are compiled, and a pool finds its size.
        made()
    used, before = in_use(place), size()
    held = [made() for _ in range(_RESULTS)]
    gc.collect()
    counted, grown = in_use(place) - used, size() - before
    allowed = _RESULTS * x.nbytes // 3
    assert counted <= allowed, (
        f"{what}: {_RESULTS} small results of {x.shape} hold {counted} bytes of the device"
    )
    assert grown <= allowed, (
        f"{what}: {_RESULTS} small results of {x.shape} made the process {grown} bytes larger, "
        f"of which memory() counts {counted}"
    )
    del held


def small_results() -> Iterator[Check]:
    """Yield the check of what small results hold."""
    yield Check(
        kind="memory",
        subject="held-by-small-results",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _holds_little),
        looks=True,
    )
