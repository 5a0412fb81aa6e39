"""Work that ends before its end: what it set is over, and the same work goes well after it.

An error, Ctrl-C or the close of a generator comes in the middle of what calor runs for a user: in
blocks, in functions under every transform, in bodies of loops, hooks, generators and rules of
derivatives. After it the thread has the modes, streams, gradients and modules that it had before,
and the same work, now without the error, gives what work without one before it gives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int32

from .base import Array, Check, Place
from .nested_modes import modes_seen

CONTRACT: Final = "what ends by an error leaves modes, streams, gradients and modules as before"
_TURNS: Final = 2
Rng = np.random.Generator
# Called in the middle of the work; it may raise.
Middle = Callable[[], None]


class _MiddleError(Exception):
    """What ends work of a user."""


_ENDS: Final[tuple[type[BaseException], ...]] = (_MiddleError, KeyboardInterrupt, GeneratorExit)


def _body(x: Any, middle: Middle) -> Any:
    y = x * 2
    middle()
    return calor.sin(y) * x


def _scalar(x: Any, middle: Middle) -> Any:
    return calor.sum(_body(x, middle))


def _loop(x: Any, middle: Middle) -> Any:
    return calor.scan(lambda c, r: (c + _body(r, middle), c), x[0], x)


def _branch(x: Any, middle: Middle) -> Any:
    return calor.cond(calor.sum(x) > -1e9, lambda t: _body(t, middle), lambda t: t * 1, x)


def _backwards(x: Any, middle: Middle) -> Any:
    """The error comes while a checkpoint computes its function again."""
    passes: list[int] = []

    def again(t: Any) -> Any:
        passes.append(1)
        return _body(t, middle if len(passes) > 1 else _nothing)

    return calor.grad(lambda t: calor.sum(calor.checkpoint(again)(t)))(x)


def _ruled(x: Any, middle: Middle) -> Any:
    """The error comes in a rule of gradients."""
    triple = calor.custom_vjp(lambda t: t * 3)

    def back(residuals: Any, g: Any) -> Any:
        middle()
        return (g * 3,)

    triple.defvjp(lambda t: (t * 3, ()), back)
    return calor.grad(lambda t: calor.sum(triple(t) ** 2))(x)


def _hooked(x: Any, middle: Middle) -> Any:
    nn = import_module("calor_nn")
    layer = type("Twice", (nn.Module,), {"forward": lambda self, t: t * 2})()
    with layer.register_forward_pre_hook(lambda m, given: middle()):
        return layer(x)


def _in_blocks(x: Any, middle: Middle) -> Any:
    """Modes in each other, of which the innermost ends."""
    low = "float16" if x.device.info.dtypes.get(calor.float16) else "float32"
    with (
        calor.no_grad(),
        calor.default_dtype("float32"),
        calor.matmul_precision("highest"),
        calor.autocast(low),
        calor.enable_grad(),
        calor.strict_views(),
    ):
        return _body(x, middle)


def _generator(x: Any, middle: Middle) -> Any:
    """A generator that is in a mode where it waits, and is closed there."""

    def values() -> Generator[Any, None, None]:
        with calor.no_grad():
            yield _body(x, middle)
            yield x

    stream = values()
    made = next(stream)
    stream.close()
    return made


def _profiled(x: Any, middle: Middle) -> Any:
    """A profile, of which a device has one at a time; a second one finds no other after it."""
    with calor.profile() as found:
        made = _body(x, middle)
        calor.eval(made)
    assert found.memory, "a profile tells of no memory"
    return made


def _nothing() -> None:
    return None


_WORKS: Final[dict[str, Callable[[Any, Middle], Any]]] = {
    "grad": lambda x, m: calor.grad(partial(_scalar, middle=m))(x),
    "value_and_grad": lambda x, m: calor.value_and_grad(partial(_scalar, middle=m))(x),
    "vjp": lambda x, m: calor.vjp(partial(_body, middle=m), x)[1](x),
    "jvp": lambda x, m: calor.jvp(partial(_body, middle=m), (x,), (x,)),
    "linearize": lambda x, m: calor.linearize(partial(_body, middle=m), x)[1](x),
    "jacrev": lambda x, m: calor.jacrev(partial(_body, middle=m))(x[0]),
    "jacfwd": lambda x, m: calor.jacfwd(partial(_body, middle=m))(x[0]),
    "hessian": lambda x, m: calor.hessian(partial(_scalar, middle=m))(x[0]),
    "vmap": lambda x, m: calor.vmap(partial(_body, middle=m))(x),
    "jit": lambda x, m: calor.jit(partial(_body, middle=m))(x),
    "jit of grad": lambda x, m: calor.jit(calor.grad(partial(_scalar, middle=m)))(x),
    "vmap of grad": lambda x, m: calor.vmap(calor.grad(partial(_scalar, middle=m)))(x),
    "trace": lambda x, m: calor.trace(partial(_body, middle=m), x).text()[:5] and x,
    "checkpoint": lambda x, m: calor.checkpoint(partial(_body, middle=m))(x),
    "a checkpoint's second run": _backwards, "scan": _loop, "cond": _branch,
    "custom_vjp": _ruled, "modes": _in_blocks,
    "a generator": _generator, "a hook": _hooked, "a profile": _profiled,
}  # fmt: skip


def _states(stream: Any) -> list[list[int]]:
    return [t.tolist() for t in stream.state]


def _look(leaf: Any, module: Any) -> dict[str, Any]:
    """Return what must be as before, without changing it."""
    found = {**modes_seen(), "stream": _states(calor.random.default_generator)}
    found["autocast now"] = calor.local.local.autocast
    found["the leaf"] = leaf.requires_grad, leaf.grad is None
    if module is not None:
        held = {n: t.numpy().tolist() for n, t in module.state_dict().items()}
        learns = [p.requires_grad for p in module.parameters()]
        found["the module"] = held, learns, module.training
    return found


def _arrays(made: Any) -> list[Array]:
    return [np.asarray(t.numpy() if hasattr(t, "numpy") else t) for t in calor.tree.leaves(made)]


def _as_before(before: dict[str, Any], after: dict[str, Any], what: str) -> None:
    for name, want in before.items():
        assert after[name] == want, f"{name} is {after[name]}, not {want}, after {what}"


def _one(name: str, work: Callable[[Any, Middle], Any], rng: Rng, module: Any) -> None:
    array = np.asarray(rng.uniform(-1, 1, (3, 3)), np.float32)
    learns = bool(rng.integers(2))
    x = calor.asarray(array, requires_grad=learns)
    before = _look(x, module)
    wants = _arrays(calor.tree.map(_plain, work(calor.asarray(array), _nothing)))
    _as_before(before, _look(x, module), f"{name} without an error")
    for end in _ENDS:
        reached: list[int] = []

        def middle(end: type[BaseException] = end, reached: list[int] = reached) -> None:
            reached.append(1)
            raise end("the middle")

        try:
            work(x, middle)
        except end:
            pass
        else:
            raise AssertionError(f"{name}: {end.__name__} is lost")
        assert reached, f"{name}: its middle is not reached"
        _as_before(before, _look(x, module), f"{end.__name__} in {name}")
        made = _arrays(calor.tree.map(_plain, work(x, _nothing)))
        for got, want in zip(made, wants, strict=True):
            near = np.allclose(got, want, rtol=1e-5, atol=1e-5)
            assert near, f"{name} after {end.__name__}: {got.tolist()}, not {want.tolist()}"


def _plain(t: Any) -> Any:
    return t.detach() if isinstance(t, calor.Tensor) else t


def _streams() -> None:
    """A stream that was elsewhere in a block goes on where it was, however the block ends."""
    for end in _ENDS:
        stream, other = (calor.random.Generator(5) for _ in range(2))
        first = stream.state
        for one in (stream, other):
            one.normal((2,))
        try:
            with stream.at(first):
                for _ in range(3):
                    stream.normal((4,))
                raise end("the middle")
        except end:
            pass
        assert _states(stream) == _states(other), f"a stream is elsewhere after {end.__name__}"


def _run(place: Place) -> None:
    nn = import_module("calor_nn") if find_spec("calor_nn") is not None else None
    module = None if nn is None else nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    for number, (name, work) in enumerate(_WORKS.items()):
        if (name == "a hook" and nn is None) or not place.tries(number, 3):
            continue
        for turn in filter(partial(place.tries, among=_TURNS), range(_TURNS)):
            _one(name, work, np.random.default_rng([place.seed, 189, number, turn]), module)
    _streams()


def ended_work() -> Iterator[Check]:
    """Yield the check of work that ends by an error."""
    yield Check(
        kind="state",
        subject="ended-work",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _one),
        op="sin",
        dtypes=(float32, int32),
        looks=True,
    )
