"""Objects of work that ended by an error: tensors, modules, rules and state serve on.

A module is in a transform, a tensor in ``backward``, a function with a rule in its forward part,
state in a checkpoint that runs again, and pending work beside a call of the host, when the error
comes. After it the thread has its modes, and the same objects give what fresh ones give.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, uint32

from .base import Array, Check, Place
from .nested_modes import modes_seen

CONTRACT: Final = "the objects of work that ended by an error are as they were before it"
_NEAR: Final = 1e-5
Rng = np.random.Generator


class _EndError(Exception):
    """What ends work of a user."""


_ENDS: Final[tuple[type[BaseException], ...]] = (_EndError, KeyboardInterrupt)


class _Middle:
    """Raises what ends the work, if it is armed."""

    def __init__(self) -> None:
        self.end: type[BaseException] | None = None

    def __call__(self) -> None:
        if self.end is not None:
            raise self.end


def _near(got: Any, want: Any, told: str) -> None:
    made, want = np.asarray(got.numpy() if hasattr(got, "numpy") else got), np.asarray(want)
    assert made.shape == want.shape, f"{told}: shape {made.shape}, not {want.shape}"
    off = np.abs(made - want).max(initial=0.0)
    within = _NEAR * (1 + np.abs(want).max(initial=0.0))
    assert off <= within, f"{told}: {made.tolist()}, not {want.tolist()}"


def _ended(middle: _Middle, end: type[BaseException], work: Callable[[], Any], told: str) -> None:
    """Run work that an error ends, and compare the modes of the thread before and after it."""
    before, middle.end = modes_seen(), end
    try:
        work()
    except end:
        pass
    else:
        raise AssertionError(f"{told} ends without its {end.__name__}")
    finally:
        middle.end = None
    after = modes_seen()
    assert before == after, f"after {told}: {after}, not {before}"


def _array(rng: Rng, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def _linear(weight: Array) -> Any:
    """Return a module of one parameter."""
    nn = import_module("calor_nn")

    class Line(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = calor.asarray(weight, requires_grad=True)

        def forward(self, x: Any) -> Any:
            return self.weight * x

    return Line()


def _modules(rng: Rng, end: type[BaseException]) -> None:
    """A module that is differentiated or mapped; its parameter is a parameter again."""
    weight, x = _array(rng, 3), _array(rng, 3)
    module, middle, given = _linear(weight), _Middle(), calor.asarray(x)

    def loss(model: Any, t: Any) -> Any:
        made = calor.sum(model(t) * model.weight)
        middle()
        return made

    ones = calor.ones(())
    works: dict[str, Callable[[], Any]] = {
        "grad": lambda: calor.grad(loss)(module, given),
        "value_and_grad": lambda: calor.value_and_grad(loss)(module, given),
        "vjp": lambda: calor.vjp(loss, module, given)[1](ones),
        "jitted grad": lambda: calor.jit(calor.grad(loss))(module, given),
        "vmap": lambda: calor.vmap(loss)(module, given),
        "checkpoint": lambda: calor.checkpoint(loss)(module, given),
        "jit": lambda: calor.jit(loss)(module, given),
    }
    for name, work in works.items():
        _ended(middle, end, work, f"{name} of a module")
        parameter = module.weight
        assert parameter.requires_grad, f"after {name} a parameter takes no gradient"
        assert parameter.grad is None, f"after {name} a parameter has a gradient"
        _near(parameter, weight, f"a parameter after {name}")
        made = calor.sum(module(given) * module.weight)
        made.backward()
        _near(parameter.grad, 2 * weight * x, f"a gradient after {name}")
        parameter.grad = None
        work()
        parameter.grad = None


def _backwards(rng: Rng, end: type[BaseException]) -> None:
    """``backward`` that a rule ends, plainly, with other gradients, and inside of autocast."""
    array, middle = _array(rng, 3), _Middle()
    twice = calor.custom_vjp(lambda t: t * 2)

    def back(kept: Any, g: Any) -> Any:
        middle()
        return (g * 2,)

    twice.defvjp(lambda t: (t * 2, None), back)
    x, y = (calor.asarray(array, requires_grad=True) for _ in range(2))
    blocks: list[Callable[[], Any]] = [calor.enable_grad, calor.no_grad]
    if x.device.info.dtypes.get(calor.float16):
        blocks.append(lambda: calor.autocast("float16"))
    for block in blocks:
        for _ in range(2):
            loss = calor.sum(twice(x) * x + y * y)
            with block():
                _ended(middle, end, loss.backward, "backward")
            x.grad = y.grad = None
            loss = calor.sum(twice(x) * x + y * y)
            assert loss.requires_grad, "after backward that ended, no gradient is recorded"
            loss.backward()
            _near(x.grad, 4 * array, "a gradient after backward that ended")
            _near(y.grad, 2 * array, "another gradient after backward that ended")
            x.grad = y.grad = None


def _rules(rng: Rng, end: type[BaseException]) -> None:
    """A forward function, or a forward rule, that ends: later calls ask the rule all the same."""
    array, middle = _array(rng, 3), _Middle()
    own = calor.custom_vjp(lambda t: t * 2)

    def forward(t: Any) -> Any:
        made = own(t)
        middle()
        return made, None

    own.defvjp(forward, lambda kept, g: (g * 7,))
    pushed: Any = calor.custom_jvp(lambda t: t * 2)

    def rule(primals: Any, tangents: Any) -> Any:
        made = pushed(*primals)
        middle()
        return made, tangents[0] * 7

    pushed.defjvp(rule)
    x = calor.asarray(array)
    for name, function in (("reverse", own), ("forward", pushed)):
        total = lambda t, function=function: calor.sum(function(t))  # noqa: E731
        for how, transform in (("grad", calor.grad), ("jit", lambda f: calor.jit(calor.grad(f)))):
            told = f"a {name} rule in {how}"
            _ended(middle, end, partial(transform(total), x), told)
            _near(calor.grad(total)(x), np.full(3, 7.0), f"the gradient after {told} that ended")
            _near(function(x), array * 2, f"the value after {told} that ended")


def _states(rng: Rng, end: type[BaseException]) -> None:
    """State that a checkpoint changes is that after the forward pass, wherever the second ends."""
    array, middle, runs = _array(rng, 3), _Middle(), list[int]()
    count, stream = calor.zeros(()), calor.random.Generator(int(rng.integers(99)))

    def function(t: Any) -> Any:
        nonlocal count
        runs.append(1)
        # Before, between and behind the changes of state.
        for place in range(3):
            if len(runs) > 1 and place == turn % 3:
                middle()
            if place == 0:
                count += 1
            elif place == 1:
                noise = stream.uniform((3,))
        return calor.sin(t) * count.detach() + noise * 0

    x = calor.asarray(array, requires_grad=True)
    for turn in range(1, 4):
        runs.clear()
        loss = calor.sum(calor.checkpoint(function)(x))
        state = [t.numpy().tolist() for t in (stream.key, stream.counter)]
        _ended(middle, end, loss.backward, "the second run of a checkpoint")
        _near(count, float(turn), "a count after the second run of a checkpoint ended")
        after = [t.numpy().tolist() for t in (stream.key, stream.counter)]
        assert after == state, f"a stream after a second run that ended: {after}, not {state}"
        x.grad = None


def _hosts(rng: Rng, end: type[BaseException]) -> None:
    """A call of the host that ends leaves what was pending beside it, and what comes later."""
    array, middle = _array(rng, 3), _Middle()
    x = calor.asarray(array)

    def host(t: Array) -> Array:
        calor.sum(calor.asarray(t)).item()
        middle()
        return np.asarray(t * 3)

    def plain(t: Any) -> Any:
        return calor.callback(host, t, t)

    for how, call in (("a call", plain), ("a jitted call", calor.jit(plain))):
        pending = x * 2 + 1
        middle.end = _EndError
        try:
            call(pending).numpy()
        except Exception:
            middle.end = None
        assert middle.end is None, f"{how} of the host ends without an error"
        _near(pending, array * 2 + 1, f"what was pending beside {how} that ended")
        _near(pending - x, array + 1, f"what comes after {how} that ended")
        _near(call(x), array * 3, f"{how} after one that ended")


_FORMS: Final[dict[str, Callable[[Rng, type[BaseException]], None]]] = {
    "modules": _modules, "backward": _backwards, "rules": _rules, "state": _states, "host": _hosts,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    for number, end in enumerate(_ENDS):
        if place.tries(number, 2):
            _FORMS[name](np.random.default_rng([place.seed, 193, number]), end)


def ended_objects() -> Iterator[Check]:
    """Yield a check of each kind of object."""
    for name, form in _FORMS.items():
        if name == "modules" and find_spec("calor_nn") is None:
            continue
        yield Check(
            kind="state",
            subject=f"ended-work-with-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, form),
            op="mul",
            # Random numbers are drawn of a generator's state.
            dtypes=(float32, uint32) if name == "state" else (float32,),
            looks=True,
        )
