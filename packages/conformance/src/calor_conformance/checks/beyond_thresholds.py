"""Contracts at sizes beyond thresholds: what holds for four numbers holds for a million.

A driver copies what is small, and shares, stages, chunks or keeps what is large. The sizes are
around pages, common staging buffers and chunks, in dtypes whose arrays are no whole words.
"""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, int8, uint8
from calor.errors import OutOfMemoryError
from calor.specs import spec
from calor.transforms.state import Stateful

from ..collecting import quick_collections
from .base import Array, Place, compiled, plain_type
from .contract import Contracts
from .errors import raised
from .memory import in_use, limited

# In elements; of float32 from 6 KB to beyond 1 MiB.
SIZES = (1500, 4099, 20_000, (1 << 18) + 3)
# Rows, and sides of weights; of the largest a device may keep another form.
_WEIGHTS = ((1, 64), (33, 160), (200, 200), (33, 1024))
# The steps of a loop, the rows of a step, and the side of a weight.
_LOOPS = ((16, 3, 8), (3, 3, 64), (16, 33, 160))
transfers = Contracts("transfers")
state = Contracts("state")
memory = Contracts("memory")
history = Contracts("history")


def _sizes(place: Place, dtype: DType) -> list[int]:
    most = place.plain.info.limits.get("max_buffer_bytes", 1 << 40)
    return [n for n in SIZES if n * dtype.itemsize <= most]


def _ramp(n: int, dtype: DType, start: int = 0) -> Array:
    return ((np.arange(n) * 37 + start) % 101).astype(dtype.numpy)


def _same(got: Array, want: Array, what: str) -> None:
    wrong = np.flatnonzero(np.asarray(got).reshape(-1) != want.reshape(-1))
    assert not wrong.size, (
        f"{what}: element {wrong[0]} of {want.size} is {got.reshape(-1)[wrong[0]]}, not "
        f"{want.reshape(-1)[wrong[0]]}; {wrong.size} are wrong"
    )


@transfers("upload copies arrays of any size: the host array may change afterwards", looks=False)
def snapshots_of_any_size(place: Place) -> None:
    dtype = plain_type()
    for n in _sizes(place, dtype):
        array = _ramp(n, dtype)
        tensor = calor.asarray(array)
        array[:] = 7
        _same(tensor.numpy(), _ramp(n, dtype), f"{n} elements that changed on the host")


@transfers("arrays of any number of bytes arrive whole, in their last bytes too", looks=False,
           of=(int8, uint8, calor.float16, calor.bfloat16, calor.bool_, calor.int16))  # fmt: skip
def bytes_of_any_size(place: Place, dtype: DType) -> None:
    for size in _sizes(place, dtype):
        for n in (size, size + 1, size + 2):
            array = (_ramp(n, uint8) % 2 if dtype is calor.bool_ else _ramp(n, uint8)).astype(
                dtype.numpy
            )
            got = calor.asarray(array).numpy()
            _same(got, array, f"{n} elements of {dtype.name}")


@transfers("downloads of any size keep their numbers while others are downloaded", looks=False)
def downloads_of_any_size(place: Place) -> None:
    dtype = plain_type()
    for n in _sizes(place, dtype):
        first, second = (calor.asarray(_ramp(n, dtype, k)) for k in (0, 50))
        views = [first.numpy(), second.numpy()]
        third = calor.asarray(_ramp(n, dtype, 9)).numpy()
        for view, k in zip((*views, third), (0, 50, 9), strict=True):
            _same(view, _ramp(n, dtype, k), f"one of three downloads of {n} elements")


