"""Drawn histories of optimizers: steps, groups, rates, states that are stored, and those refused.

The model is the rule of each parameter in float64 with moments and counts of its own, so whatever
is stored, loaded, added or changed between steps, the next step says whether all of it was kept.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bfloat16, bool_, float32, int32, int64
from calor.errors import ArgumentError, CalorError, DTypeError, GradientError, ShapeError

from ..rows.functions.comparing import compare
from ..rows.functions.drawing import Rng, a_shape, coin, source
from .base import Array, Check, Place
from .optimizer_formulas import REAL_ONLY
from .training import _RULES, PACKAGE

CONTRACT: Final = (
    "after any history an optimizer has the state, counts and rates that it should have"
)
_HISTORIES, _ACTIONS = 5, 16


@dataclass(eq=False)
class _Parameter:
    tensor: Any
    value: Array
    state: dict[str, Any] = field(default_factory=dict)
    steps: int = 0

    def kept(self) -> _Parameter:
        """Return the state as it is now; the value is the model's, not the optimizer's."""
        return _Parameter(None, self.value, dict(self.state), self.steps)


class _Optimizer:
    """An optimizer beside its rule."""

    def __init__(self, package: Any, name: str, rng: Rng) -> None:
        self.package, self.name, self.rng = package, name, rng
        self.rule, self.settings = _RULES[name]
        self.sign = -1.0 if coin(rng) else 1.0
        first = self.settings(rng)
        self.groups: list[list[_Parameter]] = []
        self.how: list[dict[str, Any]] = []
        # Whether a rule has a moment at all is that of all groups here.
        self.alike: dict[str, Any] = {
            k: first[k] for k in ("momentum", "nesterov", "dampening") if k in first
        }
        if "dampening" in self.alike and coin(rng):
            # The first gradient of each parameter is whole, whenever it comes.
            self.alike = {"momentum": 0.5, "nesterov": False, "dampening": 0.3}
        # How often a parameter has no gradient.
        self.rare = float(rng.choice([0.2, 0.6]))
        self.names: list[str] = []
        self.stored: list[tuple[Any, list[list[_Parameter]], list[dict[str, Any]]]] = []
        self.add_to(2)
        self.made = self.fresh()

    def told(self) -> str:
        return f"of {self.name} {self.how}, after {', '.join(self.names)}"

    def parameter(self) -> _Parameter:
        array = np.asarray(self.rng.normal(size=a_shape(self.rng, 0, 3)), np.float32)
        return _Parameter(calor.asarray(array, requires_grad=True), array.astype(np.float64))

    def add_to(self, count: int) -> None:
        self.groups.append([self.parameter() for _ in range(count)])
        self.how.append({**self.settings(self.rng), **self.alike})

    def group(self, number: int) -> dict[str, Any]:
        held = [p.tensor for p in self.groups[number]]
        given: Any = held
        if coin(self.rng):
            given = [(f"g{number}.{k}", t) for k, t in enumerate(held)]
        return {"params": given, **self.how[number]}

    def fresh(self) -> Any:
        groups = [self.group(n) for n in range(len(self.groups))]
        return getattr(self.package, self.name)(groups, maximize=self.sign < 0)

    def every(self) -> list[_Parameter]:
        return [p for group in self.groups for p in group]

    # What a user does.

    def step(self) -> None:
        """A step by gradients, of which some are missing."""
        gradients = [
            None
            if self.rng.random() < self.rare
            else np.asarray(self.rng.normal(size=p.value.shape))
            for p in self.every()
        ]
        narrow = [None if g is None else g.astype(np.float32) for g in gradients]
        tensors = [None if g is None else calor.asarray(g) for g in narrow]
        if coin(self.rng):
            for p, given in zip(self.every(), tensors, strict=True):
                p.tensor.grad = given
            self.made.step()
            held = [p.tensor.grad for p in self.every()]
            assert all(a is b for a, b in zip(held, tensors, strict=True)), "a step drops gradients"
            self.made.zero_grad()
        else:
            self.made.update([p.tensor for p in self.every()], tensors)
        number = 0
        for group, how in zip(self.groups, self.how, strict=True):
            for p in group:
                g = narrow[number]
                number += 1
                if g is not None:
                    p.steps += 1
                    wide = self.sign * g.astype(np.float64)
                    p.value = self.rule(p.value, wide, p.state, how, p.steps)

    def add(self) -> None:
        if len(self.groups) < 4:
            self.add_to(int(self.rng.integers(1, 3)))
            self.made.add_param_group(self.group(len(self.groups) - 1))

    def rate(self) -> None:
        """Change a number of one group, or the rate of all."""
        number, value = int(self.rng.integers(len(self.groups))), round(float(self.rng.random()), 3)
        kind = int(self.rng.integers(4))
        group = self.made.param_groups[number]
        if kind == 0:
            self.made.lr = value
            for how in self.how:
                how["lr"] = value
            return
        if kind == 1:
            group.lr = value
        else:
            group["lr"] = value if kind == 2 else np.float64(value)
        assert abs(group["lr"] - value) < 1e-12, f"{group['lr']} is set to {value}"
        self.how[number]["lr"] = value

    def decay(self) -> None:
        number = int(self.rng.integers(len(self.groups)))
        value = float(self.rng.choice([0.0, 0.05]))
        self.made.param_groups[number]["weight_decay"] = value
        self.how[number]["weight_decay"] = value

    def store(self) -> None:
        state = self.made.state_dict()
        if coin(self.rng):
            stream = io.BytesIO()
            calor.save(state, stream)
            stream.seek(0)
            state = calor.load(stream)
        counts = [entry["step"] for entry in state["state"].values() if "step" in entry]
        if counts:
            wants = [p.steps for p in self.every()]
            assert counts == wants, f"counts {counts}, not {wants}, {self.told()}"
        for number, (told, how) in enumerate(zip(state["param_groups"], self.how, strict=True)):
            for name, value in {**how, "maximize": self.sign < 0}.items():
                same = name in told and np.array_equal(told[name], value)
                assert same, f"{name} of group {number} is not stored, {self.told()}"
        kept = [[p.kept() for p in group] for group in self.groups]
        self.stored.append((state, kept, [dict(how) for how in self.how]))

    def load(self) -> None:
        """Go on with a state that was stored, of an optimizer that may be a new one."""
        fitting = [s for s in self.stored if len(s[1]) == len(self.groups)]
        if not fitting:
            return
        state, kept, how = fitting[int(self.rng.integers(len(fitting)))]
        if coin(self.rng):
            self.made = self.fresh()
        self.made.load_state_dict(state)
        for group, old in zip(self.groups, kept, strict=True):
            for p, q in zip(group, old, strict=True):
                p.state, p.steps = dict(q.state), q.steps
        self.how = [dict(h) for h in how]

    def misfit(self) -> None:
        """States, groups, gradients and trees that do not fit are refused and change nothing."""
        state, first = self.made.state_dict(), self.every()[0]
        groups, entries = state["param_groups"], state["state"]
        wrong: list[tuple[Callable[[], Any], type[CalorError], str]] = [
            (partial(self.made.load_state_dict, {"state": entries, "param_groups": groups[:-1]}),
             ArgumentError, "groups of"),
            (partial(self.made.add_param_group, {"params": [first.tensor]}), ArgumentError,
             "is in group 0 already"),
            (partial(self.made.add_param_group, {"lr": 1.0}), ArgumentError, '"params"'),
            (partial(self.made.add_param_group, {"params": [calor.zeros(2)], "speed": 1}),
             ArgumentError, "no option 'speed'"),
            (partial(self.made.add_param_group, {"params": [calor.zeros(2, dtype="int32")]}),
             DTypeError, "int32"),
            (partial(self.made.add_param_group, {"params": [first.tensor * 2]}), GradientError,
             "computed from other tensors"),
            (partial(self.made.update, [first.tensor], [None]), ArgumentError, "does not hold"),
            (partial(self.made.update, [p.tensor for p in self.every()], {"x": calor.zeros(1)}),
             ArgumentError, "grads holds"),
        ]  # fmt: skip
        other = [{**g, "other": 1.0} for g in groups]
        wrong.append((partial(self.made.load_state_dict, {"state": entries, "param_groups": other}),
                      ArgumentError, "hyper-parameters"))  # fmt: skip
        slots = [n for n in entries["0"] if n != "step"]
        if slots:
            bad = {**entries, "0": {**entries["0"], slots[0]: calor.zeros((7, 7, 7))}}
            less = {**entries, "0": {n: v for n, v in entries["0"].items() if n != slots[0]}}
            load = self.made.load_state_dict
            wrong += [
                (partial(load, {"state": bad, "param_groups": groups}), ShapeError, "(7, 7, 7)"),
                (partial(load, {"state": less, "param_groups": groups}), ArgumentError, "expected"),
            ]
        large = calor.zeros((*first.value.shape, 2))
        group = self.made.param_groups[0]
        wrong.append((partial(group.step, [large, *[None] * (len(self.groups[0]) - 1)]),
                      ShapeError, "its gradient"))  # fmt: skip
        wrong.append((partial(group.step, []), ArgumentError, "0 gradients"))
        wrong.append((partial(setattr, group, "lr", -0.5), ArgumentError, "-0.5"))
        wrong.append((partial(group.__setitem__, "speed", 1.0), ArgumentError, "'speed'"))
        for work, kind, says in wrong:
            try:
                work()
            except kind as error:
                said = str(error)
            else:
                raise AssertionError(f"what should say {says!r} is not refused, {self.told()}")
            assert says in said, f"{kind.__name__} does not say {says!r}: {said}"
        # A step that is refused may have been counted.
        self.made.load_state_dict(state)

    def verify(self) -> None:
        for number, p in enumerate(self.every()):
            compare(p.tensor.numpy(), p.value, f"parameter {number} {self.told()}", 5e-5)
            assert p.tensor.requires_grad, f"parameter {number} learns no more, {self.told()}"
            assert p.tensor.grad is None, f"a gradient is left, {self.told()}"
        assert len(self.made.param_groups) == len(self.groups), f"groups, {self.told()}"
        held = self.made.params
        assert [id(t) for t in held] == [id(p.tensor) for p in self.every()], "other parameters"
        for group, how in zip(self.made.param_groups, self.how, strict=True):
            for name, value in how.items():
                assert group[name] == value, f"{name} is {group[name]}, not {value}, {self.told()}"
            assert group["maximize"] == (self.sign < 0), f"maximize, {self.told()}"

    def go(self) -> None:
        every = [self.step, self.step, self.step, self.step, self.add, self.rate, self.decay,
                 self.store, self.store, self.load, self.load, self.misfit]  # fmt: skip
        self.step()
        for _ in range(_ACTIONS):
            action = every[int(self.rng.integers(len(every)))]
            self.names.append(action.__name__)
            action()
            self.verify()


def _narrow(package: Any, name: str, rng: Rng) -> None:
    """Moments that are kept in a narrower dtype are rounded to it, and steps are near."""
    array = np.asarray(rng.normal(size=5), np.float32)
    if name == "SGD":
        how: dict[str, Any] = {"lr": 0.1, "momentum": 0.5}
    else:
        how = _RULES[name][1](rng)
        how["eps"] = (1e-3, 1e-3) if name == "Adafactor" else 1e-3
    made, tensors = [], []
    for kind in ("bfloat16", None):
        tensors.append(calor.asarray(array, requires_grad=True))
        made.append(getattr(package, name)([tensors[-1]], **how, state_dtype=kind))
    for _ in range(3):
        g = calor.asarray(np.asarray(rng.normal(size=5), np.float32))
        for optimizer, tensor in zip(made, tensors, strict=True):
            optimizer.update([tensor], [g])
    found = made[0].state_dict()["state"]["0"]
    for slot, value in found.items():
        # Numbers of a parameter are no moments of its elements.
        if slot not in ("step", "mu_product"):
            assert value.dtype is bfloat16, f"{slot} of {name} is kept in {value.dtype.name}"
    compare(tensors[0].numpy(), tensors[1].numpy(), f"{name} of {how} with narrow state", 3e-2)
    refused = [("int32", array)]
    if name not in REAL_ONLY:
        refused.append(("float32", array.astype(np.complex64)))
    for bad, given in refused:
        p = calor.asarray(given, requires_grad=True)
        try:
            getattr(package, name)([p], **how, state_dtype=bad)
        except DTypeError as error:
            said = str(error)
        else:
            assert bad == "float32", f"state of {name} is kept in {bad}"
            continue
        assert bad in said, said


def _run(name: str, place: Place) -> None:
    package = import_module(PACKAGE)
    # A sign that rounding turns is a whole step the other way.
    if place.plain.info.dtypes.get(bfloat16) and name != "Lion":
        _narrow(package, name, source([place.seed, crc32(f"narrow {name}".encode())]))
    for turn in range(_HISTORIES):
        rng = source([place.seed, crc32(f"drawn {name}".encode()), turn])
        _Optimizer(package, name, rng).go()


def drawn_optimizers() -> Iterator[Check]:
    """Yield a check of each optimizer, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    # Rprop has no rate that a history could change: the first one is the length of its steps.
    for name in sorted(set(_RULES) - {"Rprop"}):
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.drawn-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _Optimizer),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
