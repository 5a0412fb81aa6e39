"""Drawn memory: arrays of every size and dtype that come, are shared with others, and go.

A device counts, lends and takes back memory in each contract alone, and may lose count after some
order of them. A history uploads, computes, reads, exports, adopts, fails and drops; after each
action the figures count at least what lives, at the end every array has its numbers, whoever holds
it, and when all is dropped nothing is in use that was not before.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL, DType
from calor.errors import CalorError, OutOfMemoryError
from calor.transforms.state import Stateful

from ..collecting import quick_collections
from .base import Array, Check, Place, plain_array, plain_type
from .memory import in_use

CONTRACT: Final = "figures count what lives, and arrays keep their numbers, after any order of uses"
BOUND: Final = "bound calls keep their state, and leave nothing behind, however many they are"
# The exponents of the numbers of elements.
_SIZES: Final = ((0.0, 7.0), (6.0, 15.0), (0.0, 16.5))
_ACTIONS, _MOST, _CALLS = 45, 9, 400


def _steps(x: Any) -> Any:
    """Make several values that live at once, of other sizes than the operand's."""
    wide = calor.stack([x, calor.flip(x, axis=0), x])
    return calor.concat([wide[1], wide[0][: x.shape[0] // 2]]), calor.flip(wide, axis=(0, 1))


def _steps_of(x: Array) -> tuple[Array, Array]:
    wide = np.stack([x, x[::-1], x])
    return np.concatenate([wide[1], wide[0][: x.shape[0] // 2]]), wide[::-1, ::-1].copy()


class _Memory:
    """Tensors with the bits that they should have, and arrays that others hold of them."""

    def __init__(self, place: Place, rng: np.random.Generator, exponents: tuple[float, float]):
        self.place, self.rng, self.exponents = place, rng, exponents
        info = place.plain.info
        self.kinds = [d for d in ALL if info.dtypes.get(d) and d.kind != "storage"]
        self.tensors: list[tuple[Any, Array, bool]] = []
        self.lent: list[tuple[Array, Array]] = []
        self.names: list[str] = []
        self.step = calor.jit(_steps)
        self.shares = info.feature("host_views").level == "full"
        on_host = place.plain.backend.dlpack_device(place.plain.index)[0] == 1
        self.exports = on_host and info.feature("dlpack").level == "full"
        self.limits = info.feature("memory_limit").level == "full"
        self.most = info.limits.get("max_buffer_bytes", 1 << 40)

    def array(self) -> Array:
        low, high = self.exponents
        count = int(2 ** self.rng.uniform(low, high)) + int(self.rng.integers(-1, 2))
        dtype = self.kinds[int(self.rng.integers(len(self.kinds)))]
        count = min(max(count, 0), self.most // max(dtype.itemsize, 1))
        return _drawn(self.rng, dtype, count)

    def pick(self) -> tuple[Any, Array]:
        tensor, array, _ = self.tensors[int(self.rng.integers(len(self.tensors)))]
        return tensor, array

    def add(self, tensor: Any, array: Array, *, own: bool) -> None:
        calor.eval(tensor)
        self.tensors.append((tensor, array, own))

    # What a user does.

    def upload(self) -> None:
        array = self.array()
        self.add(calor.asarray(array), array.copy(), own=True)
        array.view(np.uint8)[...] = 1

    def move(self) -> None:
        x, array = self.pick()
        self.add(calor.flip(x, axis=0), array[::-1].copy(), own=False)

    def plan(self) -> None:
        x, array = self.pick()
        for made, want in zip(self.step(x), _steps_of(array), strict=True):
            if want.ndim == 1:
                self.add(made, want, own=False)
            else:
                self.same(made.numpy(), want, "a result of several that live at once")

    def read(self) -> None:
        x, array = self.pick()
        self.lent.append((x.numpy(), array.copy()))

    def export(self) -> None:
        x, array = self.pick()
        if self.exports and x.dtype is not calor.bfloat16:
            with np.errstate(all="ignore"):
                self.lent.append((np.asarray(np.from_dlpack(x)), array.copy()))

    def adopt(self) -> None:
        array = self.array()
        if not self.shares or not array.size:
            return
        try:
            tensor = calor.asarray(array, copy=False)
        except CalorError:
            # An array whose memory does not suit the device.
            return
        self.add(tensor, array.copy(), own=False)
        if self.rng.random() < 0.5:
            self.lent.append((array, array.copy()))

    def copy(self) -> None:
        x, array = self.pick()
        self.add(x.copy(), array.copy(), own=False)

    def run_out(self) -> None:
        if not self.limits:
            return
        array, device = self.array(), self.place.plain
        before, limit = device.memory.in_use, device.memory.limit
        # A garbage collection for each figure would be most of the time.
        most = before + array.nbytes // 2
        device.backend.set_memory_limit(device.index, most)
        try:
            kept = calor.asarray(array)
            used = device.memory.in_use
            assert used <= most, f"{used} bytes are in use where {most} are allowed, {self.told()}"
            del kept
        except OutOfMemoryError:
            used = device.memory.in_use
            assert used <= before, f"{used - before} bytes are kept of an upload that failed"
        finally:
            device.backend.set_memory_limit(device.index, limit)

    def drop(self) -> None:
        if len(self.tensors) > 1:
            del self.tensors[int(self.rng.integers(len(self.tensors)))]

    def give_back(self) -> None:
        if self.lent:
            del self.lent[int(self.rng.integers(len(self.lent)))]

    def verify(self) -> None:
        for tensor, want, _ in self.tensors:
            self.same(tensor.numpy(), want, "a tensor")
        for got, want in self.lent:
            self.same(got, want, "an array that is held")

    def same(self, got: Array, want: Array, what: str) -> None:
        told = f"{what} of {want.dtype}{list(want.shape)}"
        assert got.shape == want.shape, f"{told} has shape {got.shape}, {self.told()}"
        assert got.dtype == want.dtype, f"{told} is {got.dtype}, {self.told()}"
        wrong = np.ascontiguousarray(got).tobytes() != want.tobytes()
        assert not wrong, f"{told} has other bits, {self.told()}"

    def told(self) -> str:
        return f"after {', '.join(self.names)}"

    def go(self) -> None:
        every = [
            self.upload, self.upload, self.upload, self.move, self.plan, self.read, self.export,
            self.adopt, self.copy, self.run_out, self.drop, self.drop, self.drop, self.give_back,
        ]  # fmt: skip
        self.upload()
        for turn in range(_ACTIONS):
            action = every[int(self.rng.integers(len(every)))]
            self.names.append(action.__name__)
            action()
            while len(self.tensors) > _MOST:
                self.drop()
            if turn % 9 == 8:
                self.verify()
            figures = self.place.plain.memory
            least = sum(t.nbytes for t, _, own in self.tensors if own)
            assert figures.peak >= figures.in_use >= least, (
                f"{figures.in_use} bytes in use, {figures.peak} at the peak, {least} or more live, "
                f"{self.told()}"
            )
        self.verify()


def _drawn(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    """Return numbers that are the same after any way through a device."""
    if dtype.kind == "bool":
        return np.asarray(rng.random(count) < 0.5)
    made = rng.integers(0, 100, count)
    return np.asarray(made if dtype.kind == "uint" else made - 50).astype(dtype.numpy)


def _histories(place: Place) -> list[str]:
    told = []
    for number, exponents in enumerate(_SIZES):
        memory = _Memory(place, np.random.default_rng([place.seed, number]), exponents)
        memory.go()
        told.append(memory.told())
    return told


def _run(place: Place) -> None:
    with quick_collections():
        # The first time, programs are planned, which may keep memory.
        _histories(place)
        before = in_use(place)
        told = _histories(place)
        after = in_use(place)
        assert after <= before, f"{after - before} bytes stay in use {'; '.join(told)}"


class _Held(Stateful):
    def __init__(self, n: int) -> None:
        self.total = calor.asarray(plain_array(np.zeros(n)))
        self.turns = calor.asarray(plain_array(np.zeros(())))


def _bound(place: Place) -> None:
    """Hundreds of bound calls of one function, whose state has a drawn size."""
    rng = np.random.default_rng([place.seed, 5])
    with quick_collections():
        n = int(rng.integers(1, 2000))

        @calor.jit
        def step(held: _Held, x: Any) -> Any:
            held.turns = calor.remainder(held.turns + 1, 64)
            held.total = calor.remainder(calor.flip(held.total, axis=0) + x, 32)
            return calor.sum(x) * 0 + held.turns

        held, array = _Held(n), plain_array(rng.integers(0, 3, n))
        x, want = calor.asarray(array), np.zeros(n, np.int64)
        bound = step.bind(held)
        bound(x)
        first = in_use(place)
        for turn in range(2, _CALLS + 1):
            made = bound(x)
            if turn % 97 == 0:
                assert made.item() == turn % 64, f"call {turn} counts {made.item()}"
        for _ in range(_CALLS):
            want = (want[::-1] + array.astype(np.int64)) % 32
        del made
        got = held.total.numpy()
        assert (got == want).all(), f"after {_CALLS} bound calls of {n}: {got[got != want][:3]}"
        del got
        last, spare = in_use(place), 4 * plain_type().itemsize * (n + 64) + 4096
        assert last <= first + spare, f"{last - first} bytes more after {_CALLS} bound calls"


def drawn_memory() -> Iterator[Check]:
    """Yield a check of histories of memory at ranges of sizes, and one of many bound calls."""
    yield Check(
        kind="memory",
        subject="drawn-histories",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Memory),
        looks=True,
    )
    yield Check(
        kind="memory",
        subject="many-bound-calls",
        tier="compiled",
        contract=BOUND,
        run=_bound,
        text=partial(inspect.getsource, _bound),
        looks=False,
    )
