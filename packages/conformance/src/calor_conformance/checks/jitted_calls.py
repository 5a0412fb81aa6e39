"""Calls of one jitted function that differ in anything: each is the plain call at that moment.

A program that was compiled for one call may be taken for another that differs in a dtype, a
layout, a static value, a structure, a keyword, a mode, or in which tensors take gradients. Calls
are drawn, between them what is bound and captured is changed, and the same call of the function
that is not compiled is made beside it. What was seen before is not traced again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bfloat16, complex64, float32, float64, int8, int32, int64, uint32
from calor.transforms.state import Stateful

from .base import Check, Place

CONTRACT: Final = "a jitted call is the plain call, whatever else the function was called with"
_HISTORIES, _CALLS = 2, 24
_OFTEN, _TURNS = 3, 36
Rng = np.random.Generator
_DTYPES: Final = (float32, float32, int32, float64, bfloat16, complex64, int8)
_STATICS: Final = (
    "one", "two", 1, 1.0, True, 0.0, -0.0, None, (1, 2), (1.0, 2), float("nan"),
    ("a", ("b", 0)), float32, np.float32(1), np.int64(1), frozenset((1,)),
)  # fmt: skip
_NUMBERS: Final = (2, 3, 2.5, 1.0, 2 + 1j, -1)


class _Holder(Stateful):
    """What a program captures: a tensor, a stream of random numbers, and a mode."""

    def __init__(self) -> None:
        self.weight: Any = calor.asarray(np.float32(2))
        self.stream = calor.random.Generator(5)
        self.training = True


class _Pair:
    """A container of one's own: two parts, and a tag that belongs to the structure."""

    def __init__(self, one: Any, other: Any, tag: str) -> None:
        self.one, self.other, self.tag = one, other, tag


calor.tree.register(
    _Pair,
    lambda p: ((p.one, p.other), p.tag),
    lambda tag, parts: _Pair(parts[0], parts[1], str(tag)),
)


def _told(value: Any) -> Any:
    """Return what a static value is, for what is equal may be of another kind."""
    return type(value).__name__, repr(value)


def _program(holder: _Holder) -> Callable[..., Any]:
    """Return a function whose results show all that a call may differ in."""

    def program(x: Any, n: Any, *rest: Any, how: Any = "none", held: Any = None, y: Any = 1) -> Any:
        made = x * n + holder.weight if holder.training else x * n
        leaves = [calor.ones(2) * t for t in calor.tree.leaves(held) if t is not None]
        square = calor.ones((2, 2))
        drawn = calor.random.uniform((2,), generator=holder.stream)
        return {
            "made": made, "new": calor.zeros(2) + 1, "product": square @ square, "drawn": drawn,
            "leaves": leaves, "how": _told(how), "rest": [r + y for r in rest],
            "tag": getattr(held, "tag", None), "y": y * made[..., :1],
            "kinds": [x.dtype.name, x.shape],
        }  # fmt: skip

    return program


def _tensor(rng: Rng, leaves: list[Any]) -> Any:
    """Draw a tensor: of any dtype and layout, computed or not, of the host or with a gradient.

    Those that collect a gradient are added to ``leaves``.
    """
    dtype = _DTYPES[int(rng.integers(len(_DTYPES)))]
    shape = ((2,), (3,), (2, 3), (3, 2), (1,))[int(rng.integers(5))]
    x = calor.asarray(rng.integers(-4, 5, shape)).astype(dtype)
    kind = int(rng.integers(8))
    if kind == 0 and x.ndim == 2:
        return calor.permute_dims(x, (1, 0))
    if kind == 1:
        return x[::-1]
    if kind == 2:
        return np.array(x.numpy()) if dtype in (float32, int32, float64) else x
    if kind in (3, 4) and dtype.kind == "float":
        x.requires_grad = True
        leaves.append(x)
        return x if kind == 3 else x * 1
    if kind == 5:
        calor.eval(x)
        return x
    return x + 0


def _held(rng: Rng) -> Any:
    a, b = (calor.asarray(rng.integers(-4, 5, 2)).astype(float32) for _ in range(2))
    forms: Any = (
        None, a, [a, b], (a, b), {"a": a, "b": b}, {"b": b, "a": a}, {"a": a, "c": b}, [a, [b]],
        [a, None], (a, 2.0), {"a": (a,), "b": 3}, [], [a, a], _Pair(a, b, "x"), _Pair(a, b, "y"),
        _Pair(a, None, "x"), [_Pair(a, 2.0, "x")],
    )  # fmt: skip
    return forms[int(rng.integers(len(forms)))]


def _modes(rng: Rng) -> tuple[list[Any], tuple[str, ...]]:
    made: dict[str, Callable[[], Any]] = {
        "no_grad": calor.no_grad, "autocast": partial(calor.autocast, "bfloat16"),
        "autocast16": partial(calor.autocast, "float16"),
        "float64": partial(calor.default_dtype, float64),
        "tf32": partial(calor.matmul_precision, "tf32"), "enable_grad": calor.enable_grad,
        "no autocast": partial(calor.autocast, enabled=False),
    }  # fmt: skip
    names = tuple(str(n) for n in rng.choice(list(made), int(rng.choice((0, 0, 1, 2)))))
    return [made[name] for name in names], names


