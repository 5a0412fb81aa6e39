"""jit: containers of state that the function assigns as a whole, or changes in place."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor.errors import TraceError
from calor.transforms.state import Stateful


def tensor(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64)


class _Box(Stateful):
    """Tensors in containers, and an object of its own."""

    names = ("items", "table", "parts", "first")

    def __init__(self, deep: bool = True) -> None:
        self.items = [tensor(1), tensor(2)]
        self.table = {"a": tensor(3), "b": tensor(4)}
        self.parts: Any = (tensor(5),)
        if deep:
            self.first, self.second = _Box(deep=False), _Box(deep=False)
            self.second.items[0] += 10

    def tensors(self) -> list[Any]:
        own = [*self.items, *self.table.values(), *self.parts]
        return own + self.first.tensors() + self.second.tensors() if hasattr(self, "first") else own

    def numbers(self) -> list[Any]:
        return [t if isinstance(t, float) else t.tolist() for t in self.tensors()]


def _added(box: _Box, x: Any) -> None:
    box.items = [t + x for t in box.items]


def _reversed(box: _Box, x: Any) -> None:
    box.items = box.items[::-1]
    box.items.reverse()
    box.items = [*reversed(box.items)]


def _of_a_dict(box: _Box, x: Any) -> None:
    box.table = {name: t * 2 + x for name, t in box.table.items()}


def _of_a_tuple(box: _Box, x: Any) -> None:
    box.parts = (box.parts[0] - x,)


def _swapped(box: _Box, x: Any) -> None:
    box.first, box.second = box.second, box.first


def _longer(box: _Box, x: Any) -> None:
    box.items = [*box.items, x * 2]


def _shorter(box: _Box, x: Any) -> None:
    box.items = [x * 2]


def _appended(box: _Box, x: Any) -> None:
    box.items.append(x * 2)


def _popped(box: _Box, x: Any) -> None:
    box.items.pop(0)


def _keyed(box: _Box, x: Any) -> None:
    box.table["c"] = x * 2


def _numbered(box: _Box, x: Any) -> None:
    box.items = [x * 2, 1.0]


@pytest.mark.parametrize("change", [_added, _reversed, _of_a_dict, _of_a_tuple, _swapped])
def test_assigned_containers_are_writes(change: Any) -> None:
    made, plain, f = _Box(), _Box(), calor.jit(change)
    boxes = [getattr(made, name) for name in ("items", "table", "parts", "first")]
    tensors = [*made.items, *made.table.values()]
    for n in range(3):
        f(made, tensor(n))
        change(plain, tensor(n))
        assert made.numbers() == plain.numbers()
    assert all(getattr(made, n) is box for n, box in zip(_Box.names, boxes, strict=True))
    assert all(a is b for a, b in zip(tensors, made.tensors(), strict=False))
    assert f.trace_count == 1


@pytest.mark.parametrize("change", [_longer, _shorter, _appended, _popped, _keyed, _numbered])
def test_what_is_refused_leaves_containers_as_they_were(change: Any) -> None:
    box, fresh = _Box(), _Box()
    with pytest.raises(TraceError, match="while it is traced"):
        calor.jit(change)(box, tensor(1))
    assert box.numbers() == fresh.numbers()
    change(box, tensor(1))
    assert box.numbers() != fresh.numbers()


def test_a_number_in_a_tuple_beside_tensors_is_refused() -> None:
    box = _Box()
    box.parts = (tensor(1), 0.5)
    with pytest.raises(TraceError, match="parts.1 is a number in a tuple"):
        calor.jit(lambda b: b.parts[0] * b.parts[1])(box)
