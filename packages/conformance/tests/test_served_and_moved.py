"""Checks of modes and settings, moves in loops, empty leaves and objects that serve several.

Each passes on the reference, and fails where one rule is broken that it is about.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import calor
import calor_nn as nn
import calor_train as train
from calor_train import clipping, scaling
from reference_failures import failures

MODULES = (
    "history/settings-between-modes", "jit-gradient/moves-in-loops",
    "functions/empty-leaves-in-clipping", "functions/empty-leaves-in-optimizers",
    "functions/empty-leaves-in-averages", "functions/empty-leaves-in-trees",
    "state/shared-scaler", "state/shared-schedules", "state/shared-averages",
    "state/shared-streams",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


class Kept:
    """A program that keeps, for each mode, what its modules had at the first call."""

    def __init__(self, function: Callable[..., Any], names: tuple[str, ...], held: Any = ()):
        self.function, self.names, self.held = function, names, held
        self.kept: dict[bool, list[dict[str, Any]]] = {}

    def __call__(self, *given: Any) -> Any:
        given = (*self.held, *given)
        module = next((g for g in given if isinstance(g, nn.Module)), None)
        if module is None:
            return self.function(*given)
        parts = list(module.modules())
        now = [{n: vars(m)[n] for n in self.names if n in vars(m)} for m in parts]
        then = self.kept.setdefault(module.training, copy.deepcopy(now))
        self.put(parts, then)
        try:
            return self.function(*given)
        finally:
            self.put(parts, now)

    def put(self, parts: list[Any], settings: list[dict[str, Any]]) -> None:
        for part, every in zip(parts, settings, strict=True):
            for name, value in every.items():
                setattr(part, name, value)

    def bind(self, *held: Any) -> Any:
        return Kept(self.function, self.names, held)


@pytest.mark.parametrize("names", [("scale", "p", "eps", "kind"), ("order", "either"),
                                   ("training",)])  # fmt: skip
def test_settings_of_the_first_call_in_a_mode_are_found(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calor, "jit", lambda function: Kept(function, names))
    assert failures("history/settings-between-modes", 2)


@pytest.mark.parametrize("name", ["flip", "permute_dims", "broadcast_to"])
def test_a_wrong_gradient_of_a_move_in_a_scan_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, scan, within = getattr(calor, name), calor.scan, [0]

    def looped(*given: Any, **more: Any) -> Any:
        within[0] += 1
        try:
            return scan(*given, **more)
        finally:
            within[0] -= 1

    def move(x: Any, *given: Any, **more: Any) -> Any:
        made = right(x, *given, **more)
        if not within[0]:
            return made
        if made.shape != x.shape:
            return made * 0.5 + made.detach() * 0.5 if name == "broadcast_to" else made
        return made.detach() + x - x.detach()

    monkeypatch.setattr(calor, name, move)
    monkeypatch.setattr(calor, "scan", looped)
    assert failures("jit-gradient/moves-in-loops", 2)


def test_a_largest_element_of_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = clipping._norm

    def norm(tensors: Any, norm_type: float) -> Any:
        if norm_type == float("inf"):
            return calor.max(calor.stack([calor.max(calor.abs(x)) for x in tensors if x.size]))
        return right(tensors, norm_type)

    monkeypatch.setattr(clipping, "_norm", norm)
    assert failures("functions/empty-leaves-in-clipping", 2)


def test_a_step_that_an_empty_parameter_holds_up_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = train.Optimizer.step

    def step(self: Any, *given: Any) -> Any:
        return None if any(not p.size for p in self.params) else right(self, *given)

    monkeypatch.setattr(train.Optimizer, "step", step)
    assert failures("functions/empty-leaves-in-optimizers")


def test_averages_and_trees_without_empty_leaves_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right, load = train.ExponentialMovingAverage.state_dict, calor.load

    def state_dict(self: Any) -> dict[str, Any]:
        return {n: t for n, t in right(self).items() if t.size}

    def read(path: Any) -> Any:
        return calor.tree.map(lambda t: t if t.size else calor.reshape(t, (0,)), load(path))

    monkeypatch.setattr(train.ExponentialMovingAverage, "state_dict", state_dict)
    monkeypatch.setattr(calor, "load", read)
    assert failures("functions/empty-leaves-in-averages")
    assert failures("functions/empty-leaves-in-trees")


def test_one_overflow_for_all_optimizers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling._Optimizers, "bit", lambda self, optimizer: 1)
    assert failures("state/shared-scaler")


def test_one_base_for_all_groups_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(self: Any) -> None:
        for name, schedule in self.schedules.items():
            for group in self.optimizer.param_groups:
                group[name] = schedule.value(self.count, self.bases[name][0])

    monkeypatch.setattr(train.Scheduler, "_set", one)
    assert failures("state/shared-schedules")


def test_an_average_that_a_lost_part_holds_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = train.ExponentialMovingAverage.update

    def update(self: Any) -> None:
        if all(calor.all(calor.isfinite(t)).item() for t in self.sources):
            right(self)

    monkeypatch.setattr(train.ExponentialMovingAverage, "update", update)
    assert failures("state/shared-averages")


def test_a_stream_that_a_program_leaves_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = calor.jit

    def jit(function: Any, **more: Any) -> Any:
        made = right(function, **more)

        def call(pair: Any, *given: Any) -> Any:
            stream = pair.layers[0].stream
            before = [t.numpy() for t in stream.state]
            found = made(pair, *given)
            stream.set_state([calor.asarray(a) for a in before])
            return found

        call.bind = made.bind  # type: ignore[attr-defined]
        return call

    monkeypatch.setattr(calor, "jit", jit)
    assert failures("state/shared-streams")
