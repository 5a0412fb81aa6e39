"""Calls of modules in evaluation and in training: what they leave behind in the module and around.

Every module that a package has is made, alone and with its weight parametrized in each way, and
called with inputs of the first form that it takes. In evaluation a call changes no parameter, no
buffer and no stream of random numbers, and gives the same bits again; a training call changes what
it changes whether it is made at once or jitted, and a copy goes the same way.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int64
from calor.errors import CalorError

from ..rows.functions.printed import GIVEN, PRINTED
from .base import Array, Check, Place

PACKAGE: Final = "calor_nn"
CONTRACT: Final = (
    "a call in evaluation changes nothing; one in training the same however it is made"
)
_JITTED: Final = 0.15
Rng = np.random.Generator
# Names of what takes a weight that is computed of others.
_WAYS: Final = ("", "weight_norm", "spectral_norm", "twice")
# What modules are called with: shapes of numbers, and "i" for indices.
_INPUTS: Final[tuple[tuple[Any, ...], ...]] = (
    ((2, 4),), ((2, 3, 4),), ((2, 4, 6),), ((2, 4, 6, 6),), ((2, 3, 6, 6),), ((2, 4, 6, 6, 6),),
    ((2, 2, 6, 6),), ((2, 2, 6),), ((2, 3),), ((2, 2),), ((2, 2, 6, 6, 6),), ((5, 2, 4),),
    ("i",), ((2, 4), (2, 4)), ((2, 3), (2, 3)), ((2, 2), (2, 3)),
)  # fmt: skip


def _made(nn: Any, name: str) -> Any:
    kind = getattr(nn, name)
    every = inspect.signature(kind).parameters
    needed = {n: GIVEN[n] for n, p in every.items() if p.default is p.empty and n in GIVEN}
    return kind(**needed)


def _inputs(rng: Rng, form: tuple[Any, ...]) -> list[Any]:
    return [
        calor.asarray(
            rng.integers(0, 2, (2, 3)) if s == "i" else np.asarray(rng.normal(size=s), np.float32)
        )
        for s in form
    ]


def fitting(module: Any, rng: Rng) -> list[Any] | None:
    """Return operands of the first form that a module takes."""
    for form in _INPUTS:
        given = _inputs(rng, form)
        try:
            module(*given)
        except (CalorError, TypeError, ValueError, IndexError, NotImplementedError):
            continue
        return given
    return None


def _state(module: Any) -> dict[str, Array]:
    """Return the numbers of every parameter and buffer, stored or not."""
    held = [*module.named_parameters(), *module.named_buffers()]
    return {name: tensor.numpy().copy() for name, tensor in held}


def _arrays(made: Any) -> list[Array]:
    return [t.numpy() for t in calor.tree.leaves(made) if hasattr(t, "numpy")]


def _same(found: dict[str, Array], wants: dict[str, Array], what: str, near: float = 0.0) -> None:
    assert list(found) == list(wants), f"{what}: tensors {list(found)}, not {list(wants)}"
    for name, want in wants.items():
        got = found[name]
        same = np.allclose(got, want, rtol=near, atol=near, equal_nan=True)
        assert same, f"{what}: {name} is {got.tolist()}, not {want.tolist()}"[:500]


def _of(made: Any) -> dict[str, Array]:
    return {f"result {n}": a for n, a in enumerate(_arrays(made))}


def _drawn() -> Array:
    return np.concatenate([t.numpy() for t in calor.random.default_generator.state])


def _evaluated(module: Any, given: list[Any], rng: Rng, what: str) -> None:
    module.eval()
    before, stream = _state(module), _drawn()
    first = _of(module(*given))
    ways: dict[str, Callable[[], Any]] = {"once more": lambda: module(*given)}
    with calor.no_grad():
        _same(_of(module(*given)), first, f"{what} without gradients", 1e-6)
    if rng.random() < _JITTED:
        ways["jitted"] = lambda: calor.jit(lambda m, *x: m(*x))(module, *given)
    if rng.random() < _JITTED:
        ways["of a copy"] = lambda: copy.deepcopy(module)(*given)
    for how, way in ways.items():
        _same(_of(way()), first, f"{what} in evaluation, {how}", 2e-5 if how == "jitted" else 0.0)
    _same(_state(module), before, f"{what} after calls in evaluation")
    assert (stream == _drawn()).all(), f"{what} draws random numbers in evaluation"
    assert not module.training, f"{what} is in training after calls in evaluation"


def _trained(module: Any, given: list[Any], seed: int, what: str) -> None:
    """The same call of two copies, at once and jitted, changes the same."""
    module.train()
    other = copy.deepcopy(module)
    made = []
    for one, call in ((module, lambda m, *x: m(*x)), (other, calor.jit(lambda m, *x: m(*x)))):
        calor.random.seed(seed)
        made.append({**_of(call(one, *given)), **_state(one)})
        assert one.training, f"{what} is in evaluation after a call in training"
    _same(made[1], made[0], f"{what} in training, jitted", 2e-5)


def _parametrized(nn: Any, module: Any, way: str) -> bool:
    """Compute a module's weight in a way; return whether it can be."""
    if not isinstance(getattr(module, "weight", None), calor.Tensor) or module.weight.ndim < 2:
        return False
    if way == "twice":
        # Two in a row, of which one has buffers.
        nn.parametrize.spectral_norm(module)
        halved = type("Half", (nn.Module,), {"forward": lambda self, w: w * 0.5})()
        nn.parametrize.register_parametrization(module, "weight", halved)
        return True
    getattr(nn.parametrize, way)(module)
    return True


def _run(place: Place) -> None:
    nn = import_module(PACKAGE)
    called = 0
    every = sorted(n for row in PRINTED.values() for n in row.split())
    asked = [(k, name) for k, name in enumerate(every) if place.tries(k, 9)]
    for number, name in asked:
        for turn, way in enumerate(_WAYS):
            rng = np.random.default_rng([place.seed, 185, number, turn])
            calor.random.seed(place.seed * 1000 + number)
            try:
                module = _made(nn, name)
            except TypeError:
                # What holds others is called in other checks.
                break
            if way and not _parametrized(nn, module, way):
                break
            given = fitting(module, rng)
            if given is None:
                break
            called += not turn
            what = f"{name}{f' with {way}' * bool(way)} of {[tuple(x.shape) for x in given]}"
            _evaluated(module, given, rng, what)
            if way or list(module.buffers()) or rng.random() < _JITTED / 2:
                _trained(module, given, number, what)
    assert called > len(asked) // 2, f"{called} of {len(asked)} modules were called"


def evaluated_modules() -> Iterator[Check]:
    """Yield the check of calls in evaluation, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    yield Check(
        kind="functions",
        subject=f"{PACKAGE}.evaluated-modules",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _evaluated),
        dtypes=(float32, int64),
        looks=True,
    )
