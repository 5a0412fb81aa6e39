"""One tensor that a compiled function has from several places.

A tensor may be two arguments of a call, an argument and what the function captures, or what an
object holds beside one of these. What is changed in place at one place is read at the others. A
trace sees a tensor for each place, so programs and which places are one tensor are drawn.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Check, Place

CONTRACT: Final = "a change in place is seen wherever a compiled function has the tensor from"
_DRAWN, _CALLS, _POOL = 16, 4, 4
_PLACES: Final = ("argument", "keyword", "listed", "held", "kept", "captured")
Rng = np.random.Generator
# A statement: what it does, at which place, and a number.
Statement = tuple[str, str, float]


class _Holder(Stateful):
    """Two tensors of an object: of one that is an argument, or of one that is captured."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _statements(rng: Rng) -> list[Statement]:
    """Return a program with at least one change and one place that is read after it."""
    kinds = [str(rng.choice(["add", "scale", "read", "set"])) for _ in range(3)]
    kinds = [str(rng.choice(["add", "scale"])), *kinds, "read"]
    return [(kind, str(rng.choice(_PLACES)), float(rng.integers(1, 4))) for kind in kinds]


def _changed(statements: list[Statement], at: dict[str, Any], total: Any) -> Any:
    """Run a program with tensors, or arrays, at the places; return what it has read."""
    for kind, place, number in statements:
        value = at[place]
        if kind == "add":
            value += number
        elif kind == "scale":
            value *= number
        elif kind == "set":
            value[0] = number
        else:
            total = total * 2 + value
    return total


def _run(place: Place) -> None:
    for number in range(_DRAWN):
        rng = np.random.default_rng([place.seed, 1291, number])
        statements = _statements(rng)
        numbers = rng.integers(-4, 5, (_POOL, 3)).astype(np.float32)
        arrays = [*numbers]
        pool = [calor.asarray(a) for a in arrays]
        at_all = dict(zip(_PLACES, rng.integers(0, _POOL, len(_PLACES)), strict=True))
        captured, own = pool[at_all["captured"]], _Holder(pool[at_all["kept"]])

        def function(
            argument: Any,
            listed: list[Any],
            holder: _Holder,
            *,
            keyword: Any,
            program: list[Statement] = statements,
            captured: Any = captured,
            own: _Holder = own,
        ) -> Any:
            given = argument, keyword, listed[0], holder.tensor, own.tensor, captured
            return _changed(program, dict(zip(_PLACES, given, strict=True)), argument * 0)

        jitted = calor.jit(lambda *args, f=function, **kwargs: f(*args, **kwargs))
        for call in range(_CALLS):
            for drawn in _PLACES[:4]:
                at_all[drawn] = int(rng.integers(0, _POOL))
            tensors = {name: pool[i] for name, i in at_all.items()}
            told = f"call {call} of {statements} with { ({n: int(i) for n, i in at_all.items()}) }"
            args = (tensors["argument"], [tensors["listed"]], _Holder(tensors["held"]))
            bound = jitted.bind(*args[:1]) if rng.random() < 0.3 else None
            made = (
                jitted(*args, keyword=tensors["keyword"])
                if bound is None
                else bound(*args[1:], keyword=tensors["keyword"])
            ).numpy()
            want = _changed(
                statements,
                {name: arrays[i] for name, i in at_all.items()},
                np.zeros(3, np.float32),
            )
            assert (made == want).all(), f"{made}, not {want}: {told}"
            for i, (tensor, array) in enumerate(zip(pool, arrays, strict=True)):
                got = tensor.numpy()
                assert (got == array).all(), f"tensor {i} is {got}, not {array}: {told}"


def aliased_tensors() -> Iterator[Check]:
    """Yield the check of tensors that a compiled function has from several places."""
    yield Check(
        kind="state",
        subject="aliased-tensors",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, inspect.getmodule(_run) or _run),
        dtypes=(float32,),
        looks=True,
    )
