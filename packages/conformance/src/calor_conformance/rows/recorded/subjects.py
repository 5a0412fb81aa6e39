"""What is called: the functions with rows, and those whose arguments are drawn by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

import calor

from ..functions import ways
from ..functions.drawing import Arguments, Rng
from ..functions.layers import installed
from . import points, sources

_Draw = Callable[[Rng], Arguments]


@dataclass(frozen=True)
class Subject:
    """A function as it is called.

    Parameters
    ----------
    label : str
        The package, the name, and what tells this way to call it from others.
    draw : callable
        Draws positional and keyword arguments.
    call : callable
        What is called with them as tensors.
    function : callable, default None
        The public function, if it is called with just these arguments: it may get others too.
    pointwise : bool, default False
        Whether elements do not depend on each other, so each has digits of its own.
    """

    label: str
    draw: _Draw = field(repr=False)
    call: Callable[..., Any] = field(repr=False)
    function: Callable[..., Any] | None = field(default=None, repr=False)
    pointwise: bool = False

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters of the public function by name; none if there is none."""
        return {} if self.function is None else _parameters(self.function)


@cache
def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def _of_rows() -> Iterator[Subject]:
    for way in ways():
        function = None if way.other else getattr(calor, way.name, None)
        known = function if inspect.isfunction(function) else None
        yield Subject(f"calor.{way.label}", way.draw, way.call, known)
    for name, rows in installed().items():
        package = import_module(name)
        for row in rows:
            function = getattr(package, row.name)
            known = function if row.call is None and inspect.isfunction(function) else None
            call = function if row.call is None else partial(row.call, package)
            yield Subject(f"{name}.{row.label}", row.draw, call, known)


# The packages with functions of single elements.
_POINTWISE: Final = ("calor", "calor_special")
# Functions of calor whose rows are those of ops.
_OTHERS: Final = ("conj", "real", "imag", "less_equal", "greater_equal", "digamma", "erfinv")


def _of_points() -> Iterator[Subject]:
    for name in _POINTWISE:
        try:
            package = import_module(name)
        except ModuleNotFoundError:
            continue
        # Further names of calor may stand for modules that are not loaded yet.
        rows = {*_OTHERS, *(way.name for way in ways() if hasattr(calor, way.name))}
        for public in package.__all__ if name != "calor" else sorted(rows):
            function = getattr(package, public)
            count = points.operands(function)
            own = name == "calor" or getattr(calor, public, None) is not function
            if count and own:
                yield _at_points(name, public, function, count)


def _at_points(name: str, public: str, function: Any, count: int) -> Subject:
    draw = partial(points.drawn, function, count)
    return Subject(f"{name}.{public}-at points", draw, function, function, pointwise=True)


@cache
def subjects() -> dict[str, Subject]:
    """Return what is called, by label."""
    made: dict[str, Subject] = {}
    own = (Subject(*given) for given in sources.named())
    for one in (*_of_rows(), *_of_points(), *own):
        assert one.label not in made, f"two subjects are called {one.label}"
        made[one.label] = one
    return made
