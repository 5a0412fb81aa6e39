"""Modes of a thread: contexts nested in any order, left by errors, entered again, beside threads.

The model of a thread is a list of the contexts that it is in. What each mode does is looked at in
the thread, in others that are in contexts of their own, and in new ones, which are in none.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bfloat16, float16, float32, float64
from calor.errors import NonFiniteError, ViewError, ViewWarning

from .base import Check, Place
from .errors import raised

CONTRACT: Final = (
    "a mode is that of its context and its thread, and is over with it, however it ends"
)
_NESTS, _STEPS = 6, 14
Rng = np.random.Generator
# A mode and its value.
Setting = tuple[str, Any]


@dataclass
class Worker:
    """A thread and the contexts that it is in, the outermost first."""

    pool: ThreadPoolExecutor
    plain: dict[str, Any]
    within: list[tuple[Any, Setting]] = field(default_factory=list)

    def run(self, work: Callable[..., Any], *given: Any) -> Any:
        return self.pool.submit(work, *given).result()

    def wants(self) -> dict[str, Any]:
        found = dict(self.plain)
        for _, (name, value) in self.within:
            found[name] = value
        return found


def _views() -> str:
    """Return what a write to a part does."""
    x = calor.zeros((2, 2))
    row = x[0]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            row += 1
        except ViewError:
            return "strict"
    if [w.category for w in heard] == [ViewWarning]:
        return "warn"
    return "shared" if x[0, 0].item() == 1 else "silent"


def modes_seen() -> dict[str, Any]:
    """Return the modes of this thread, by what they do."""
    leaf = calor.asarray(np.ones((2, 2), np.float32), requires_grad=True)
    before = leaf.detach()
    return {
        "gradients": (leaf * 2).requires_grad,
        "autocast": (before @ before).dtype,
        "default": (calor.zeros(1).dtype, calor.asarray(1.5).dtype),
        "device": calor.zeros(1, dtype="int32").device.name,
        "views": _views(),
        "precision": calor.local.local.precision,
    }


def contexts_of(place: Place, rng: Rng) -> tuple[Any, Setting]:
    """Return a context and what it sets."""
    half = [d for d in (bfloat16, float16) if place.plain.info.dtypes.get(d)]
    wide = float64 if place.plain.info.dtypes.get(float64) else float32
    low = half[int(rng.integers(len(half)))] if half else float32
    level = str(rng.choice(["high", "highest"]))
    made: list[tuple[Any, Setting]] = [
        (calor.no_grad(), ("gradients", False)), (calor.enable_grad(), ("gradients", True)),
        (calor.default_dtype("float64"), ("default", (float64, float64))),
        (calor.default_dtype("float32"), ("default", (float32, float32))),
        (calor.device("numpy"), ("device", "numpy:0")),
        (calor.device(place.plain), ("device", place.plain.name)),
        (calor.strict_views(), ("views", "strict")), (calor.shared_views(), ("views", "shared")),
        (calor.matmul_precision(level), ("precision", level)),
    ]  # fmt: skip
    if wide is float32:
        del made[2]
    if half:
        made += [
            (calor.autocast(low), ("autocast", low)),
            (calor.autocast(low, enabled=False), ("autocast", float32)),
        ]
    return made[int(rng.integers(len(made)))]


class LeftError(Exception):
    """What ends a context."""


def leave(context: Any, by_error: bool) -> None:
    error = LeftError("left")
    if by_error:
        handled = context.__exit__(LeftError, error, None)
        assert not handled, f"{type(context).__name__} keeps an error"
        return
    context.__exit__(None, None, None)


def _compare(thread: Worker, what: str) -> None:
    found, wants = thread.run(modes_seen), thread.wants()
    for name, want in wants.items():
        got = found[name]
        assert got == want, (
            f"{name} is {got}, not {want}, {what}, in "
            f"{[f'{type(c).__name__}: {s[1]}' for c, s in thread.within]}"
        )


def _nest(place: Place, rng: Rng) -> None:
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        plain = _seen_in_a_new_thread()
        threads = [Worker(first, plain), Worker(second, plain)]
        for _ in range(_STEPS):
            thread = threads[int(rng.integers(2))]
            if thread.within and rng.random() < 0.4:
                context, _ = thread.within.pop()
                by_error = bool(rng.integers(2))
                thread.run(leave, context, by_error)
                what = f"after an exit{' by an error' * by_error}"
            elif thread.within and rng.random() < 0.25:
                # The same context once more.
                context, setting = thread.within[int(rng.integers(len(thread.within)))]
                thread.run(context.__enter__)
                thread.within.append((context, setting))
                what = "after one was entered again"
            else:
                context, setting = contexts_of(place, rng)
                thread.run(context.__enter__)
                thread.within.append((context, setting))
                what = "after one was entered"
            for one in threads:
                _compare(one, what)
        assert _seen_in_a_new_thread() == plain, "a new thread begins with modes of others"
        for thread in threads:
            while thread.within:
                thread.run(leave, thread.within.pop()[0], bool(rng.integers(2)))
            _compare(thread, "after all were left")


def _within_itself(place: Place) -> None:
    """One context, another one of its mode, and the first again: each restores what it met."""
    half = [d for d in (bfloat16, float16) if place.plain.info.dtypes.get(d)]
    pairs: list[tuple[Any, Any]] = [
        (calor.no_grad(), calor.enable_grad()),
        (calor.default_dtype("float32"), calor.default_dtype("float64")),
        (calor.device("numpy"), calor.device(place.plain)),
        (calor.strict_views(), calor.shared_views()),
        (calor.matmul_precision("high"), calor.matmul_precision("direct")),
        (calor.autocast(half[0] if half else "bfloat16"), calor.autocast(enabled=False)),
    ]
    if not place.plain.info.dtypes.get(float64):
        del pairs[1]
    for first, second in (*pairs, *[pair[::-1] for pair in pairs]):
        entered: list[tuple[Any, dict[str, Any]]] = []
        for context in (first, second, first, first, second):
            entered.append((context, modes_seen()))
            context.__enter__()
        while entered:
            context, before = entered.pop()
            leave(context, by_error=bool(len(entered) % 2))
            names = [type(c).__name__ for c, _ in entered]
            now = modes_seen()
            assert now == before, f"{now}, not {before}, after {type(context).__name__} in {names}"


def _defaults(place: Place) -> None:
    """What is set for the rest of the program holds in threads that begin afterwards."""
    wide = float64 if place.plain.info.dtypes.get(float64) else float32
    before = calor.zeros(1).dtype
    with ThreadPoolExecutor(1) as earlier:
        known = earlier.submit(modes_seen).result()
        try:
            calor.set_default_dtype(wide)
            assert _seen_in_a_new_thread()["default"] == (wide, wide), "a later thread is as before"
            assert modes_seen()["default"] == (wide, wide), "this thread is as before"
            assert earlier.submit(modes_seen).result() == known, "a thread of before has changed"
        finally:
            calor.set_default_dtype(before)
    assert _seen_in_a_new_thread()["default"] == (before, before), "the default stays"


def _seen_in_a_new_thread() -> dict[str, Any]:
    with ThreadPoolExecutor(1) as pool:
        found: dict[str, Any] = pool.submit(modes_seen).result()
        return found


def _finite(place: Place) -> None:
    """The mode that looks for NaN is over with its block, and functions are jitted again."""
    x = calor.asarray(np.array([1.0, 0.0], np.float32))
    step = calor.jit(lambda a: a / a)
    one = calor.asarray(np.array([1.0], np.float32))
    for infinities in (True, False):
        with suppress(LeftError), calor.debug_nans(infinities=infinities):
            error = raised(lambda: step(x).numpy())
            assert isinstance(error, NonFiniteError), repr(error)
            if infinities:
                error = raised(lambda: (one / 0).numpy())
                assert isinstance(error, NonFiniteError), repr(error)
            else:
                assert np.isinf((one / 0).numpy()).all(), "an infinity is refused"
            raise LeftError("left")
        assert np.isnan(step(x).numpy()[1]), "after debug_nans a NaN is refused"


async def _tasks(rng: Rng) -> None:
    """Tasks that wait for each other, and hand values to threads that compute them."""
    numbers = rng.integers(-9, 9, (6, 40)).astype(np.float32)

    async def one(k: int) -> Any:
        x = calor.asarray(numbers[k]) * 2
        await asyncio.sleep(0)
        y = x + 1
        if k % 2:
            return await asyncio.to_thread(y.numpy)
        await asyncio.sleep(0)
        return y.numpy()

    found = await asyncio.gather(*(one(k) for k in range(len(numbers))))
    for k, got in enumerate(found):
        want = numbers[k] * 2 + 1
        assert (got == want).all(), f"task {k} got {got}, not {want}"


def _run(place: Place) -> None:
    for number in range(_NESTS):
        _nest(place, np.random.default_rng([place.seed, 51, number]))
    _within_itself(place)
    _defaults(place)
    _finite(place)
    asyncio.run(_tasks(np.random.default_rng([place.seed, 52])))


def nested_modes() -> Iterator[Check]:
    """Yield the check of modes."""
    yield Check(
        kind="threads",
        subject="nested-modes",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _nest),
        dtypes=(float32,),
        looks=True,
    )
