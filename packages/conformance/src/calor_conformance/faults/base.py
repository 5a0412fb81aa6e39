"""What a fault is: a backend that is wrong in one way, and the checks that have to say so.

Requirements: a fault is data, so that the self-test, its table and the tests read the same line;
everything but the fault is the reference; a fault that only shows under load, in threads or at the
second call shows there every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyBackend, NumpyExecutable
from calor.backends.op_table import Function
from calor.backends.protocol import Backend, Info
from calor.graph.graph import Graph

Array = np.ndarray[Any, Any]
# Makes a broken function of the table from the right one.
Change = Callable[[Function], Function]


@dataclass(frozen=True)
class Fault:
    """One way to be wrong.

    ``about`` says in a sentence what is broken. ``caught_by`` are patterns of names, for each of
    which a check that fits must fail. Asked are the checks of ``ops``, in all dtypes, and the
    contracts, which are about no op.
    """

    name: str
    about: str
    make: Callable[[], Backend] = field(repr=False)
    caught_by: tuple[str, ...]
    ops: tuple[str, ...] = ()


class Broken(NumpyBackend):
    """The reference under another name; a fault overrides one thing."""

    name = "broken"
    executable: type[NumpyExecutable] = NumpyExecutable

    def compile(self, index: int, graph: Graph) -> NumpyExecutable:
        """Prepare the executable of this backend's own class."""
        return self.executable(self, index, graph)


def changing(**changes: Change) -> type[Broken]:
    """Return a backend in whose table some functions are changed."""

    class Changed(Broken):
        def table(self, index: int) -> Mapping[str, Function]:
            made = super().table(index)
            return {**made, **{n: change(made.get(n, missing)) for n, change in changes.items()}}

    return Changed


def missing(*operands: Any, **attributes: Any) -> Any:
    """Stand for the function of a composite, which the reference leaves to its decomposition."""
    raise NotImplementedError


def afterwards(change: Callable[..., Any]) -> Change:
    """Make a change from a function of (result, operands, attributes)."""

    def changed(right: Function) -> Function:
        def function(*operands: Any, **attributes: Any) -> Any:
            return change(right(*operands, **attributes), operands, attributes)

        return function

    return changed


Call = Callable[..., list[Any]]


def calling(change: Callable[[Any, Call, Sequence[Any], Any], list[Any]]) -> type[Broken]:
    """Return a backend whose executables answer ``change(executable, run, inputs, into)``."""

    class Executable(NumpyExecutable):
        def __call__(self, inputs: Sequence[Any], into: Any = None) -> list[Any]:
            return change(self, partial(NumpyExecutable.__call__, self), inputs, into)

    class Calling(Broken):
        executable = Executable

    return Calling


def describing(change: Callable[[Info], Mapping[str, Any]]) -> type[Broken]:
    """Return a backend whose description is changed in some fields."""

    class Described(Broken):
        def __init__(self) -> None:
            super().__init__()
            self._info = replace(self._info, **change(self._info))

    return Described
