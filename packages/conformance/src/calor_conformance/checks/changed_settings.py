"""Settings that change between the calls of one program: each call is that of a fresh program.

Programs are made before settings are entered, inside of them, in other threads, and called in each
of these again: jitted, bound with few and with many tensors, as transforms and as training steps.
Beside each call the plain function runs in the same thread; what its results should be is known,
too: their dtypes, whether they take gradients, whose numbers are drawn.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, float64
from calor.errors import CalorError, ViewWarning
from calor.transforms.state import Stateful

from .base import Check, Place
from .jitted_calls import same_results
from .nested_modes import Worker, contexts_of, leave

CONTRACT: Final = "a program computes by the settings of its call, whenever it was made and called"
_HISTORIES, _STEPS, _ASKED, _OFTEN = 4, 12, 3, 34
Rng = np.random.Generator
# Contexts that a program enters itself; what it computes there is theirs, and ends with them.
_INNER: Final[dict[str, Callable[[], Any]]] = {
    "none": nullcontext, "no_grad": calor.no_grad, "enable_grad": calor.enable_grad,
    "autocast": partial(calor.autocast, "bfloat16"),
    "no autocast": partial(calor.autocast, enabled=False),
    "float32": partial(calor.default_dtype, float32),
    "float64": partial(calor.default_dtype, float64),
    "highest": partial(calor.matmul_precision, "highest"),
    "high": partial(calor.matmul_precision, "high"),
}  # fmt: skip


_KINDS: Final = ("jitted", "bound", "bound of many", "closed", "checkpoint", "object", "at once",
                 "quick", "quick", "quick", "step", "bound step")  # fmt: skip


class _Held(Stateful):
    """The state of a training step."""

    def __init__(self, w: Any) -> None:
        self.w = w


def _body(inner: str, w: Any, x: Any) -> Any:
    """Return what shows each setting, outside of contexts of its own and inside."""
    with _INNER[inner]():
        within = x @ w, calor.zeros(2) + 1, x * 3
    rows = calor.asarray(np.zeros((2, 2), np.float32), device=x.device) * 1
    row = rows[0]
    row += 1
    return {
        "product": x @ w, "new": calor.zeros(2) + 0.5, "made": x * 2, "within": list(within),
        "drawn": calor.random.uniform((2,)), "shared": rows, "quotient": w / (x[0] + 1),
    }  # fmt: skip


def _one(w: Any, x: Any) -> Any:
    """Return one tensor that shows most settings, as the shortest calls have it."""
    rows = x * 0 + w * 0
    row = rows[0]
    row += 1
    return x @ w + rows + (calor.zeros(2) + 0.5)


def _step(held: _Held, x: Any) -> Any:
    """Take a step of whole numbers."""
    loss = calor.sum((x @ held.w).astype(float32))
    loss.backward()
    with calor.no_grad():
        held.w -= held.w.grad
    held.w.grad = None
    return {"loss": loss.detach(), "product": (x @ held.w).detach()}


class _Program:
    """A program and the plain function of it."""

    def __init__(self, rng: Rng, numbers: Any) -> None:
        self.inner = str(rng.choice(list(_INNER)))
        self.w = calor.asarray(numbers)
        self.plain: Callable[[Any], Any] = partial(_body, self.inner, self.w)
        self.kind = str(rng.choice(_KINDS))
        self.call = self.made()

    def made(self) -> Any:
        body, w = partial(_body, self.inner), self.w
        if "step" in self.kind:
            # The states of the program and of the plain function, step by step.
            self.states = [_Held(calor.asarray(w.numpy(), requires_grad=True)) for _ in range(2)]
            self.plain = partial(_step, self.states[1])
            jitted: Any = calor.jit(_step)
            return jitted.bind(self.states[0]) if "bound" in self.kind else partial(
                jitted, self.states[0])  # fmt: skip
        if self.kind == "quick":
            quick = calor.jit(_one).bind(w)
            self.plain = lambda x: {"made": _one(w, x)}
            with suppress(CalorError):
                # So often that a device may compile it, unless what is written is refused.
                for _ in range(_OFTEN):
                    quick(w[:, :1])
            return lambda x: {"made": quick(x)}
        if self.kind == "jitted":
            return partial(calor.jit(body), w)
        if self.kind == "bound":
            return calor.jit(body).bind(w)
        if self.kind == "bound of many":
            others = [calor.ones(1) for _ in range(9)]
            return calor.jit(lambda every, x: body(every[3], x)).bind([*others[:3], w, *others])
        if self.kind == "closed":
            return calor.jit(partial(body, w))
        if self.kind == "checkpoint":
            return partial(calor.jit(calor.checkpoint(body)), w)
        if self.kind == "object":
            return calor.jit(lambda held, x: body(held.w, x)).bind(_Held(w))
        return partial(body, w)


def _outcome(run: Callable[[Any], Any], x: Any, seed: int) -> tuple[Any, Any, Any]:
    """Return results, the gradient of an input, and a number that is drawn afterwards."""
    calor.random.seed(seed)
    x.grad = None
    try:
        made = run(x)
        total = made["made"] if "made" in made else made["loss"]
        if total.requires_grad:
            calor.sum(total).backward()
    except CalorError as error:
        return type(error).__name__, None, None
    after = calor.random.uniform(()).item()
    return made, None if x.grad is None else x.grad.numpy().tolist(), after


def _call(program: _Program, array: Any, seed: int, wants: dict[str, Any], what: str) -> None:
    leaf = "step" not in program.kind and program.kind != "quick"
    x = calor.asarray(array, requires_grad=leaf)
    want = _outcome(program.plain, x, seed)
    for turn in range(2 if "step" not in program.kind else 1):
        got = _outcome(program.call, x, seed)
        told = f"{program.kind} with {program.inner}, {what}, turn {turn}"
        same_results(got[0], want[0], told)
        assert got[1:] == want[1:], f"{told}: gradient and next number {got[1:]}, not {want[1:]}"
        if leaf and not isinstance(got[0], str):
            _as_set(got[0], wants, told)
    if "step" in program.kind:
        ours, theirs = (held.w.detach().numpy().tolist() for held in program.states)
        assert ours == theirs, f"{program.kind} leaves {ours}, not {theirs}, {what}"


def _as_set(made: dict[str, Any], wants: dict[str, Any], told: str) -> None:
    """Compare results with what the settings ask for."""
    found = {
        "gradients": made["made"].requires_grad, "autocast": made["product"].dtype,
        "default": made["new"].dtype,
    }  # fmt: skip
    right = {**wants, "default": wants["default"][0]}
    for name, got in found.items():
        assert got == right[name], f"{told}: {name} is {got}, not {right[name]}"
    shared = made["shared"][0, 0].item() == 1
    assert shared is (wants["views"] == "shared"), f"{told}: a view shares: {shared}"


class _History:
    """Threads with settings, and programs that all of them call."""

    def __init__(self, place: Place, rng: Rng, workers: list[Worker]) -> None:
        self.place, self.rng, self.workers = place, rng, workers
        self.programs: list[_Program] = []
        self.names: list[str] = []

    def worker(self) -> tuple[int, Worker]:
        number = int(self.rng.integers(len(self.workers)))
        return number, self.workers[number]

    def make(self) -> None:
        number, worker = self.worker()
        w = self.rng.integers(1, 3, (1, 2)).astype(np.float32)
        made = worker.run(_Program, np.random.default_rng(int(self.rng.integers(1 << 30))), w)
        self.programs.append(made)
        self.names.append(f"{made.kind} made in {number}")

    def enter(self) -> None:
        number, worker = self.worker()
        context, setting = contexts_of(self.place, self.rng)
        while setting[0] == "device":
            context, setting = contexts_of(self.place, self.rng)
        worker.run(context.__enter__)
        worker.within.append((context, setting))
        self.names.append(f"{number} enters {setting}")

    def leave(self) -> None:
        number, worker = self.worker()
        if worker.within:
            context, setting = worker.within.pop()
            worker.run(leave, context, bool(self.rng.integers(2)))
            self.names.append(f"{number} leaves {setting}")

    def ask(self) -> None:
        array = self.rng.integers(1, 4, (2, 1)).astype(np.float32)
        for _ in range(_ASKED):
            program = self.programs[int(self.rng.integers(len(self.programs)))]
            number, worker = self.worker()
            # A number that tf32 does not keep.
            exact = 0 if "step" in program.kind else 2.0**-13
            what = f"in {number} after {', '.join(self.names)}"
            seed = int(self.rng.integers(100))
            worker.run(_call, program, array + np.float32(exact), seed, worker.wants(), what)

    def go(self) -> None:
        for _ in range(3):
            self.make()
        every = [self.enter, self.enter, self.leave, self.make]
        for _ in range(_STEPS):
            every[int(self.rng.integers(len(every)))]()
            self.ask()


def _run(place: Place) -> None:
    plain = {"gradients": True, "autocast": float32, "default": (float32, float32),
             "views": "warn"}  # fmt: skip
    for number in range(_HISTORIES):
        rng = np.random.default_rng([place.seed, 151, number])
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", ViewWarning)
            workers = []
            for _ in range(2):
                pool = stack.enter_context(ThreadPoolExecutor(1))
                pool.submit(calor.device(place.device).__enter__).result()
                workers.append(Worker(pool, plain))
            _History(place, rng, workers).go()


def changed_settings() -> Iterator[Check]:
    """Yield the check of programs between whose calls settings change."""
    yield Check(
        kind="history",
        subject="settings-between-calls",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_Program) + inspect.getsource(_History),
        op="random_bits",
        dtypes=(float32,),
        looks=True,
    )
