"""Several hooks of nested modules: what each is called with, in which order, and what remains.

Two modules, one inside the other and called twice in each pass, have hooks of all kinds. A hook
looks, replaces by numbers of its own, exchanges the first and the second of what it gets, removes
itself or raises. The model is the list of calls that are due, with the values in them, and the
gradients at both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor

from .base import Array, Check
from .driven import Driven, checks_of, equal

PACKAGE: Final = "calor_nn"
CONTRACT: Final = "hooks are called in order, each with what those before it left"
_KINDS: Final = ("forward_pre", "forward", "backward_pre", "backward")
# What a hook does; all but "looks" and "once" return something.
_DEEDS: Final = ("looks", "once", "doubles", "swaps", "adds", "doubles", "swaps")
Pair = tuple[Any, Any]
_ROOM: Final = 1e-6


class _HookError(Exception):
    """What a hook raises."""


def _changed(deed: str, pair: Pair) -> Pair:
    first, second = pair
    if deed == "swaps" and first is not None and second is not None:
        return second, first
    times, plus = (2, 0) if deed == "doubles" else (1, 1 if deed == "adds" else 0)
    return tuple(None if x is None else x * times + plus for x in pair)  # type: ignore[return-value]


def _back(deed: str, pair: Pair) -> Pair:
    """Return gradients as they pass back through what a forward hook did."""
    if deed == "swaps":
        return pair[1], pair[0]
    return _changed(deed if deed == "doubles" else "looks", pair)


@dataclass(eq=False)
class _Hook:
    """One hook: where it is, what it does, and the list that its calls are written into."""

    owner: str
    kind: str
    deed: str
    number: int
    calls: list[Any]
    handle: Any = None
    # While it is traced, there are no numbers to look at.
    traced: bool = False

    def __call__(self, module: Any, *given: Any) -> Any:
        if self.deed == "raises":
            raise _HookError(self.kind)
        if not self.traced:
            self.calls.append((self.number, [_arrays(x) for x in given]))
        if self.deed == "once":
            self.handle.remove()
        if self.deed in ("looks", "once"):
            return None
        last = given[1] if self.kind == "forward" else given[0]
        return _changed(self.deed, last)


def _arrays(pair: Any) -> list[Any]:
    return [None if x is None else x.detach().numpy() for x in pair]


class _Passes:
    """One pass forward and back in NumPy, with the calls of hooks that are due."""

    def __init__(self, hooks: list[_Hook], scale: Array, wants: tuple[bool, bool]) -> None:
        self.hooks, self.scale, self.wants = hooks, scale, wants
        self.calls: list[Any] = []
        # What passes back, from the last to the first.
        self.tape: list[Any] = []
        self.given: Pair = (None, None)

    def of(self, owner: str, kind: str) -> list[_Hook]:
        return [h for h in self.hooks if (h.owner, h.kind) == (owner, kind)]

    def over(self, hook: _Hook) -> None:
        # Both passes of the inner module hold the hooks that it had when it was called.
        if hook.deed == "once" and hook in self.hooks:
            self.hooks.remove(hook)

    def enter(self, owner: str, pair: Pair) -> Pair:
        for hook in self.of(owner, "forward_pre"):
            self.calls.append((hook.number, [list(pair)]))
            pair = _changed(hook.deed, pair)
            self.tape.append(partial(_back, hook.deed))
            if hook.deed == "swaps":
                self.wants = self.wants[1], self.wants[0]
            self.over(hook)
        self.given, wants = pair, self.wants
        hooks = self.of(owner, "backward")
        self.tape.append(lambda gs: self.into(hooks, wants, gs))
        return pair

    def into(self, hooks: list[_Hook], wants: tuple[bool, bool], gs: Pair) -> Pair:
        """Pass gradients by hooks, each of which gets those that the one before returned."""
        known = self.outgoing.pop()
        now: Pair = tuple(g if w else None for g, w in zip(gs, wants, strict=True))  # type: ignore[assignment]
        for hook in hooks:
            self.calls.append((hook.number, [list(now), list(known)]))
            now = _changed(hook.deed, now)
            self.over(hook)
        return now

    def leave(self, owner: str, given: Pair, pair: Pair) -> Pair:
        for hook in self.of(owner, "forward"):
            self.calls.append((hook.number, [list(given), list(pair)]))
            pair = _changed(hook.deed, pair)
            self.tape.append(partial(_back, hook.deed))
            self.over(hook)
        hooks = self.of(owner, "backward_pre")
        self.tape.append(lambda gs: self.out(hooks, gs))
        return pair

    def out(self, hooks: list[_Hook], gs: Pair) -> Pair:
        for hook in hooks:
            self.calls.append((hook.number, [list(gs)]))
            gs = _changed(hook.deed, gs)
            self.over(hook)
        self.outgoing.append(gs)
        return gs

    def inner(self, pair: Pair) -> Pair:
        a, b = given = self.enter("inner", pair)
        wants = self.wants
        self.tape.append(lambda gs: tuple(
            g if w else None for g, w in zip((gs[0] * 2 + gs[1], gs[0] - gs[1]), wants,
                                             strict=True)))  # fmt: skip
        self.wants = (True, True)
        return self.leave("inner", given, (a * 2 + b, a - b))

    def forward(self, pair: Pair) -> Pair:
        given = self.enter("outer", pair)
        p, q = self.inner(self.inner(given))
        self.tape.append(lambda gs: (gs[0] * self.scale, gs[1]))
        return self.leave("outer", given, (p * self.scale, q))

    def backward(self, gs: Pair) -> Pair:
        self.outgoing: list[Pair] = []
        for step in reversed(self.tape):
            gs = step(gs)
        return gs


def _modules() -> Any:
    nn = import_module(PACKAGE)

    class Inner(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, a: Any, b: Any) -> Any:
            return a * 2 + b, a - b

    class Outer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.inner = Inner()
            self.scale = nn.Parameter(calor.asarray(np.asarray([1, -1, 2], np.float32)))

        def forward(self, a: Any, b: Any) -> Any:
            p, q = self.inner(*self.inner(a, b))
            return p * self.scale, q

    return Outer()


class _Hooks(Driven):
    """Two modules with hooks."""

    events = 12
    histories = 12

    def build(self) -> None:
        self.outer = _modules()
        self.scale = self.outer.scale.detach().numpy()
        self.hooks: list[_Hook] = []
        self.calls: list[Any] = []
        self.number = 0

    def told(self) -> str:
        return str([(h.owner, h.kind, h.deed, h.number) for h in self.hooks])

    def registered(self, hook: _Hook) -> Any:
        owner = self.outer if hook.owner == "outer" else self.outer.inner
        full = "full_" if "backward" in hook.kind else ""
        hook.handle = getattr(owner, f"register_{full}{hook.kind}_hook")(hook)
        return hook.handle

    def made(self, kind: str, deed: str) -> _Hook:
        self.number += 1
        return _Hook(self.one("outer", "inner"), kind, deed, self.number, self.calls)

    def do_register(self) -> None:
        kind = self.one(*_KINDS)
        for _ in range(int(self.rng.integers(1, 4))):
            hook = self.made(kind, self.one(*_DEEDS))
            self.registered(hook)
            if self.rng.random() < 0.3:
                # One function that was registered twice and removed once stays.
                handles = [hook.handle, self.registered(hook)]
                handles.pop(int(self.rng.integers(2))).remove()
                hook.handle = handles[0]
            self.hooks.append(hook)

    do_register_more = do_register

    def do_remove(self) -> None:
        if self.hooks:
            hook = self.hooks.pop(int(self.rng.integers(len(self.hooks))))
            hook.handle.remove()

    def do_raise(self) -> None:
        """A hook that raises ends its pass, and the next pass knows nothing of it."""
        hook = self.made(self.one(*_KINDS), "raises")
        self.forget_once()
        self.registered(hook)
        try:
            made = self.outer(*(calor.ones(3, requires_grad=True) for _ in range(2)))
            (made[0].sum() + made[1].sum()).backward()
        except _HookError:
            pass
        else:
            raise AssertionError(f"the error of a {hook.kind} hook is lost")
        hook.handle.remove()
        self.outer.zero_grad()

    def forget_once(self) -> None:
        for hook in [h for h in self.hooks if h.deed == "once"]:
            hook.handle.remove()
            self.hooks.remove(hook)

    def do_pass(self) -> None:
        self.passed(self.outer, traced=False)

    def do_jitted(self) -> None:
        self.forget_once()
        self.passed(partial(calor.jit(lambda model, a, b: model(a, b)), self.outer), traced=True)

    def passed(self, call: Callable[..., Any], *, traced: bool) -> None:
        wants = self.one((True, True), (True, False), (False, True))
        arrays = [self.numbers(3) for _ in range(2)]
        given = [calor.asarray(a, requires_grad=w) for a, w in zip(arrays, wants, strict=True)]
        self.calls.clear()
        for hook in self.hooks:
            hook.traced = traced
        passes = _Passes(self.hooks, self.scale, wants)
        want = passes.forward((arrays[0], arrays[1]))
        made = call(*given)
        for n in range(2):
            equal(made[n].detach().numpy(), want[n], f"output {n}", _ROOM)
        for _ in range(int(self.one(1, 1, 2))):
            # What one call made may be asked for its gradients again, from others.
            seeds = [self.numbers(3) for _ in range(2)]
            grads = passes.backward((seeds[0], seeds[1]))
            losses = [calor.sum(y * calor.asarray(s)) for y, s in zip(made, seeds, strict=True)]
            (losses[0] + losses[1]).backward()
            for n, (x, due) in enumerate(zip(given, grads, strict=True)):
                assert (x.grad is None) is (due is None), f"gradient {n} is {x.grad}"
                if x.grad is not None:
                    equal(x.grad.numpy(), due, f"gradient {n}", _ROOM)
                    x.grad = None
        self.outer.zero_grad()
        if not traced:
            _compare(self.calls, passes.calls)

    do_pass_again = do_passes = do_pass


def _compare(calls: list[Any], due: list[Any]) -> None:
    equal([c[0] for c in calls], [c[0] for c in due], "the order of hooks")
    for (number, found), (_, wanted) in zip(calls, due, strict=True):
        pairs = [(a, b) for x, y in zip(found, wanted, strict=True)
                 for a, b in zip(x, y, strict=True)]  # fmt: skip
        for n, (got, want) in enumerate(pairs):
            what = f"number {n} that hook {number} gets"
            assert (got is None) is (want is None), f"{what} is {got}, not {want}"
            if want is not None:
                equal(got, want, what, _ROOM)


def driven_hooks() -> Iterator[Check]:
    """Yield the check of several hooks of nested modules, if the package is installed."""
    yield from checks_of(PACKAGE, {"hooks": _Hooks}, CONTRACT, 1)