@transfers("copies of any size have the same numbers in memory of their own", looks=False)
def copies_of_any_size(place: Place) -> None:
    backend, index, dtype = place.plain.backend, place.plain.index, plain_type()
    for n in _sizes(place, dtype):
        array, known = _ramp(n, dtype), spec((n,), dtype)
        buffer = backend.upload(index, array)
        for target in range(backend.enumerate()):
            # Memory that comes again has other numbers.
            backend.upload(target, _ramp(n, dtype, 50))
            copied = backend.copy(index, buffer, known, target)
            got = np.array(backend.download(target, copied, known))
            _same(got, array, f"a copy of {n} elements")
        x = calor.asarray(array)
        y = x.copy()
        y += 1
        _same(x.numpy(), array, f"{n} elements whose copy was changed")


class _Weights(Stateful):
    def __init__(self, *tensors: Any) -> None:
        self.tensors = list(tensors)


@state("in place, results of any size are written whole, and nothing else is", tier="compiled",
       looks=False)  # fmt: skip
def in_place_of_any_size(place: Place) -> None:
    dtype = plain_type()

    @calor.jit
    def step(weights: _Weights, x: Any) -> Any:
        weights.tensors[0] += x
        return weights.tensors[0] * 1

    for n in _sizes(place, dtype):
        array, one = _ramp(n, dtype), np.ones(n, dtype.numpy)
        other = calor.asarray(array)
        weights = _Weights(calor.asarray(array))
        for turn in range(1, 4):
            result = step(weights, calor.asarray(one))
            want = array + one * one.dtype.type(turn)
            _same(weights.tensors[0].numpy(), want, f"state of {n} elements after {turn} steps")
            _same(result.numpy(), want, f"the result of step {turn} with {n} elements")
        _same(other.numpy(), array, f"{n} elements that no step was given")


@state("every output of an executable has memory of its own, at any size", features=("in_place",),
       looks=False)  # fmt: skip
def outputs_of_any_size(place: Place) -> None:
    device, dtype = place.plain, plain_type()
    for n in _sizes(place, dtype):
        array = _ramp(n, dtype)
        graph = calor.trace(
            lambda x: (x + 1, (x + 1) * 1, calor.reshape(x, (-1, 1)), x), calor.asarray(array)
        )
        executable = compiled(place, graph)
        specs = graph.output_specs
        first = executable([device.backend.upload(device.index, array)])
        other = _ramp(n, dtype, 30)
        for turn in range(len(first)):
            into = [b if i == turn else None for i, b in enumerate(first)]
            executable([device.backend.upload(device.index, other)], into)
            for i, (buffer, known) in enumerate(zip(first, specs, strict=True)):
                got = np.array(device.backend.download(device.index, buffer, known))
                base = other if i <= turn else array
                want = base + base.dtype.type(1 if i < 2 else 0)
                _same(got, want, f"output {i} of {n} elements, after output {turn} was written")


@memory("memory figures count buffers of any size, and no longer when they die", looks=False)
def figures_of_any_size(place: Place) -> None:
    with quick_collections():
        for n in _sizes(place, plain_type()):
            _figures(place, n)


def _figures(place: Place, n: int) -> None:
    dtype = plain_type()
    double: Any = calor.jit(lambda x: x * 2)
    double(calor.asarray(_ramp(n, dtype))).numpy()
    before = in_use(place)
    x = calor.asarray(_ramp(n, dtype))
    y = double(x)
    held = in_use(place)
    assert held - before >= 2 * x.nbytes, (
        f"{held - before} bytes more for two tensors of {x.nbytes}"
    )
    del x, y
    after = in_use(place)
    assert after <= before, f"{after - before} bytes of two tensors of {n} elements stay in use"
    peak = place.plain.memory.peak
    assert peak >= held, f"the peak is {peak} bytes, and {held} were in use with {n} elements"


@memory("the limit holds for single arrays of any size", tier="full", features=("memory_limit",),
        looks=False)  # fmt: skip
