"""What is told of a program, however its arguments are passed and whatever device is current.

A program is planned for the device of its tensors. These are passed by position, by name, within
containers or by an object, while another device is current; what is told must be what is told of
the plain call there, or the same refusal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.errors import UnsupportedError
from calor.transforms.state import Stateful

from .base import Check, Place

CONTRACT: Final = "a program is explained for the device of its tensors, however they are passed"
PACKAGE: Final = "calor_fusion"
_REFERENCE: Final = "numpy"
Rng = np.random.Generator
# A way to pass two tensors: the function of it, the positional arguments and those by name.
Way = tuple[Callable[..., Any], list[Any], dict[str, Any]]


class _Holder(Stateful):
    """An object with a tensor."""

    def __init__(self, weight: Any) -> None:
        self.weight = weight


def _rows(x: Any, w: Any) -> Any:
    return calor.exp(x @ w + 1)


def _summed(x: Any, w: Any) -> Any:
    return (x * 2 - w[: x.shape[1], 0]).sum(axis=1)


def _sorted(x: Any, w: Any) -> Any:
    return calor.sort(x + 1, axis=-1), calor.abs(w)


_PROGRAMS: Final = (_rows, _summed, _sorted)


def _ways(program: Callable[..., Any], x: Any, w: Any) -> dict[str, Way]:
    held = _Holder(w)
    return {
        "by position": (program, [x, w], {}),
        "by name": (program, [], {"x": x, "w": w}),
        "one by name": (program, [x], {"w": w}),
        "in a list": (lambda both: program(*both), [[x, w]], {}),
        "in a dictionary by name": (
            lambda *, both: program(**both),
            [],
            {"both": {"x": x, "w": w}},
        ),
        "by an object": (lambda x, of: program(x, of.weight), [x, held], {}),
        "by an object by name": (lambda *, x, of: program(x, of.weight), [], {"x": x, "of": held}),
    }


def _told(explain: Any, way: Way) -> str:
    function, args, names = way
    try:
        return str(explain(function, *args, **names))
    except UnsupportedError as error:
        return f"{type(error).__name__}: {error}"


def _run(place: Place) -> None:
    rng, explain = np.random.default_rng([place.seed, 1013]), import_module(PACKAGE).explain
    program = _PROGRAMS[int(rng.integers(len(_PROGRAMS)))]
    m, k = (int(n) for n in rng.integers(2, 9, 2))
    with calor.device(place.plain):
        x, w = calor.ones((m, k)), calor.ones((k, 4))
    for jitted in (False, True):
        for name, (function, args, names) in _ways(program, x, w).items():
            way = (calor.jit(function) if jitted else function), args, names
            with calor.device(place.plain):
                want = _told(explain, way)
            with calor.device(_REFERENCE):
                got = _told(explain, way)
            what = f"{program.__name__[1:]}, tensors {name}, {'jitted' if jitted else 'plain'}"
            assert got == want, f"{what}, elsewhere: {got!r}, not {want!r}"


def explained_arguments() -> Iterator[Check]:
    """Yield the check, if calor-fusion is installed."""
    if find_spec(PACKAGE) is not None:
        yield Check(
            kind="graphs",
            subject="explained-arguments",
            tier="compiled",
            contract=CONTRACT,
            run=_run,
            text=partial(inspect.getsource, inspect.getmodule(_run) or _run),
            dtypes=(float32,),
            looks=True,
        )
