"""A tensor that is made in any way has all that tensors have: it can be sliced and written."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor.tensor.values import Handle

WAYS: dict[str, Callable[[Any], Any]] = {
    "created": lambda x: calor.zeros(3),
    "an operation": lambda x: x + 1,
    "a view": lambda x: x[1:],
    "looked at": lambda x: calor.eval(y := x * 2) or y,
    "a program": calor.jit(lambda x: x * 2),
    "a program of two results": lambda x: calor.jit(lambda x: (x, x * 2))(x)[1],
    "a bound program": lambda x: [calor.jit(lambda x: x * 2).bind(x)() for _ in range(4)][-1],
    "a bound program's argument": lambda x: [calor.jit(lambda x: x * 2).bind()(x) for _ in "abcd"][
        -1
    ],
    "a gradient": calor.grad(lambda x: (x * x).sum()),
    "a stored gradient": lambda x: _stored(x),
    "a branch": lambda x: calor.cond(x[0] > 0, lambda: x, lambda: -x),
    "a loop": lambda x: calor.fori_loop(0, 2, lambda i, y: y * 2, x),
    "mapped": calor.vmap(lambda x: x * 2),
    "detached": lambda x: x.detach(),
    "copied": copy.deepcopy,
    "pickled": lambda x: pickle.loads(pickle.dumps(x)),
    "another device": lambda x: x.to("numpy"),
}


def _stored(x: Any) -> Any:
    leaf = x.copy().requires_grad_()
    (leaf * leaf).sum().backward()
    return leaf.grad


@pytest.mark.parametrize("way", WAYS)
def test_all_slots_are_filled(way: str) -> None:
    made = WAYS[way](calor.asarray([1.0, 2.0, 3.0]))
    for slot in Handle.__slots__:
        if slot != "__weakref__":
            getattr(made, slot)
    assert made[:1].shape == (1,)
    made += 1
    assert made.shape in ((3,), (2,))
