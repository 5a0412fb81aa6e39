"""What holds where an argument is left out: the defaults of all public functions and methods.

A default is part of an interface, and rows that name every argument do not see it. The table is
stored, and ``tools/defaults_table.py`` writes it anew where an interface changes on purpose.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from .base import Check, Place

CONTRACT: Final = "an argument that is left out has the default of the interface"
STORED: Final = Path(__file__).parents[1] / "rows" / "defaults.json"
# The modules of calor, and packages that may be installed; their submodules hold functions too.
MODULES: Final = (
    "calor", "calor.random", "calor.fft", "calor.tree", "calor_distributions", "calor_linalg",
    "calor_nn", "calor_nn.functional", "calor_nn.init", "calor_nn.parametrize", "calor_numerics",
    "calor_numerics.random", "calor_numerics.signal", "calor_numerics.signal.windows",
    "calor_special",
)  # fmt: skip
_PLAIN: Final = (bool, int, float, str, type(None))
Defaults = dict[str, dict[str, Any]]


def current(name: str) -> Defaults:
    """Return the defaults of a module's public functions and classes, by function and parameter.

    Parameters
    ----------
    name : str
        The module.

    Returns
    -------
    dict of str to dict
        Plain values alone: truths, numbers, texts and None.
    """
    made: Defaults = {}
    module = import_module(name)
    for public in sorted(getattr(module, "__all__", ())):
        one = getattr(module, public)
        if getattr(one, "__module__", name).partition(".")[0] != name.partition(".")[0]:
            continue  # It is told where it is from.
        if inspect.isclass(one):
            if not issubclass(one, BaseException):
                _of_class(made, public, one)
        elif inspect.isfunction(one):
            _add(made, public, one)
    return made


def _of_class(made: Defaults, public: str, kind: type) -> None:
    # Methods of a module's base are told there; those of a tensor come from its parts.
    shared = set() if kind.__module__.startswith("calor.") else set(dir(kind)) - set(vars(kind))
    for name, function in inspect.getmembers(kind, inspect.isfunction):
        own = function.__module__.startswith("calor") and name not in shared
        if name == "__init__" or (own and not name.startswith("_")):
            _add(made, f"{public}.{name}", function)


def _add(made: Defaults, name: str, function: Any) -> None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    found = {p.name: p.default for p in parameters if type(p.default) in _PLAIN}
    if found:
        made[name] = found


@cache
def stored() -> dict[str, Defaults]:
    """Return the table, by module."""
    made: dict[str, Defaults] = json.loads(STORED.read_text("utf-8"))
    return made


def _run(name: str, place: Place) -> None:
    now = current(name)
    for function, known in stored()[name].items():
        found = now.get(function, {})
        for parameter, value in known.items():
            assert parameter in found, f"{name}.{function}: {parameter} has no plain default"
            got = found[parameter]
            same = type(got) is type(value) and got == value
            assert same, f"{name}.{function}: {parameter} is {got!r} by default, not {value!r}"


def defaults() -> Iterator[Check]:
    """Yield a check of each module that is installed."""
    for name in MODULES:
        if find_spec(name.partition(".")[0]) is not None:
            yield Check(
                kind="functions",
                subject=f"defaults-of-{name}",
                tier="full",
                contract=CONTRACT,
                run=partial(_run, name),
                text=partial(STORED.read_text, "utf-8"),
            )
