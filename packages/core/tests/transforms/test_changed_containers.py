"""jit: elements of containers that a user replaces between calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import calor
from calor.transforms.containers import Containers
from calor.transforms.state import Stateful, members


def tensor(value: float) -> Any:
    return calor.asarray(value, dtype=calor.float64)


@dataclass
class _Settings:
    factor: float = 2.0
    sizes: list[int] = field(default_factory=lambda: [1, 2])


@dataclass(slots=True)
class _Slots:
    power: int = 1


class _Part(Stateful):
    def __init__(self, value: float) -> None:
        self.weight = tensor(value)


class _Holder(Stateful):
    def __init__(self) -> None:
        self.weights = [tensor(1), tensor(2)]
        self.table = {"a": tensor(3), "b": [tensor(4), tensor(5)]}
        self.pair = ([tensor(6)], {"c": tensor(7)})
        self.parts = [_Part(8), _Part(9)]
        self.sizes = [1, 2, 3]
        self.names = {"one": 1}
        self.kinds = {3, 4}
        self.settings = _Settings()
        self.slots = _Slots()

    def __call__(self, x: Any) -> Any:
        for i, w in enumerate(self.weights):
            x = x * (i + 2) + w
        x = x + self.table["a"] * 3 + sum((i + 4) * t for i, t in enumerate(self.table["b"]))
        x = x + self.pair[0][0] * 5 + self.pair[1]["c"] * 7
        for part in self.parts:
            x = x * 3 + part.weight
        x = x * sum((i + 1) * n for i, n in enumerate(self.sizes)) + len(self.names)
        x = x + sum(self.names.values()) + sum(self.kinds)
        return x * self.settings.factor**self.slots.power + sum(self.settings.sizes)


CHANGES: dict[str, Callable[[_Holder], Any]] = {
    "a tensor of a list": lambda h: h.weights.__setitem__(1, tensor(20)),
    "a tensor more": lambda h: h.weights.append(tensor(2)),
    "a tensor less": lambda h: h.weights.pop(0),
    "tensors exchanged": lambda h: h.weights.reverse(),
    "a tensor of a dictionary": lambda h: h.table.update(a=tensor(30)),
    "a tensor of a list in a dictionary": lambda h: h.table["b"].__setitem__(0, tensor(40)),
    "a tensor from one list to another": lambda h: h.table["b"].append(h.weights.pop()),
    "a tensor of a list in a tuple": lambda h: h.pair[0].__setitem__(0, tensor(60)),
    "a tensor of a dictionary in a tuple": lambda h: h.pair[1].update(c=tensor(70)),
    "an object of a list": lambda h: h.parts.__setitem__(0, _Part(80)),
    "objects exchanged": lambda h: h.parts.reverse(),
    "a number of a list": lambda h: h.sizes.__setitem__(0, 10),
    "a number of another type": lambda h: h.sizes.__setitem__(1, 2.5),
    "a number more": lambda h: h.sizes.append(4),
    "a name": lambda h: h.names.update(two=1),
    "a number of a name": lambda h: h.names.update(one=11),
    "a number of a set": lambda h: h.kinds.add(50),
    "a field of a dataclass": lambda h: setattr(h.settings, "factor", 3.0),
    "a number of a field": lambda h: h.settings.sizes.append(7),
    "a field in a slot": lambda h: setattr(h.slots, "power", 2),
}


def _way(way: str, holder: _Holder) -> Callable[[Any], Any]:
    if way == "an argument":
        jitted = calor.jit(lambda h, x: h(x))
        return lambda x: jitted(holder, x)
    if way == "bound":
        return calor.jit(lambda h, x: h(x)).bind(holder)
    if way == "captured":
        return calor.jit(lambda x: holder(x))
    if way == "a gradient":
        slope = calor.jit(calor.value_and_grad(lambda h, x: h(x), argnums=1))
        return lambda x: slope(holder, x)[0]
    return calor.jit(holder)


@pytest.mark.parametrize("way", ["an argument", "bound", "captured", "a gradient", "the object"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_call_reads_what_is_in_a_container_now(change: str, way: str) -> None:
    holder, x = _Holder(), tensor(0.5)
    call = _way(way, holder)
    for _ in range(2):
        assert call(x).item() == holder(x).item()
    before = holder(x).item()
    CHANGES[change](holder)
    assert holder(x).item() != before
    for _ in range(2):
        assert call(x).item() == holder(x).item()


@pytest.mark.parametrize("seed", range(5))
def test_changes_in_any_order_are_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    holder, x = _Holder(), tensor(0.5)
    calls = [_way(way, holder) for way in ("an argument", "bound", "captured")]
    for _ in range(12):
        change = CHANGES[[*CHANGES][int(rng.integers(len(CHANGES)))]]
        if len(holder.weights) > 1:
            change(holder)
        assert [call(x).item() for call in calls] == [holder(x).item()] * 3


def test_what_is_back_needs_no_other_trace() -> None:
    holder, x = _Holder(), tensor(0.5)
    traced: list[int] = []

    @calor.jit
    def run(h: _Holder, x: Any) -> Any:
        traced.append(1)
        return h(x)

    for size in (1, 5, 1, 5, 1):
        holder.sizes[0] = size
        assert run(holder, x).item() == holder(x).item()
    assert len(traced) == 2
    for value in range(4):
        holder.weights[0] = tensor(value)
        assert run(holder, x).item() == holder(x).item()
    assert len(traced) == 2


def test_objects_without_containers_are_not_looked_at() -> None:
    assert not Containers(members([_Part(1)])).views
    assert Containers(members([_Holder()])).views