def _drawn(rng: Rng, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Draw the arguments of a call."""
    args = [_tensor(rng, leaves), _NUMBERS[int(rng.integers(len(_NUMBERS)))]]
    args += [_tensor(rng, leaves) for _ in range(int(rng.choice((0, 0, 1, 2))))]
    more: dict[str, Any] = {}
    if rng.random() < 0.7:
        more["how"] = _STATICS[int(rng.integers(len(_STATICS)))]
    if rng.random() < 0.6:
        more["held"] = _held(rng)
    if rng.random() < 0.4:
        more["y"] = _NUMBERS[int(rng.integers(len(_NUMBERS)))]
    if rng.random() < 0.5:
        more = dict(reversed(more.items()))
    return tuple(args), more


def same_results(got: Any, want: Any, what: str) -> None:
    assert type(got) is type(want), f"{what}: {type(got).__name__}, not {type(want).__name__}"
    if isinstance(want, dict):
        assert list(got) == list(want), f"{what}: {list(got)}, not {list(want)}"
        for key, value in want.items():
            same_results(got[key], value, f"{what}, {key}")
    elif isinstance(want, list | tuple):
        assert len(got) == len(want), f"{what}: {len(got)} results, not {len(want)}"
        for a, b in zip(got, want, strict=True):
            same_results(a, b, what)
    elif isinstance(want, calor.Tensor):
        told = (got.dtype, got.shape, got.requires_grad)
        right = (want.dtype, want.shape, want.requires_grad)
        assert told == right, f"{what}: {told}, not {right}"
        a, b = (t.detach().astype(complex64).numpy() for t in (got, want))
        assert np.array_equal(a, b), f"{what}: {a.tolist()}, not {b.tolist()}"
    else:
        assert got == want, f"{what}: {got!r}, not {want!r}"


def _gradients(made: Any, tensors: list[Any]) -> list[Any]:
    """Return what a call's results send back to tensors that take gradients."""
    for t in tensors:
        t.grad = None
    total = calor.sum(made["made"] * 3)
    if not total.requires_grad:
        return []
    total.backward()
    return [t.grad for t in tensors]


class _Calls:
    """A function, jitted and bound, with what it captures, and the calls that were made."""

    def __init__(self, rng: Rng, bound: int) -> None:
        self.rng, self.holder, self.bound = rng, _Holder(), bound
        self.plain = _program(self.holder)
        # The number may be static too, by its place, also where the first argument is bound.
        places = (1,) if rng.random() < 0.4 else ()
        self.jitted = calor.jit(self.plain, static_argnums=places, static_argnames=("how",))
        self.calls: list[str] = []
        # Arguments to repeat, with what they were called within.
        self.known: list[tuple[Any, ...]] = []
        self.binds: dict[int, Any] = {}

    def change(self) -> None:
        """Change what the function captures."""
        way = int(self.rng.integers(6))
        number = float(self.rng.integers(-4, 5))
        with calor.no_grad():
            if way == 0:
                self.holder.training = not self.holder.training
            elif way == 1:
                self.holder.weight = calor.asarray(np.float32(number))
            elif way == 2:
                self.holder.weight[...] = number
            elif way == 3:
                self.holder.weight.requires_grad = not self.holder.weight.requires_grad
            elif way == 4 and self.known:
                # What is bound is read at each call, and so is what a program was compiled for.
                args, _, leaves, *_ = self.known[int(self.rng.integers(len(self.known)))]
                x = args[0]
                if isinstance(x, np.ndarray):
                    np.negative(x, out=x)
                elif not x.requires_grad or any(x is leaf for leaf in leaves):
                    x[...] = -x
            else:
                self.holder.stream.set_state(calor.random.Generator(int(abs(number))).state)

    def call(self) -> None:
        """Make a call, often one of those before."""
        if self.known and self.rng.random() < 0.4:
            drawn = self.known[int(self.rng.integers(len(self.known)))]
        else:
            leaves: list[Any] = []
            drawn = (*_drawn(self.rng, leaves), leaves, *_modes(self.rng))
            self.known.append(drawn)
        args, more, leaves, modes, names = drawn
        self.calls.append(f"{args!r}, {more!r} within {names}")
        with ExitStack() as stack:
            for mode in modes:
                stack.enter_context(mode())
            self.compare(args, more, leaves, f"call {len(self.calls)}: {self.calls[-1]}")

    def compare(self, args: Any, more: Any, leaves: list[Any], what: str) -> None:
        """Compare a call with that of the function which is not jitted, twice."""
        holder, plain = self.holder, [_of_device(x) for x in args]
        if holder.weight.requires_grad:
            leaves = [*leaves, holder.weight]
        state = holder.stream.state
        want = self.plain(*plain, **more)
        back, after = _gradients(want, leaves), holder.stream.state
        for turn in range(2):
            holder.stream.set_state(state)
            count = self.jitted.trace_count
            call = self.jitted
            if self.bound:
                if id(args) not in self.binds:
                    self.binds[id(args)] = self.jitted.bind(*args[: self.bound])
                call = self.binds[id(args)]
            got = call(*args[self.bound :], **more)
            same_results(got, want, f"{what}, turn {turn}")
            same_results(_gradients(got, leaves), back, f"{what}, turn {turn}: the gradients")
            ends = holder.stream.state
            same_results(list(ends), list(after), f"{what}, turn {turn}: the stream afterwards")
            if turn:
                assert self.jitted.trace_count == count, f"{what}: traced again"


def _of_device(x: Any) -> Any:
    return calor.asarray(x) if isinstance(x, np.ndarray) else x


def _run(bound: int, place: Place) -> None:
    for number in range(_HISTORIES):
        rng = np.random.default_rng([place.number(number), bound])
        calls = _Calls(rng, bound)
        for _ in range(_CALLS):
            if rng.random() < 0.3:
                calls.change()
            calls.call()


def _often(place: Place) -> None:
    """A small bound call made so often that a device may compile it, and then another way."""
    for number in range(_OFTEN):
        rng = np.random.default_rng([place.number(number), 7])
        count = int(rng.choice((1, 2, 9)))
        weights: list[Any] = [
            calor.asarray(rng.integers(-2, 3, (2, 2)).astype(np.float32)) for _ in range(count)
        ]

        def run(given: list[Any], x: Any) -> Any:
            made = x
            for w in given:
                made = made + w @ w
            return made * 2

        call = calor.jit(run).bind(weights)
        x = calor.asarray(rng.integers(-2, 3, (2, 2)).astype(np.float32))
        for turn in range(_TURNS):
            same_results(call(x), run(weights, x), f"{count} bound, call {turn}")
        for turn in range(_CALLS // 2):
            modes, names = _modes(rng)
            given = x.astype((float32, float64, int32)[int(rng.choice((0, 0, 1, 2)))])
            given = given[:1] if rng.random() < 0.2 else given
            with calor.no_grad():
                w = weights[int(rng.integers(count))]
                if rng.random() < 0.4:
                    w[...] = -w
                if rng.random() < 0.4:
                    w.requires_grad = not w.requires_grad
            with ExitStack() as stack:
                for mode in modes:
                    stack.enter_context(mode())
                same_results(
                    call(given), run(weights, given), f"{count} bound, {names}, change {turn}"
                )


def _described(place: Place) -> None:
    """Functions keep their names and texts, and a jitted one tells why it was traced."""

    def scaled(x: Any, by: Any = 2.0) -> Any:
        """Scale a tensor."""
        return calor.sum(x * by)

    for wrap in (calor.jit, calor.grad, calor.value_and_grad, calor.vmap, calor.checkpoint,
                 calor.jacrev, calor.jacfwd, calor.hessian, calor.custom_vjp, calor.custom_jvp,
                 calor.autocast()):  # fmt: skip
        made = wrap(scaled)
        told = getattr(made, "__name__", None), getattr(made, "__doc__", None)
        assert told == ("scaled", "Scale a tensor."), f"{wrap}: {told}"
    call, x = calor.jit(scaled, dynamic=False), calor.asarray(np.ones(2, np.float32))
    reasons = ["first call"]
    assert call.explain().splitlines()[0] == "scaled: 0 traces", call.explain()
    call(x)
    other = x.astype(float64)
    changes: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
        (lambda: call(other), ("float32[2]", "float64[2]", "argument 0")),
        (lambda: call(x[:1]), ("float32[1]",)), (lambda: call(x, 3.0), ()),
        (lambda: call(x, x), ("1 tensor arguments became 2",)),
    ]  # fmt: skip
    for again, words in changes:
        again()
        count, lines = call.trace_count, call.explain().splitlines()
        reasons.append(lines[count])
        assert lines[0] == f"scaled: {count} traces", lines[0]
        assert count == len(reasons), f"{count} traces: {lines}"
        assert all(word in lines[count] for word in words), f"{lines[count]}: not {words}"
    modes: Any = ((calor.no_grad(), "gradients"), (calor.autocast(), "autocast"),
                  (calor.default_dtype(float64), "default_dtype"),
                  (calor.matmul_precision("high"), "matmul_precision"))  # fmt: skip
    for mode, word in modes:
        with mode:
            call(x)
        assert word in call.explain().splitlines()[-1], call.explain()
    assert repr(call) == f"<jitted scaled, {call.trace_count} traces>", repr(call)


def jitted_calls() -> Iterator[Check]:
    """Yield the checks of drawn calls, with none and some of the arguments bound."""
    ways: list[tuple[str, Any, Any]] = [
        (f"jitted-calls-with-{bound}-bound", partial(_run, bound), _Calls) for bound in (0, 1, 2)
    ]
    ways += [("bound-calls-made-often", _often, _often), ("described", _described, _described)]
    for subject, run, of in ways:
        yield Check(
            kind="history",
            subject=subject if "calls" in subject else f"jitted-calls-{subject}",
            tier="compiled",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, of),
            op="random_bits",
            dtypes=(float32, int32, int64, float64, bfloat16, complex64, int8, uint32),
            looks=True,
        )
