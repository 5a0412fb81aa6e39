"""Static values of objects and closures, replaced by another one of the same form.

A program is kept for what is no tensor: settings of modules, and what functions close over. A
value of the same type, length and names that differs in one part alone is another one. Values of
each kind are replaced in drawn orders, old ones come back, and the call is made jitted, bound,
within a gradient and mapped: each is the plain call with the value as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, float16, float32, int32
from calor.transforms.state import Stateful

from .base import Check, Place
from .jitted_calls import same_results

CONTRACT: Final = "a call reads each setting as it is, also after one of the same form was replaced"
_TURNS: Final = 3
Rng = np.random.Generator


@dataclass(frozen=True)
class _Setting:
    """A setting of two fields, one of which holds others."""

    scale: Any
    more: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class _OwnSetting:
    """A setting that is equal to itself alone."""

    scale: Any


def _number(rng: Rng) -> int:
    return int(rng.integers(-5, 6))


_FORMS: Final[dict[str, Callable[[Rng], Any]]] = {
    "an array": lambda rng: rng.integers(-5, 6, 3).astype(np.float32),
    "an array of two axes": lambda rng: rng.integers(-5, 6, (2, 2)),
    "an array of one number": lambda rng: np.asarray(_number(rng)),
    # Its ends are the same, and what a repr leaves out differs.
    "a long array": lambda rng: np.where(np.arange(3000) == 1500, _number(rng), 1),
    "an integer": _number, "a float": lambda rng: _number(rng) / 2,
    "a number of NumPy": lambda rng: np.float32(_number(rng)),
    "a complex number": lambda rng: complex(1, _number(rng)),
    "a truth": lambda rng: bool(rng.integers(2)),
    "a string": lambda rng: f"name {_number(rng)}",
    "bytes": lambda rng: bytes([_number(rng) + 9]),
    "a dtype": lambda rng: (float32, float16, int32)[int(rng.integers(3))],
    "a dtype of NumPy": lambda rng: np.dtype(("f4", "f2", "i4")[int(rng.integers(3))]),
    "a tuple": lambda rng: (1, _number(rng), "x"),
    "a list": lambda rng: [1, [_number(rng)]],
    "a dictionary": lambda rng: {"one": 1, "other": _number(rng)},
    "a dictionary of names": lambda rng: {f"k{_number(rng)}": 1},
    "an order of names": lambda rng: dict.fromkeys(("abc", "cab")[int(rng.integers(2))], 2),
    "a set": lambda rng: frozenset((7, _number(rng))),
    "a slice": lambda rng: slice(0, _number(rng)), "a range": lambda rng: range(_number(rng) + 9),
    "a dataclass": lambda rng: _Setting(_number(rng)),
    "a dataclass of a tuple": lambda rng: _Setting(1, (2, _number(rng))),
    "a dataclass of an array": lambda rng: _Setting(rng.integers(-5, 6, 2)),
    "a dataclass without equality": lambda rng: _OwnSetting(_number(rng)),
    "a list of dataclasses": lambda rng: [_Setting(1), _Setting(_number(rng))],
    "arrays in a tuple": lambda rng: (np.ones(2), rng.integers(-5, 6, 2)),
    "arrays in a dictionary": lambda rng: {"a": rng.integers(-5, 6, 2)},
    "a function": lambda rng: partial(_plus, _number(rng)),
}  # fmt: skip


def _plus(n: int, x: int) -> int:
    return x + n


def _seen(value: Any) -> float:
    """Return a number of all that a value holds, as the code of a function reads it."""
    if isinstance(value, _Setting):
        return 3 * _seen(value.scale) + _seen(value.more)
    if isinstance(value, _OwnSetting):
        return 5 * _seen(value.scale)
    if isinstance(value, dict):
        parts = [(str(k), v) for k, v in value.items()]
        return sum((i + 1) * (_seen(k) + 7 * _seen(v)) for i, (k, v) in enumerate(parts))
    if isinstance(value, list | tuple):
        return float(sum((i + 2) * _seen(v) for i, v in enumerate(value)))
    if isinstance(value, frozenset | range):
        return float(sum(x * x for x in value)) + len(value)
    if isinstance(value, str | bytes):
        text = value.encode() if isinstance(value, str) else value
        return float(sum((i + 1) * b for i, b in enumerate(text))) % 61
    if isinstance(value, np.ndarray):
        return float(sum((i % 7 + 1) * int(v) for i, v in enumerate(value.reshape(-1)))) % 127
    if isinstance(value, np.dtype | DType):
        return float(sum(map(ord, str(value)))) % 61
    if isinstance(value, slice):
        return float(value.stop)
    if isinstance(value, complex):
        return value.real + 2 * value.imag
    return float(value(3) if callable(value) else value)


class _Layer(Stateful):
    """An object with a tensor and a setting."""

    def __init__(self, setting: Any) -> None:
        self.weight, self.setting = calor.asarray(np.float32(2)), setting


class _Model(Stateful):
    """An object of layers, in a list and a dictionary."""

    def __init__(self, setting: Any) -> None:
        self.layers = [_Layer(0), _Layer(setting)]
        self.named = {"last": _Layer(setting)}
        self.setting = setting

    def replace(self, where: int, setting: Any) -> None:
        holder = (self, self.layers[1], self.named["last"])[where]
        holder.setting = setting


def _of_model(model: _Model, x: Any) -> Any:
    made = x * _seen(model.setting) + model.layers[1].weight * _seen(model.layers[1].setting)
    return made * x + _seen(model.named["last"].setting)


def _of_setting(setting: Any, x: Any) -> Any:
    return x * x * _seen(setting)


def _ways(call: Callable[[Any], Any], x: Any) -> list[Any]:
    """Return the results of a function of a tensor, plain, and within transforms."""
    return [
        call(x), calor.grad(lambda t: calor.sum(call(t)))(x),
        calor.vmap(call)(calor.stack([x, x + 1])),
    ]  # fmt: skip


def _run_form(name: str, place: Place, rng: Rng) -> None:
    make = _FORMS[name]
    x = calor.asarray(rng.integers(-3, 4, 2).astype(np.float32))
    first = make(rng)
    model, old = _Model(first), [first]
    jitted = calor.jit(_of_model)
    bound = calor.jit(_of_model).bind(model)
    captured = calor.jit(lambda t: _of_model(model, t))
    slope = calor.jit(calor.grad(lambda m, t: calor.sum(_of_model(m, t)), argnums=1))
    static = calor.jit(lambda part, t: part(t), static_argnums=0)
    for turn in range(_TURNS):
        value = old[int(rng.integers(len(old)))] if rng.random() < 0.3 else make(rng)
        old.append(value)
        where = int(rng.integers(3))
        if turn:
            model.replace(where, value)
        what = f"{name}, {value!r} at {where}, turn {turn}"
        want = _ways(lambda t: _of_model(model, t), x)
        same_results([jitted(model, x)], want[:1], f"{what}, jitted")
        for _ in range(2):
            same_results([bound(x)], want[:1], f"{what}, bound")
        same_results([captured(x)], want[:1], f"{what}, captured")
        same_results([slope(model, x)], want[1:2], f"{what}, a jitted gradient")
        same_results(_ways(lambda t: jitted(model, t), x), want, f"{what}, jitted within")
        want = _ways(partial(_of_setting, value), x)
        closed = calor.jit(lambda t, value=value: _of_setting(value, t))
        same_results([closed(x)], want[:1], f"{what}, a closure")
        # Functions of one code, which differ in what they close over.
        inner = _closing(value)
        same_results([static(inner, x)], want[:1], f"{what}, a closure as an argument")
        same_results([calor.jit(inner)(x)], want[:1], f"{what}, a function made anew")


def _closing(value: Any) -> Callable[[Any], Any]:
    def part(t: Any) -> Any:
        return _of_setting(value, t)

    return part


def _run(place: Place) -> None:
    for number, name in enumerate(_FORMS):
        if place.tries(number, 3):
            _run_form(name, place, np.random.default_rng([place.seed, 405, number]))


def replaced_statics() -> Iterator[Check]:
    """Yield the check of settings that are replaced."""
    yield Check(
        kind="history",
        subject="replaced-settings",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_run_form) + inspect.getsource(_seen),
        op="tanh",
        dtypes=(float32,),
        looks=True,
    )
