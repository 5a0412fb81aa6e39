"""The formulas of the adaptive optimizers, in float64 from the papers' definitions, with settings.

Requirements: a rule knows nothing of the package. It takes a parameter, its gradient, its state,
the settings and the number of the step, and returns the parameter after the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..rows.functions.drawing import Rng
from .base import Array

State = dict[str, Any]
Rule = Callable[[Array, Array, State, dict[str, Any], int], Array]
Settings = Callable[[Rng], dict[str, Any]]


def _drawn(rng: Rng, **choices: list[Any]) -> dict[str, Any]:
    """Return one of the values of each name, and a learning rate."""
    found = {name: values[int(rng.integers(len(values)))] for name, values in choices.items()}
    return {"lr": float(rng.uniform(0.01, 0.3)), **found}


def _moved(state: State, name: str, x: Array, rate: float) -> Array:
    state[name] = rate * state.get(name, 0.0) + (1.0 - rate) * x
    return np.asarray(state[name])


def _rmsprop(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    g = g + how["weight_decay"] * p
    square = _moved(state, "v", g * g, how["alpha"])
    if how["centered"]:
        square = square - _moved(state, "m", g, how["alpha"]) ** 2
    made = g / (np.sqrt(square) + how["eps"])
    state["b"] = how["momentum"] * state.get("b", 0.0) + made
    return np.asarray(p - how["lr"] * state["b"])


def _adagrad(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    g = g + how["weight_decay"] * p
    state["s"] = state.get("s", how["initial_accumulator_value"]) + g * g
    rate = how["lr"] / (1.0 + (step - 1) * how["lr_decay"])
    return np.asarray(p - rate * g / (np.sqrt(state["s"]) + how["eps"]))


def _adadelta(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    g = g + how["weight_decay"] * p
    square = _moved(state, "v", g * g, how["rho"])
    made = np.sqrt((state.get("u", 0.0) + how["eps"]) / (square + how["eps"])) * g
    _moved(state, "u", made * made, how["rho"])
    return np.asarray(p - how["lr"] * made)


def _adamax(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    first, second = how["betas"]
    g = g + how["weight_decay"] * p
    mean = _moved(state, "m", g, first)
    state["u"] = np.maximum(second * state.get("u", 0.0), np.abs(g) + how["eps"])
    return np.asarray(p - how["lr"] / (1.0 - first**step) * mean / state["u"])


def _decayed(p: Array, g: Array, how: dict[str, Any]) -> tuple[Array, Array]:
    """Return parameter and gradient after weight decay of either kind."""
    if how["decoupled_weight_decay"]:
        return p * (1.0 - how["lr"] * how["weight_decay"]), g
    return p, g + how["weight_decay"] * p


def _nadam(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    first, second = how["betas"]
    p, g = _decayed(p, g, how)
    now, ahead = (
        first * (1.0 - 0.5 * 0.96 ** (t * how["momentum_decay"])) for t in (step, step + 1)
    )
    state["product"] = state.get("product", 1.0) * now
    mean, square = _moved(state, "m", g, first), _moved(state, "v", g * g, second)
    made = g * (1.0 - now) / (1.0 - state["product"])
    made = made + mean * ahead / (1.0 - state["product"] * ahead)
    root = np.sqrt(square / (1.0 - second**step)) + how["eps"]
    return np.asarray(p - how["lr"] * made / root)


def _radam(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    first, second = how["betas"]
    p, g = _decayed(p, g, how)
    mean, square = _moved(state, "m", g, first), _moved(state, "v", g * g, second)
    longest = 2.0 / (1.0 - second) - 1.0
    length = longest - 2.0 * step * second**step / (1.0 - second**step)
    made = mean / (1.0 - first**step)
    if length > 5.0:
        share = (length - 4.0) * (length - 2.0) * longest
        share /= (longest - 4.0) * (longest - 2.0) * length
        root = np.sqrt(square) + how["eps"]
        made = made * math.sqrt(share) * math.sqrt(1.0 - second**step) / root
    return np.asarray(p - how["lr"] * made)


def _rprop(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    sign = np.sign(g * state.get("g", 0.0))
    factor = np.where(sign > 0, how["etas"][1], np.where(sign < 0, how["etas"][0], 1.0))
    size = np.clip(state.get("s", how["lr"]) * factor, *how["step_sizes"])
    g = np.where(sign < 0, 0.0, g)
    state["g"], state["s"] = g, size
    return np.asarray(p - np.sign(g) * size)


def _lion(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    first, second = how["betas"]
    made = np.sign(first * state.get("m", 0.0) + (1.0 - first) * g) + how["weight_decay"] * p
    _moved(state, "m", g, second)
    return np.asarray(p - how["lr"] * made)


def _length(x: Array) -> float:
    return float(np.sqrt(np.sum(x * x)))


def _lamb(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    first, second = how["betas"]
    mean = _moved(state, "m", g, first) / (1.0 - first**step)
    square = _moved(state, "v", g * g, second) / (1.0 - second**step)
    made = mean / (np.sqrt(square) + how["eps"]) + how["weight_decay"] * p
    lengths = _length(p), _length(made)
    return np.asarray(p - how["lr"] * (lengths[0] / lengths[1] if all(lengths) else 1.0) * made)


def _adan(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    first, second, third = how["betas"]
    change = g - state.get("g", g)
    state["g"] = g
    mean = _moved(state, "m", g, first) / (1.0 - first**step)
    drift = _moved(state, "d", change, second) / (1.0 - second**step)
    square = _moved(state, "n", (g + second * change) ** 2, third) / (1.0 - third**step)
    made = (mean + second * drift) / (np.sqrt(square) + how["eps"])
    return np.asarray((p - how["lr"] * made) / (1.0 + how["lr"] * how["weight_decay"]))


def _adafactor(p: Array, g: Array, state: State, how: dict[str, Any], step: int) -> Array:
    least, size = how["eps"]
    rate = 1.0 - float(step) ** how["beta2_decay"]
    if g.ndim > 1:
        rows = _moved(state, "r", np.mean(g * g, -1, keepdims=True), rate)
        columns = _moved(state, "c", np.mean(g * g, -2, keepdims=True), rate)
        square = rows * columns / np.maximum(np.mean(rows, -2, keepdims=True), least)
    else:
        square = _moved(state, "v", g * g, rate)
    made = g / np.sqrt(np.maximum(square, least**2))
    many = math.sqrt(max(p.size, 1))
    made = made / max(1.0, _length(made) / many / how["d"])
    share = min(how["lr"], 1.0 / math.sqrt(step)) * max(size, _length(p) / many)
    return np.asarray(p * (1.0 - how["lr"] * how["weight_decay"]) - share * made)


# Optimizers that refuse complex parameters.
REAL_ONLY: Final = frozenset({"Adafactor"})
_BETAS: Final = [(0.9, 0.999), (0.5, 0.95), (0.0, 0.6)]
_DECAY: Final = [0.0, 0.1]
FORMULAS: Final[dict[str, tuple[Rule, Settings]]] = {
    "RMSprop": (_rmsprop, lambda rng: _drawn(
        rng, alpha=[0.5, 0.9, 0.99], eps=[1e-8, 1e-3], weight_decay=_DECAY, momentum=[0.0, 0.8],
        centered=[False, True])),
    "Adagrad": (_adagrad, lambda rng: _drawn(
        rng, lr_decay=[0.0, 0.2], weight_decay=_DECAY, initial_accumulator_value=[0.0, 0.5],
        eps=[1e-10, 1e-3])),
    "Adadelta": (_adadelta, lambda rng: _drawn(
        rng, rho=[0.5, 0.9], eps=[1e-6, 1e-2], weight_decay=_DECAY)),
    "Adamax": (_adamax, lambda rng: _drawn(
        rng, betas=_BETAS, eps=[1e-8, 1e-2], weight_decay=_DECAY)),
    "NAdam": (_nadam, lambda rng: _drawn(
        rng, betas=_BETAS, eps=[1e-8, 1e-3], weight_decay=_DECAY, momentum_decay=[4e-3, 0.3],
        decoupled_weight_decay=[False, True])),
    "RAdam": (_radam, lambda rng: _drawn(
        rng, betas=[*_BETAS, (0.9, 0.9)], eps=[1e-8, 1e-3], weight_decay=_DECAY,
        decoupled_weight_decay=[False, True])),
    "Lion": (_lion, lambda rng: _drawn(rng, betas=_BETAS, weight_decay=_DECAY)),
    "LAMB": (_lamb, lambda rng: _drawn(
        rng, betas=_BETAS, eps=[1e-6, 1e-2], weight_decay=_DECAY)),
    "Adan": (_adan, lambda rng: _drawn(
        rng, betas=[(0.98, 0.92, 0.99), (0.5, 0.9, 0.6)], eps=[1e-8, 1e-2], weight_decay=_DECAY)),
    "Adafactor": (_adafactor, lambda rng: _drawn(
        rng, beta2_decay=[-0.8, -0.3], eps=[(2.0**-23, 1e-3), (1e-2, 0.5)], d=[1.0, 2.0],
        weight_decay=_DECAY)),
    "Rprop": (_rprop, lambda rng: _drawn(
        rng, etas=[(0.5, 1.2), (0.3, 2.0)], step_sizes=[(1e-6, 50.0), (0.05, 0.2)])),
}  # fmt: skip
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "RMSprop": {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0,
                "centered": False},
    "Adagrad": {"lr": 1e-2, "lr_decay": 0.0, "weight_decay": 0.0,
                "initial_accumulator_value": 0.0, "eps": 1e-10},
    "Adadelta": {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0},
    "Adamax": {"lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    "NAdam": {"lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0,
              "momentum_decay": 4e-3, "decoupled_weight_decay": False},
    "RAdam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0,
              "decoupled_weight_decay": False},
    "Lion": {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0},
    "LAMB": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.0},
    "Adan": {"lr": 1e-3, "betas": (0.98, 0.92, 0.99), "eps": 1e-8, "weight_decay": 0.0},
    "Adafactor": {"lr": 1e-2, "beta2_decay": -0.8, "eps": (2.0**-23, 1e-3), "d": 1.0,
                  "weight_decay": 0.0},
    "Rprop": {"lr": 1e-2, "etas": (0.5, 1.2), "step_sizes": (1e-6, 50.0)},
}  # fmt: skip
