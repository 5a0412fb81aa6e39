"""Tables of the process have a limit: none grows with each new shape or option.

A program that meets a hundred thousand shapes must not keep something of each. The limits of memos,
plans and programs are lowered, and many calls are made, each with a shape, a number or a text that
no call had before. The containers that are reachable from the modules of the packages are counted
before and behind: one that took in an entry for each call of a kind has no limit.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from typing import Any, Final

import numpy as np

import calor

from ..collecting import quick_collections
from ..reachable import lengths
from .base import Place
from .contract import Contracts

contract = Contracts("memory")
# The modules with limits, and the names of these.
_LIMITS: Final = (
    ("calor.interning", "MEMO_LIMIT"), ("calor.compiling.plans", "PLAN_LIMIT"),
    ("calor.transforms.jit", "PROGRAM_LIMIT"), ("calor.transforms.jit", "_STRUCTURES"),
)  # fmt: skip
_LOWERED: Final = 3
_CALLS: Final = 12
# Lengths that no call had before.
_LENGTHS: Final = count(401)
_step: Final = calor.jit(lambda x, power: calor.sum(x**power), static_argnames="power")


def _einsum(n: int) -> Any:
    # Three letters, all different, which no number near it has.
    i, j, k = (chr(97 + 8 * place + (n >> 3 * place) % 8) for place in range(3))
    return calor.einsum(f"{i}{j},{j}{k}->{i}{k}", calor.ones((2, 3)), calor.ones((3, 2)))


def _gradient(n: int) -> Any:
    return calor.grad(lambda x: calor.sum(calor.exp(x) * x))(calor.ones((n,)))


# Each makes something of a number that is another one at each call.
_KINDS: Final[dict[str, Callable[[int], Any]]] = {
    "elementwise": lambda n: calor.exp(calor.ones((n,))) + calor.ones((n,)) * 2,
    "constants": lambda n: calor.ones((3,)) * (n + 0.5),
    "reductions": lambda n: calor.max(calor.cumulative_sum(calor.ones((2, n)), axis=1), axis=0),
    "products": lambda n: calor.matmul(calor.ones((2, n)), calor.ones((n, 2))),
    "contractions": lambda n: calor.tensordot(calor.ones((2, n)), calor.ones((n, 3)), axes=1),
    "inner products": lambda n: calor.vecdot(calor.ones((2, n)), calor.ones((2, n))),
    "einsum of shapes": lambda n: calor.einsum("ij,jk->ik", calor.ones((2, n)), calor.ones((n, 2))),
    "einsum of texts": _einsum,
    "cuts": lambda n: calor.ones((1 << 14,))[n : n + 3],
    "rows": lambda n: calor.ones((n, 2))[1],
    "parts": lambda n: calor.ones((n, 2))[:, :1],
    "places": lambda n: calor.take(calor.ones((n, 2)), calor.asarray([0, n - 1]), axis=0),
    "padded": lambda n: calor.pad(calor.ones((2, n)), ((0, 0), (1, 2))),
    "moved": lambda n: calor.moveaxis(calor.ones((2, n)), 0, 1),
    "joined": lambda n: calor.concat([calor.ones((n,)), calor.zeros((2,))]),
    "sorted": lambda n: calor.sort(calor.ones((n,)), descending=True),
    "uploads": lambda n: calor.asarray(np.ones((n, 2), np.float32)),
    "random numbers": lambda n: calor.random.normal((n,)),
    "jitted": lambda n: _step(calor.ones((n,)), 2),
    "jitted with options": lambda n: _step(calor.ones((4,)), n),
    "functions that are jitted": lambda n: calor.jit(lambda x: x * 2 + 1)(calor.ones((3,))),
    "gradients": _gradient,
    "mapped": lambda n: calor.vmap(lambda x: calor.sum(x * x))(calor.ones((3, n))),
}  # fmt: skip
# What a device that compiles is asked: these are a few programs.
_FEW: Final = ("elementwise", "cuts", "uploads", "jitted with options", "functions that are jitted")


def _of_layers() -> dict[str, Callable[[int], Any]]:
    if find_spec("calor_nn") is None:
        return {}
    nn, functional = import_module("calor_nn"), import_module("calor_nn.functional")
    return {
        "layers": lambda n: nn.Linear(n, 2)(calor.ones((1, n))),
        "windows": lambda n: functional.max_pool1d(calor.ones((1, 1, n)), 2),
        "convolutions": lambda n: functional.conv1d(calor.ones((1, 1, n)), calor.ones((1, 1, 3))),
        "norms": lambda n: functional.layer_norm(calor.ones((2, n)), n),
    }


@contextmanager
def _lowered() -> Iterator[None]:
    """Make all limits small."""
    limits = [(import_module(module), name) for module, name in _LIMITS]
    before = [getattr(module, name) for module, name in limits]
    try:
        for module, name in limits:
            setattr(module, name, _LOWERED)
        yield
    finally:
        for (module, name), limit in zip(limits, before, strict=True):
            setattr(module, name, limit)


def _is_own(place: Place, name: str) -> bool:
    """Return whether a module belongs to calor, or to the device's package."""
    top, device = name.partition(".")[0], type(place.plain.backend).__module__
    if top == "calor_conformance":
        return name == device
    return top == "calor" or top.startswith("calor_") or top == device.partition(".")[0]


def _counted(place: Place) -> dict[str, int]:
    gc.collect()
    return lengths(partial(_is_own, place), {"the device": place.plain, "jitted": _step})


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Return the lengths of the tables that took in an entry for each call of a kind."""
    return {
        name: (before[name], length)
        for name, length in after.items()
        if name in before and length - before[name] >= _CALLS - 1
    }


@contract("what is kept of calls has a limit, whatever shapes and options they have", tier="full")
def tables_have_limits(place: Place) -> None:
    kinds = {**_KINDS, **_of_layers()}
    if not place.interpreted:
        kinds = {name: kinds[name] for name in _FEW}

    def turn(calls: int) -> None:
        for kind in kinds.values():
            for _ in range(calls):
                made = kind(next(_LENGTHS))
                (made[0] if isinstance(made, tuple) else made).numpy()

    with _lowered(), quick_collections():
        # Memos are full then, and the pool has the blocks of as many results that are under way.
        turn(_CALLS)
        counts = [_counted(place)]
        turn(_CALLS)
        counts.append(_counted(place))
        grown = _grown(*counts)
        if grown:
            # What waits for the garbage collector is more in one turn than in another.
            turn(_CALLS)
            again = _grown(counts[1], _counted(place))
            grown = {name: lengths for name, lengths in grown.items() if name in again}
    assert not grown, (
        f"tables grow with each call, with limits of {_LOWERED}: before and after {_CALLS} calls "
        f"of {len(kinds)} kinds they have {grown}"
    )


CHECKS = contract.checks
