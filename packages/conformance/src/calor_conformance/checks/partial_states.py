"""States that hold some of a module's names: of tied weights one name, others, more, or misfits.

Modules are drawn: layers in layers, of which some share a weight, under as many names as the module
gives it. A state has each name, lacks some, has others or another shape. A report says which names
were loaded, missing, unexpected and misshaped; a tied weight is missing if none of its names is
there; strict loads all or nothing, and raises with the same names.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.errors import CalorError

from .base import Array, Check, Place

CONTRACT: Final = "a state loads by name: strict all or nothing, else what fits, and both tell it"
PACKAGE: Final = "calor_nn"
_TURNS, _SIDE = 40, 2
Rng = np.random.Generator


def _module(nn: Any, rng: Rng, depth: int = 0) -> Any:
    """Return a module of drawn layers, in containers of drawn names."""
    if depth == 2 or (depth and rng.random() < 0.5):
        made = nn.Linear(_SIDE, _SIDE, bias=bool(rng.integers(2)))
        if rng.random() < 0.3:
            made.register_buffer("seen", calor.zeros((_SIDE,)))
        return made
    children = [_module(nn, rng, depth + 1) for _ in range(int(rng.integers(1, 4)))]
    if rng.random() < 0.5:
        return nn.Sequential(*children)
    made = nn.Module()
    for child, name in zip(children, rng.permutation(("b", "a", "weight_of", "c2")), strict=False):
        setattr(made, str(name), child)
    return made


def _layers(nn: Any, module: Any) -> list[Any]:
    return [m for m in module.modules() if isinstance(m, nn.Linear)]


def _tie(nn: Any, module: Any, rng: Rng) -> None:
    """Let layers share weights, two or more of them."""
    layers = _layers(nn, module)
    for _ in range(int(rng.integers(0, 3))):
        if len(layers) > 1:
            first, second = (layers[int(k)] for k in rng.permutation(len(layers))[:2])
            second.weight = first.weight


def _held(module: Any, nn: Any) -> dict[str, Any]:
    """Return each name's tensor, found by walking the attributes of layers."""
    found: dict[str, Any] = {}
    for path, layer in module.named_modules():
        if isinstance(layer, nn.Linear):
            for name in ("weight", "bias", "seen"):
                tensor = getattr(layer, name, None)
                if tensor is not None:
                    found[f"{path}.{name}" if path else name] = tensor
    return found


def _state(held: dict[str, Any], rng: Rng) -> tuple[dict[str, Any], set[str], set[str]]:
    """Return a drawn state, its names of no tensor, and those of another shape."""
    share = float(rng.choice((0.0, 0.2, 0.5)))
    state = {n: rng.integers(-9, 10, t.shape).astype(np.float32) for n, t in held.items()
             if rng.random() >= share}  # fmt: skip
    # The names of one tensor agree, as those of a file of a tied model do.
    for name in state:
        first = next(n for n in state if held[n] is held[name])
        state[name] = state[first]
    others: set[str] = set()
    if rng.random() < 0.4:
        known = next(iter(held), "weight")
        for name in (f"x.{known}", f"{known}.0", known.upper(), "scale"):
            if rng.random() < 0.5:
                state[name] = np.zeros(3, np.float32)
                others.add(name)
    misfits: set[str] = set()
    for name in [n for n in state if n in held]:
        if rng.random() < 0.1:
            shape = held[name].shape
            state[name] = np.zeros((*shape[:-1], shape[-1] + 1), np.float32)
            misfits.add(name)
    order = [str(n) for n in rng.permutation(list(state))] if state else []
    kinds = bool(rng.integers(2))
    return {n: calor.asarray(state[n]) if kinds else state[n] for n in order}, others, misfits


def _run_one(nn: Any, rng: Rng) -> None:
    module = _module(nn, rng)
    _tie(nn, module, rng)
    held = _held(module, nn)
    assert sorted(module.state_dict()) == sorted(held), f"a state of {sorted(module.state_dict())}"
    before = {n: t.numpy().copy() for n, t in held.items()}
    state, others, misfits = _state(held, rng)
    given = {id(held[n]) for n in state if n in held}
    loaded = {n for n in state if n in held} - misfits
    missing = {n for n, t in held.items() if n not in state and id(t) not in given}
    fits = not (missing or others or misfits)
    told = f"{sorted(held)}, tied {_ties(held)}, from {sorted(state)}"
    if rng.random() < 0.5 or fits:
        error = _strictly(module, state)
        assert (error is None) is fits, f"strict, of {told}: {error!r}"
        if not fits:
            lacks = [n for n in missing | others | misfits if n not in str(error)]
            assert not lacks, f"strict, of {told}: {lacks} are not in {error}"
            _values(held, before, f"after a refusal, {told}")
    report = module.load_state_dict(state, strict=False)
    for what, due in (("loaded", loaded), ("missing", missing), ("unexpected", others),
                      ("misshaped", misfits)):  # fmt: skip
        names = getattr(report, what)
        assert sorted(names) == sorted(due), (
            f"{what} is {sorted(names)}, not {sorted(due)}, of {told}"
        )
    values = dict(before)
    for name in loaded:
        array = np.asarray(state[name].numpy() if hasattr(state[name], "numpy") else state[name])
        values.update({n: array for n, t in held.items() if t is held[name]})
    _values(held, values, told)
    ties = _ties(_held(module, nn))
    assert ties == _ties(held), f"ties are {ties} afterwards, {told}"
    # What was loaded is what the next state holds, and another module of the form takes it.
    again = module.state_dict()
    _values({n: again[n] for n in held}, values, f"in the state after it, {told}")


def _strictly(module: Any, state: Any) -> CalorError | None:
    """Load a state that has to fit; return the error if it does not."""
    try:
        module.load_state_dict(state)
    except CalorError as error:
        return error
    return None


def _ties(held: dict[str, Any]) -> list[list[str]]:
    groups: dict[int, list[str]] = {}
    for name, tensor in held.items():
        groups.setdefault(id(tensor), []).append(name)
    return [g for g in groups.values() if len(g) > 1]


def _values(held: dict[str, Any], wants: dict[str, Array], told: str) -> None:
    for name, tensor in held.items():
        got = tensor.numpy()
        assert np.array_equal(got, wants[name]), (
            f"{name} is {got.tolist()}, not {wants[name].tolist()}, {told}"
        )


def _run(place: Place) -> None:
    nn = import_module(PACKAGE)
    for turn in range(_TURNS):
        if place.tries(turn, 4):
            _run_one(nn, np.random.default_rng([place.seed, 509, turn]))


def partial_states() -> Iterator[Check]:
    """Yield the check of states that hold some names, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    yield Check(
        kind="state",
        subject="states-of-some-names",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _run_one),
        dtypes=(float32,),
        looks=True,
    )
