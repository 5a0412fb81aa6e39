"""Calls: bound ones, of one tensor given twice, of stored programs, and errors of long programs.

A device may compile the whole call of a function for the arguments that it has seen. Other
arguments, a limit and an error in between must not show.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import float64, int32, int64
from calor.errors import ElementIndexError, OutOfMemoryError
from calor.transforms.state import Stateful

from .base import Array, Place, compiled, plain_array, plain_type
from .contract import Contracts
from .errors import raised
from .memory import KIB, limited

history = Contracts("history")
state = Contracts("state")
errors = Contracts("errors")
memory = Contracts("memory")
# Calls after which a device has compiled what it will, and calls of which each is looked at.
_OFTEN, _SEVERAL = 40, 3


class _Held(Stateful):
    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _equal(got: Any, want: Any, what: str) -> None:
    same = got.shape == np.shape(want) and got.tolist() == np.asarray(want).tolist()
    assert same, f"{what}: {got.tolist()}, not {np.asarray(want).tolist()}"


@history(
    "a bound call is right for arguments of other shapes, dtypes and kinds than those before",
    tier="compiled",
    looks=False,
)
def bound_calls_of_other_arguments(place: Place) -> None:
    w = plain_array([1, 2, 3, 4])
    other = next((d for d in (int32, int64, float64) if _adds(place, d)), plain_type())
    given: dict[str, Array] = {
        "the same shape": plain_array([5, 6, 7, 8]),
        "two axes": plain_array([[1, 0, 2, 0], [3, 3, 3, 3]]),
        "one element": plain_array([2]),
        "one axis of four and one of one": plain_array([[1], [2]]),
        "another dtype": np.array([4, 3, 2, 1], other.numpy),
        "no axis": plain_array(3),
        "no element": plain_array(np.zeros((0, 4))),
    }
    # What gives one tensor is called in another way than what gives several.
    for several in (False, True):
        call = calor.jit(_both if several else _product).bind(calor.asarray(w))
        kept = []
        # First tensors that were there before, and results that die; then new ones, and kept ones.
        known = {what: calor.asarray(x) for what, x in given.items()}
        for _ in range(_OFTEN):
            call(known["the same shape"])
        for turn in range(2):
            for what, x in given.items():
                for _ in range(_SEVERAL):
                    made = call(calor.asarray(x) if turn else known[what])
                    product = made[0] if several else made
                    if turn:
                        kept.append((product, w * x, what))
                    _equal(product, w * x, f"{what} in turn {turn + 1}")
        for got, want, what in kept:
            _equal(got, want, f"{what}, later")


def _product(weights: Any, x: Any) -> Any:
    return weights * x


def _both(weights: Any, x: Any) -> Any:
    return weights * x, x + x


def _adds(place: Place, dtype: Any) -> bool:
    info = place.plain.info
    return dtype is not plain_type() and all(
        info.supports(op, dtype) for op in ("add", "mul", "cast")
    )


@history("a bound call reads its state at each call, and writes it", tier="compiled")
def bound_calls_of_state(place: Place) -> None:
    def step(held: _Held, x: Any) -> Any:
        held.tensor += x
        return held.tensor * 2

    held = _Held(calor.asarray(plain_array([0, 0])))
    call, total = calor.jit(step).bind(held), plain_array([0, 0])
    for n in range(_OFTEN + 9):
        x = plain_array([n % 5, 1])
        if n == _OFTEN + 3:
            # Another tensor of the same shape, then one that was changed outside.
            total = plain_array([9, 9])
            held.tensor = calor.asarray(total)
        if n == _OFTEN + 6:
            held.tensor += 1
            total = total + 1
        total = total + x
        _equal(call(calor.asarray(x)), total * 2, f"call {n + 1}")
        _equal(held.tensor, total, f"the state after call {n + 1}")


@memory(
    "a bound call keeps to the limit, and goes on when there is room",
    tier="compiled",
    features=("memory_limit",),
    looks=False,
)
def bound_calls_within_the_limit(place: Place) -> None:
    x = calor.asarray(plain_array(np.ones(64 * KIB)))
    call = calor.jit(lambda w, x: x + w).bind(calor.asarray(plain_array(1)))
    for _ in range(_OFTEN):
        assert call(x)[0].item() == 2
    with limited(place, 32 * KIB):
        for _ in range(2):
            error = raised(lambda: call(x).numpy())
            assert isinstance(error, OutOfMemoryError), repr(error)
    assert call(x)[-1].item() == 2


@errors(
    "after an index out of range a bound call is right again",
    tier="compiled",
    dtypes=(int64,),
    op="gather",
)
def bound_calls_that_fail(place: Place) -> None:
    table = calor.asarray(plain_array([1, 2, 3]))
    call = calor.jit(lambda t, i: calor.take(t, i, axis=0) * 2).bind(table)
    good, bad = (calor.asarray(np.array(i)) for i in ([2, 0], [0, 3]))
    for turn in range(3):
        for _ in range(_SEVERAL if turn else _OFTEN):
            _equal(call(good), [6, 2], f"before error {turn + 1}")
        error = raised(lambda: call(bad).numpy())
        assert isinstance(error, ElementIndexError), repr(error)
    _equal(call(good), [6, 2], "after the errors")


@errors(
    "the error of a program names the index, axis and size of the read that failed",
    tier="full",
    dtypes=(int64,),
    op="gather",
)
def errors_name_their_read(place: Place) -> None:
    first, second = plain_array(np.arange(50)), plain_array(np.arange(14).reshape(2, 7))
    tensors = [calor.asarray(a) for a in (first, second)]

    def program(i: Any, j: Any) -> Any:
        one = calor.sum(calor.take(tensors[0], i, axis=0)) * 2
        return one + calor.take(tensors[1] + tensors[1], j, axis=1)

    call = program if place.interactive else calor.jit(program)
    for function in (call, calor.jit(program)):
        for indices, read in (
            (([1, 49], [3, 9]), (9, 1, 7)),
            (([1, -51], [3, 6]), (-51, 0, 50)),
        ):
            number, axis, size = read
            names = f"index {number} ", f"axis {axis} ", f"size {size}"
            i, j = (calor.asarray(np.array(k)) for k in indices)
            error = raised(partial(_read, function, i, j))
            assert isinstance(error, ElementIndexError), repr(error)
            lacks = [name for name in names if name not in f"{error} "]
            assert not lacks, f"{', '.join(lacks)} is not in: {error}"
            found = error.index, error.axis, error.size
            # A backend of functions may not know them apart from its message.
            known = found in (read, (None, None, None))
            assert known, f"the index, axis and size of the error are {found}: {error}"


def _read(function: Callable[..., Any], *tensors: Any) -> None:
    function(*tensors).numpy()


@state(
    "a tensor that is given twice is one tensor, also where one of the two is changed",
    tier="compiled",
)
def one_tensor_given_twice(place: Place) -> None:
    def change(a: Any, b: Any) -> Any:
        a += 1
        return b * 2 + a

    ways: dict[str, Callable[[Any, Any], Callable[[], Any]]] = {
        "given": lambda x, y: partial(calor.jit(change), x, y),
        "by name": lambda x, y: partial(calor.jit(change), x, b=y),
        "bound": lambda x, y: partial(calor.jit(change).bind(x), y),
        "bound both": lambda x, y: calor.jit(change).bind(x, y),
        "in a list": lambda x, y: partial(calor.jit(lambda pair: change(*pair)), [x, y]),
        "bound in a list": lambda x, y: partial(
            calor.jit(lambda part, b: change(part[0], b)).bind([x]), y),
    }  # fmt: skip
    for name, way in ways.items():
        for same in (True, False, True):
            x, y = (calor.asarray(plain_array([1, 2])) for _ in range(2))
            call = way(x, x if same else y)
            for turn in range(3):
                want = [6 + 3 * turn, 9 + 3 * turn] if same else [4 + turn, 7 + turn]
                _equal(call(), want, f"one tensor twice, {name}: {same}")
            _equal(x, [4, 5], f"the tensor that is changed, {name}")
            _equal(y, [1, 2], f"the other tensor, {name}")
    # One function, of which calls have one tensor and two.
    call, bound = calor.jit(change), calor.asarray(plain_array([1, 2]))
    quick = calor.jit(change).bind(bound)
    for turn, same in enumerate((False, True, False, True, True, False)):
        x, y = (calor.asarray(plain_array([1, 2])) for _ in range(2))
        _equal(call(x, x if same else y), [6, 9] if same else [4, 7], f"in turns: {same}")
        _equal(x, [2, 3], "the tensor that is changed, in turns")
        want = [6 + 3 * turn, 9 + 3 * turn] if same else [4 + turn, 7 + turn]
        _equal(quick(bound if same else y), want, f"bound, in turns: {same}")


@state("gradients add up in jitted steps as op by op", tier="training")
def gradients_add_up(place: Place) -> None:
    def step(w: Any, x: Any) -> Any:
        loss = calor.sum(w * w * x)
        loss.backward()
        return loss

    found = []
    for function in (step, calor.jit(step)):
        w: Any = calor.asarray(plain_array([1, 2]))
        w.requires_grad = True
        for n in range(3):
            function(w, calor.asarray(plain_array([n + 1, 1])))
        first = w.grad.tolist()
        w.grad = None
        function(w, calor.asarray(plain_array([1, 1])))
        found.append((first, w.grad.tolist()))
    assert found[0] == ([12, 12], [2, 4]), f"op by op: {found[0]}"
    assert found[1] == found[0], f"jitted: {found[1]}, op by op: {found[0]}"


# Numbers with all their digits, of either sign of zero, and without a value.
_NUMBERS = (0.1, 1 / 3, -0.0, 1e-30, float("inf"), float("nan"), 16777215.0, 2.0**-140)


@history(
    "a stored program has its numbers with all their digits, and its attributes",
    tier="compiled",
    features=("serialize",),
    looks=False,
)
def stored_numbers(place: Place) -> None:
    device, dtype = place.plain, plain_type()
    if not dtype.is_inexact:
        return
    backend, index = device.backend, device.index
    x = np.array([0.0, -0.0, 1.5, -3.0], dtype.numpy)
    with np.errstate(over="ignore"):
        numbers = [dtype.numpy.type(v) for v in _NUMBERS]

    def program(t: Any) -> list[Any]:
        made = [t * calor.full((4,), v.item(), dtype=dtype) for v in numbers]
        moved = [t + v.item() for v in numbers]
        return [*made, *moved, calor.flip(t, axis=0), calor.clip(t, -1 / 3, 0.1)]

    with np.errstate(all="ignore"):
        graph = calor.trace(program, calor.asarray(x))
        executable = compiled(place, graph)
        loaded = backend.deserialize(index, backend.serialize(index, executable))
    results = []
    for one in (executable, loaded):
        made = zip(one([backend.upload(index, x)]), graph.output_specs, strict=True)
        results.append([np.array(backend.download(index, b, s)).tobytes() for b, s in made])
    for n, (a, b) in enumerate(zip(*results, strict=True)):
        assert a == b, f"result {n} of the stored program has other bits"


CHECKS = [*history.checks, *state.checks, *errors.checks, *memory.checks]
