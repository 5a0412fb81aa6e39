"""Steps that a scaler of losses skips: nothing of any optimizer has changed after them.

Each optimizer makes drawn runs of steps, of which some have a gradient that is not finite. A step
of those leaves parameters, moments, counts and hyper-parameters bit for bit; and all steps in turn
give what the finite ones give to an optimizer without a scaler. Settings, groups, parameters in
half precision, gradients that are missing and jitted steps are drawn.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float16, float32, int32

from ..rows.functions.drawing import Rng, source
from .base import Array, Check, Place
from .training import _RULES, PACKAGE

CONTRACT: Final = "a step that a scaler skips changes nothing of the optimizer"
_TURNS, _STEPS = 2, 7
_BAD: Final = (np.inf, -np.inf, np.nan)
# A compiler chooses how it adds up.
_NEAR: Final = 2e-5


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each path of a state with its number, array or text."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}/{name}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}/{number}")
    else:
        yield path, value.numpy().copy() if isinstance(value, calor.Tensor) else value


class _Optimized:
    """Parameters with an optimizer of two groups."""

    def __init__(
        self, name: str, arrays: list[Array], how: list[dict[str, Any]], more: Any
    ) -> None:
        self.params = [calor.asarray(a, requires_grad=True) for a in arrays]
        groups = [{"params": self.params[k::2], **h} for k, h in enumerate(how)]
        self.made = getattr(import_module(PACKAGE), name)(groups, **more)

    def look(self) -> dict[str, Any]:
        """Return all that a step may change, by its path."""
        found = dict(_leaves(self.made.state_dict()))
        found |= {f"parameter {k}": p.detach().numpy().copy() for k, p in enumerate(self.params)}
        return found

    def give(self, grads: list[Array | None], scale: float) -> None:
        """Set the gradients, times a scale."""
        for p, g in zip(self.params, grads, strict=True):
            p.grad = None if g is None else calor.asarray((g * scale).astype(g.dtype))


def _alike(got: dict[str, Any], want: dict[str, Any], near: float, told: str) -> None:
    assert got.keys() == want.keys(), f"{told}: {sorted(got.keys() ^ want.keys())} of one alone"
    for path, value in want.items():
        made, right = np.asarray(got[path]), np.asarray(value)
        same = made.shape == right.shape and made.dtype == right.dtype
        if same and right.dtype.kind in "fc" and near:
            room = 2e-3 if right.dtype.itemsize == 2 else near
            same = np.allclose(made, right, rtol=room, atol=room, equal_nan=True)
        elif same:
            same = made.tobytes() == right.tobytes() if right.dtype.kind != "O" else made == right
        assert same, f"{told}: {path} is {made.tolist()}, not {right.tolist()}"


def _drawn(name: str, rng: Rng, place: Place) -> tuple[list[Array], list[dict[str, Any]], Any]:
    """Return parameters, the settings of two groups, and options of the optimizer."""
    shapes = [(2, 3), (3, 2), (2, 2)] if name == "Muon" else [(2, 3), (3,), ()]
    half = bool(rng.random() < 0.3) and bool(place.plain.info.dtypes.get(float16))
    kind = np.float16 if half else np.float32
    arrays = [np.asarray(rng.normal(size=s), kind) for s in shapes]
    if name == "Muon":
        first: dict[str, Any] = {"lr": 0.1, "momentum": float(rng.choice((0.5, 0.9)))}
        how = [first, dict(first)]
    else:
        how = [_RULES[name][1](rng) for _ in range(2)]
        alike = ("momentum", "nesterov", "dampening", "centered", "amsgrad")
        how[1].update({k: how[0][k] for k in alike if k in how[0]})
    more: dict[str, Any] = {"maximize": bool(rng.integers(2))}
    if half and "master_weights" in inspect.signature(
        getattr(import_module(PACKAGE), name).__init__).parameters:  # fmt: skip
        more["master_weights"] = bool(rng.integers(2))
    return arrays, how, more


def _gradients(rng: Rng, arrays: list[Array]) -> list[Array | None]:
    """Return gradients, of which one may be missing."""
    made: list[Array | None] = [
        np.asarray(rng.integers(-8, 9, a.shape) / 4, a.dtype) for a in arrays
    ]
    if rng.random() < 0.3:
        made[int(rng.integers(len(made)))] = None
    return made


def _run(name: str, place: Place) -> None:
    package = import_module(PACKAGE)
    for turn in filter(partial(place.tries, among=_TURNS), range(_TURNS)):
        rng = source([place.seed, crc32(b"skipped"), crc32(name.encode()), turn])
        arrays, how, more = _drawn(name, rng, place)
        scaled, alone = (_Optimized(name, arrays, how, more) for _ in range(2))
        scaler = package.GradScaler(4.0, growth_interval=int(rng.integers(1, 4)))
        before_step = ((), ("unscale_",))[int(rng.integers(2))]

        def step(optimizer: Any, scaler: Any, first: Any = before_step) -> None:
            for call in (*first, "step"):
                getattr(scaler, call)(optimizer)
            scaler.update()

        jitted = not place.interactive or bool(rng.integers(2))
        run = calor.jit(step) if jitted else step
        plain = calor.jit(lambda o: o.step()) if jitted else lambda o: o.step()
        told = f"{name} of {how}, {more}, {arrays[0].dtype}{', jitted' * jitted}, steps "
        for _ in range(_STEPS):
            grads, bad = _gradients(rng, arrays), bool(rng.random() < 0.45)
            told += "bad " if bad else "good "
            if bad:
                given = [g for g in grads if g is not None]
                given[int(rng.integers(len(given)))].reshape(-1)[-1] = _BAD[int(rng.integers(3))]
            before = scaled.look()
            scaled.give(grads, scaler.get_scale())
            run(scaled.made, scaler)
            if bad:
                _alike(scaled.look(), before, 0.0, f"skipped, {told}")
            else:
                alone.give(grads, 1.0)
                plain(alone.made)
            _alike(scaled.look(), alone.look(), _NEAR, told)


def skipped_steps() -> Iterator[Check]:
    """Yield a check of each optimizer, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    # L-BFGS evaluates its loss itself and takes no gradients.
    for name in sorted({*_RULES, "Muon"}):
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.skipped-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _run),
            dtypes=(float32, int32, bool_),
            looks=True,
        )
