"""Bound calls after any number of calls in any mode: each is the plain call at that moment.

A call that is made often may be compiled for the types, modes and buffers that it met, so a guard
that is missing shows only after many calls, and only where the next call differs in that one thing.
A function with its bound part is drawn, called so often within a drawn mode, and then with what
differs: arguments, modes, places of the call, and what was changed of the bound part meanwhile.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from threading import Thread
from typing import Any, Final

import numpy as np

import calor
from calor.config import config
from calor.dtypes import bfloat16, float32, float64, int32, int64
from calor.transforms.state import Stateful

from .base import Check, Place
from .jitted_calls import same_results

CONTRACT: Final = "a bound call is the plain call, however often and in whatever mode it was made"
_HISTORIES, _CALLS = 36, 10
_COUNTS: Final = (1, 2, 9)
# Numbers of calls after which nothing, some way, and what a device compiles is there.
_BEFORE: Final = (1, 3, 36, 36, 36)
# In what a call differs from those that were made often.
_DIFFERENCES: Final = (
    "modes", "modes", "modes", "argument", "bound part", "place", "place", "all", "nothing",
)  # fmt: skip
Rng = np.random.Generator


class _Object(Stateful):
    """What a function reads beside its tensors: a number, and tensors of its own."""

    def __init__(self, tensor: Any, captured: Any) -> None:
        self.tensor, self.captured, self.scale = tensor, captured, 2.0


class _Number(Stateful):
    """An object without a tensor, whose number is part of a program."""

    def __init__(self) -> None:
        self.scale = 2.0


def _of_weights(given: Any, x: Any) -> Any:
    made = x @ given[0]
    for w in given[1:]:
        made = made + w @ x
    return made * 2


def _written(given: Any, x: Any) -> Any:
    given.tensor = given.tensor * 0.5 + x
    return given.tensor @ x


def _forms(held: _Object, number: _Number) -> dict[str, Callable[..., Any]]:
    """Return functions of what is bound, weights or an object, and an argument."""
    captured = held.captured
    return {
        "weights": _of_weights, "written": _written,
        # New numbers have the dtype that is the default at the call.
        "new": lambda given, x: (x @ given[0]) * calor.ones(2),
        "number": lambda given, x: (x @ given[0]) * number.scale,
        "object": lambda given, x: (x @ given.tensor) * given.scale,
        "captured": lambda given, x: x @ captured + given[0],
        "attribute": lambda given, x: x @ given[0] * held.scale + held.captured,
        "several": lambda given, x: [x @ given[0], given[-1] - x],
    }  # fmt: skip


def _numbers(rng: Rng, *shape: int) -> Any:
    return calor.asarray(rng.integers(-3, 4, shape).astype(np.float32))


class _History:
    """A function with what is bound to it and captured, and arguments for its calls."""

    def __init__(self, rng: Rng, place: Place) -> None:
        self.rng, self.place = rng, place
        self.weights = [
            _numbers(rng, 2, 2) for _ in range(int(rng.choice(_COUNTS, p=(0.5, 0.35, 0.15))))
        ]
        self.object = _Object(_numbers(rng, 2, 2), _numbers(rng, 2, 2))
        self.number, self.runs = _Number(), 0
        forms = _forms(self.object, self.number)
        self.form = str(rng.choice(list(forms), p=(0.34, 0.06, 0.2, 0.16, 0.06, 0.06, 0.06, 0.06)))
        self.plain = self._counted(forms[self.form])
        self.first: Any = self.object if self.form in ("object", "written") else self.weights
        self.bound = calor.jit(self.plain).bind(self.first)
        self.names: list[str] = []
        self.learners: list[Any] = []

    def _counted(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts that its Python ran."""

        def counted(given: Any, x: Any) -> Any:
            self.runs += 1
            return body(given, x)

        return counted

    def modes(self) -> list[tuple[str, Callable[[], Any]]]:
        """Return no mode, one or two of those that a program may differ in."""
        made: list[tuple[str, Callable[[], Any]]] = [
            ("no_grad", calor.no_grad), ("enable_grad", calor.enable_grad),
            ("float64 by default", partial(calor.default_dtype, float64)),
            ("float64 by default", partial(calor.default_dtype, float64)),
            ("highest", partial(calor.matmul_precision, "highest")),
            ("tf32", partial(calor.matmul_precision, "tf32")),
        ]  # fmt: skip
        if self.place.plain.info.dtypes.get(bfloat16):
            made += [("autocast", partial(calor.autocast, bfloat16))] * 3
            made.append(("no autocast", partial(calor.autocast, bfloat16, enabled=False)))
        count = int(self.rng.choice((0, 1, 1, 2)))
        return [made[int(self.rng.integers(len(made)))] for _ in range(count)]

    def argument(self, plain: bool = False) -> tuple[str, Any]:
        """Return an argument that differs in one thing from a square of float32, or is its like."""
        x = _numbers(self.rng, 2, 2)
        kinds: dict[str, Callable[[], Any]] = {
            "a square": lambda: x, "a result": lambda: x + 1, "turned": lambda: x.T,
            "a part": lambda: calor.concat([x, x])[1:3], "bound too": lambda: self.weights[0],
            "captured too": lambda: self.object.captured,
            "of the host": lambda: np.asarray(x.numpy()),
            "of three axes": lambda: calor.stack([x, x + 1]),
            "of whole numbers": lambda: x.astype(int32), "of float64": lambda: x.astype(float64),
            "a parameter": lambda: self._learning(x),
            "of what learns": lambda: self._learning(x) * 1,
        }  # fmt: skip
        if self.form == "written" or plain:
            kinds = {n: kinds[n] for n in ("a square", "a result", "turned", "a part")}
        name = str(self.rng.choice(list(kinds)))
        return name, kinds[name]()

    def _learning(self, x: Any) -> Any:
        x.requires_grad = True
        self.learners.append(x)
        return x

    def places(self) -> dict[str, Callable[[Callable[..., Any], Any], Any]]:
        """Return where a call may stand: each takes a call and its argument."""
        return {
            "alone": lambda call, x: call(x),
            "in a jitted function": lambda call, x: calor.jit(lambda t: call(t))(x),
            "with jit off": self._unjitted,
            "in another thread": self._beside,
            "in vmap": lambda call, x: calor.vmap(lambda t: call(t))(calor.stack([x, x * 2])),
            "in grad": lambda call, x: calor.grad(lambda t: self._total(call(t)))(x),
            "in a checkpoint": lambda call, x: calor.checkpoint(lambda t: call(t))(x),
            "in jvp": lambda call, x: calor.jvp(lambda t: call(t), (x,), (x * 2,)),
            "in debug_nans": self._watched,
        }

    def _total(self, made: Any) -> Any:
        return sum(calor.sum(t.astype(float32)) for t in calor.tree.leaves(made))

    def _unjitted(self, call: Callable[..., Any], x: Any) -> Any:
        before, runs = config.jit, self.runs
        config.jit = False
        try:
            made = call(x)
        finally:
            config.jit = before
        assert self.runs == runs + 1, "with jit off, a bound call did not run the function"
        return made

    def _watched(self, call: Callable[..., Any], x: Any) -> Any:
        with calor.debug_nans():
            return call(x)

    def _beside(self, call: Callable[..., Any], x: Any) -> Any:
        made: list[Any] = []
        device = calor.device(self.place.device)

        def run() -> None:
            with device:
                made.append(call(x))

        thread = Thread(target=run)
        thread.start()
        thread.join()
        assert made, "a bound call in another thread gave an error"
        return made[0]

    def change(self) -> None:
        """Change what is bound or captured, in a way in which it stays the same object."""
        way = int(self.rng.integers(7))
        w = self.weights[int(self.rng.integers(len(self.weights)))]
        number = float(self.rng.integers(-4, 5))
        with calor.no_grad():
            if way == 0:
                w[...] = _numbers(self.rng, 2, 2)
            elif way == 1:
                w += number
            elif way == 2:
                w.requires_grad = not w.requires_grad
            elif way == 3:
                self.object.scale = self.number.scale = number
            elif way == 4:
                self.object.tensor = _numbers(self.rng, 2, 2)
            elif way == 5:
                self.object.captured[0] = number
            elif self.form != "captured":
                self.object.captured = _numbers(self.rng, 2, 2)
        self.names.append(f"a change of kind {way}")

    def compare(self, where: str, name: str, x: Any, modes: Any) -> None:
        """Compare a bound call with the plain one, their results and what they leave."""
        self.names.append(f"{where} of {name} in {[n for n, _ in modes]}")
        told = f"{self.form}, {len(self.weights)} weights, after {'; '.join(self.names)}"[-1200:]
        start, found = np.array(self.object.tensor.numpy()), []
        given = calor.asarray(x) if isinstance(x, np.ndarray) else x
        for call, one in ((partial(self.plain, self.first), given), (self.bound, x)):
            self.object.tensor = calor.asarray(start)
            with ExitStack() as stack:
                for _, mode in modes:
                    stack.enter_context(mode())
                made = self.places()[where](call, one if where == "alone" else given)
            back = [] if where == "in jvp" else self._gradients(made)
            # A derivative of a compiled function may be said to learn where one of its parts does.
            made = [t.detach() for t in _listed(made)] if where == "in jvp" else made
            found.append((made, self.object.tensor.detach(), back))
        for what, want, got in zip(("", " leaves", " sends back"), *found, strict=True):
            same_results(_listed(got), _listed(want), told + what)

    def _gradients(self, made: Any) -> Any:
        leaves = [t for t in (*self.weights, *self.learners) if t.requires_grad]
        total = self._total(made)
        if not total.requires_grad:
            return []
        total.backward()
        found = [t.grad for t in leaves]
        for t in leaves:
            t.grad = None
        return found

    def go(self) -> None:
        """Call so often in one way, and then in ways that differ in one thing, mostly."""
        modes, (name, x) = self.modes(), self.argument(self.rng.random() < 0.8)
        before = int(self.rng.choice(_BEFORE))
        with ExitStack() as stack:
            for _, mode in modes:
                stack.enter_context(mode())
            start = np.array(self.object.tensor.numpy())
            for _ in range(before):
                self.bound(x)
            self.object.tensor = calor.asarray(start)
        self.names.append(f"{before} calls of {name} in {[n for n, _ in modes]}")
        for _ in range(_CALLS):
            what, where = str(self.rng.choice(_DIFFERENCES)), "alone"
            told, given, within = name, x, modes
            if what in ("modes", "all"):
                within = self.modes() or self.modes()
            if what in ("argument", "all"):
                told, given = self.argument()
            if what in ("bound part", "all"):
                self.change()
            if what in ("place", "all"):
                where = str(self.rng.choice(list(self.places())))
            moves = not isinstance(given, np.ndarray) and given.dtype.is_inexact
            if where in ("in grad", "in vmap", "in jvp") and not (
                moves and (where == "in grad" or self.form != "written")
            ):
                where = "alone"
            self.compare(where, told, given, within)


def _listed(made: Any) -> Any:
    return list(calor.tree.leaves(made))


def _run(place: Place) -> None:
    for number in range(_HISTORIES):
        _History(np.random.default_rng([place.seed, 231, number]), place).go()


def bound_histories() -> Iterator[Check]:
    """Yield the check of drawn histories of bound calls."""
    yield Check(
        kind="history",
        subject="bound-calls-drawn",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _History),
        op="dot_general",
        dtypes=(float32, float64, int32, int64),
        looks=True,
    )