def limits_of_any_size(place: Place) -> None:
    dtype = plain_type()
    for n in _sizes(place, dtype):
        array = _ramp(n, dtype)
        with quick_collections(), limited(place, array.nbytes // 2):
            error = raised(partial(calor.asarray, array))
            assert isinstance(error, OutOfMemoryError), (
                f"{array.nbytes} bytes within a limit of {array.nbytes // 2}: {error!r}"
            )


@history("what needs no operands is fresh at every call, at any size", tier="compiled")
def sources_of_any_size(place: Place) -> None:
    dtype = plain_type()

    @calor.jit
    def lower(weights: _Weights, x: Any) -> Any:
        weights.tensors[0] -= x
        return x

    sources: dict[str, Any] = {
        "full": lambda n: calor.full((n,), 3, dtype=dtype),
        "arange": lambda n: calor.arange(n, dtype=dtype),
        "a sum of constants": lambda n: calor.full((n,), 2, dtype=dtype) + 1,
    }
    for n in _sizes(place, dtype):
        for what, make in sources.items():
            if what == "arange" and n > 1 << 15:
                continue
            if what == "arange" and not place.plain.info.supports("iota", dtype):
                continue
            jitted: Any = calor.jit(partial(make, n))
            want = np.array(make(n).numpy())
            for _ in range(3):
                made = jitted()
                _same(made.numpy(), want, f"{what} of {n} elements")
                lower(_Weights(made), calor.asarray(np.ones(n, dtype.numpy)))


@history(
    "an op sees the numbers of its operands at every call, though they come to the same memory",
    tier="compiled",
    looks=False,
)
def same_memory_other_numbers(place: Place) -> None:
    dtype = plain_type()
    step = calor.jit(lambda x, w: (x + w, x @ w if x.ndim == 2 else x * w))
    for shape in ((40,), (1500,), (64, 64), (160, 160), (20_000,)):
        n = int(np.prod(shape))
        for turn in range(4):
            x, w = (_ramp(n, dtype, k + turn).reshape(shape) % 5 for k in (0, 3))
            total, product = (t.numpy() for t in step(calor.asarray(x), calor.asarray(w)))
            _same(total, x + w, f"a sum of {shape} at call {turn + 1}")
            exact = x.astype(np.float64) @ w if x.ndim == 2 else x * w
            if dtype.itemsize >= 4:
                _same(product, exact.astype(x.dtype), f"a product of {shape} at call {turn + 1}")


@history(
    "weights that stay the same for many calls are looked at again when they change",
    tier="compiled",
)
def kept_weights_change(place: Place) -> None:
    dtype = plain_type()

    def product(x: Any, w: Any) -> Any:
        return x @ w

    shared = calor.jit(product)

    @calor.jit
    def lower(weights: _Weights, x: Any) -> Any:
        weights.tensors[0] -= x
        return x

    for rows, side in _WEIGHTS:
        # One program for all sizes, and one of this size alone: devices plan them in two ways.
        scale = dtype.numpy.type(side)
        alone = calor.jit(lambda x, w, by=scale: (x @ w) * calor.full((), by.item(), dtype=dtype))
        x = (_ramp(rows * side, dtype) % 3).reshape(rows, side)
        w = (_ramp(side * side, dtype, 1) % 3).reshape(side, side)
        held = _Weights(calor.asarray(w))
        one = np.ones_like(w)
        for turn in range(6):
            # Plans keep what they made of weights once they have seen the same ones a few times,
            # and more times if weights that they kept have changed soon; the reference has none.
            for _ in range(2 if place.interpreted else 4 if turn % 2 else 12):
                got = shared(calor.asarray(x), held.tensors[0]).numpy()
                more = alone(calor.asarray(x), held.tensors[0]).numpy()
            if dtype.itemsize >= 4:
                want = (x.astype(np.float64) @ w).astype(x.dtype)
                what = f"a product of {side} by {side} after {turn} changes"
                _same(got, want, what)
                _same(more, want * scale, f"{what}, times {side}")
            if turn % 3 == 0:
                lower(held, calor.asarray(one))
                w = w - one
            elif turn % 3 == 1:
                w = w[::-1].copy()
                held = _Weights(calor.asarray(w))
            else:
                held.tensors[0] += calor.asarray(one)
                w = w + one


@history(
    "weights that a program with a loop changes in place are read anew by its next call",
    tier="compiled",
)
def weights_of_loops_change(place: Place) -> None:
    dtype = plain_type()
    for steps, rows, side in _LOOPS:
        x = (_ramp(steps * rows * side, dtype) % 3).reshape(steps, rows, side)
        w = (_ramp(side * side, dtype, 1) % 3).reshape(side, side)
        one = calor.asarray(np.ones_like(w))

        @calor.jit
        def step(weights: _Weights, x: Any, one: Any = one) -> Any:
            (w,) = weights.tensors

            def body(carry: Any, row: Any) -> Any:
                made = calor.clip((row + carry) @ w.mT, -1, 1)
                return made, made

            _, made = calor.scan(body, x[0], x)
            beside = made[-1] @ w.mT
            weights.tensors[0] -= one
            return made, beside

        held = _Weights(calor.asarray(w))
        for turn in range(8):
            looped, alone = (t.numpy() for t in step(held, calor.asarray(x)))
            if dtype.itemsize >= 4:
                what = f"of {side} by {side} at call {turn + 1}"
                last, turned = x[0], w.T.astype(np.float64)
                for now, got in zip(x, looped, strict=True):
                    last = np.clip((now + last) @ turned, -1, 1).astype(x.dtype)
                    _same(got, last, f"products in a loop {what}")
                behind = (last @ turned).astype(x.dtype)
                _same(alone, behind, f"a product behind a loop {what}")
            w = w - np.ones_like(w)


@history(
    "weights that the host may change in place are read at every call",
    tier="compiled",
    features=("host_views",),
)
def shared_weights_change(place: Place) -> None:
    dtype = plain_type()
    for rows, side in _WEIGHTS:
        scale = dtype.numpy.type(side)
        step = calor.jit(lambda x, w, by=scale: (x @ w) * calor.full((), by.item(), dtype=dtype))
        x = (_ramp(rows * side, dtype) % 3).reshape(rows, side)
        array = (_ramp(side * side, dtype, 1) % 3).reshape(side, side)
        w = calor.asarray(array, copy=False)
        for turn in range(3):
            for _ in range(4):
                got = step(calor.asarray(x), w).numpy()
            if dtype.itemsize >= 4:
                want = (x.astype(np.float64) @ array).astype(x.dtype) * scale
                _same(got, want, f"a product of {side} by {side} after {turn} changes on the host")
            array += 1


class _Old:
    """A tensor for a consumer of DLPack that knows no arrays that are only read."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


@history(
    "weights that a consumer of DLPack may change in place are read at every call",
    tier="compiled",
    features=("host_views", "dlpack"),
)
def lent_weights_change(place: Place) -> None:
    dtype = plain_type()
    for rows, side in _WEIGHTS:
        scale = dtype.numpy.type(side)
        step = calor.jit(lambda x, w, by=scale: (x @ w) * calor.full((), by.item(), dtype=dtype))
        x = (_ramp(rows * side, dtype) % 3).reshape(rows, side)
        w = calor.asarray((_ramp(side * side, dtype, 1) % 3).reshape(side, side))
        for _ in range(12):
            step(calor.asarray(x), w)
        lent = np.from_dlpack(_Old(w))
        pointer = ctypes.cast(lent.ctypes.data, ctypes.POINTER(ctypes.c_char * lent.nbytes))
        written = np.frombuffer(memoryview(pointer.contents), dtype.numpy).reshape(side, side)
        for turn in range(3):
            for _ in range(12):
                got = step(calor.asarray(x), w).numpy()
            if dtype.itemsize >= 4:
                want = (x.astype(np.float64) @ np.array(w.numpy())).astype(x.dtype) * scale
                _same(got, want, f"a product of {side} by {side} after {turn} changes elsewhere")
            written += 1


CHECKS = [*transfers.checks, *state.checks, *memory.checks, *history.checks]
