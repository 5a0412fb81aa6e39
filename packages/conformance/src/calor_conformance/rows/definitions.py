"""The text that defines a row, for its digest: another text is another row."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from .language import Case


def text_of(c: Case) -> str:
    """Return the definition of a row: operands, attributes, tolerance, oracle, exceptions."""
    parts = [
        c.label,
        repr(c.inputs),
        ",".join(d.name for d in c.dtypes),
        repr(sorted(c.attributes.items())),
        f"{c.tol.ulps} {c.tol.half} {source_of(c.tol.scale)}",
        source_of(c.oracle),
        source_of(c.operation),
        source_of(c.out),
        *(source_of(d.draw) for d in c.inputs),
        f"{c.raw} {c.no_gradient} {c.covers} {c.since}",
    ]
    return "\n".join(parts)


def source_of(value: Any) -> str:
    """Return the source of a function with its closure; the text of anything else."""
    return _source(value) if callable(value) else repr(value)


@cache
def _source(function: Callable[..., Any]) -> str:
    name = _name(function) or type(function).__qualname__
    module = getattr(function, "__module__", None) or ""
    if module.partition(".")[0] == "numpy":
        # The text of a library function differs between versions; its name defines it.
        return f"{module.partition('.')[0]}.{name}"
    try:
        text = written(function)
    except (OSError, TypeError):
        text = name
    cells = getattr(function, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells]
    kept = [h if not callable(h) else _name(h) for h in held]
    # Functions within a value are told with their addresses, which differ between processes.
    return text + re.sub(r" at 0x[0-9a-f]+", "", "".join(map(repr, kept)))


@cache
def written(what: Any) -> str:
    """Return the text of a function or class, which is read once for all closures of one text."""
    function = inspect.unwrap(what)
    own = isinstance(function, FunctionType)
    return _written(function.__code__) if own else inspect.getsource(what)


@cache
def _written(code: CodeType) -> str:
    return inspect.getsource(code)


def _name(function: Callable[..., Any]) -> str:
    """Return the qualified name, in which Python before 3.12 has comprehensions as functions."""
    name: str = getattr(function, "__qualname__", "")
    return re.sub(r"<(?:list|dict|set)comp>\.", "", name)
