"""Containers that the modules of packages reach, with names and lengths.

Requirements: what a process keeps for good hangs on a module, by tables, objects, classes, closures
of functions and caches. The walk takes each object once, by the shortest way, and does not go into
tensors, graphs and what other packages define.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

import calor
from calor.graph.graph import Graph
from calor.interning import Interner

Own = Callable[[str], bool]
_DEPTH: Final = 7
_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None), np.ndarray, np.dtype,
                 np.generic, np.random.Generator, calor.Tensor, Graph, ModuleType)  # fmt: skip


def lengths(own: Own, more: dict[str, Any]) -> dict[str, int]:
    """Return the lengths of containers, and of caches without a limit, that modules reach.

    Parameters
    ----------
    own : callable
        Whether a module of that name is walked, and objects of its classes.
    more : dict of str to Any
        Objects to begin at beside the modules, by what they are called.

    Returns
    -------
    dict of str to int
        The length of each by the way to it.
    """
    found: dict[int, tuple[str, int]] = {}
    seen: set[int] = set()
    weak: set[int] = set()
    turn = list(more.items())
    for name, module in list(sys.modules.items()):
        if own(name) and isinstance(module, ModuleType):
            named = list(vars(module).items())
            turn += [(f"{name}.{key}", held) for key, held in named if not key.startswith("__")]
    for _ in range(_DEPTH):
        following: list[tuple[str, Any]] = []
        for name, value in turn:
            if isinstance(value, _PLAIN) or id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Interner):
                # It holds weak references, of which dead ones are swept out at times.
                weak.add(id(value.entries))
                continue
            length = _length(value)
            if length is not None:
                found[id(value)] = name, length
            following += [(name + way, held) for way, held in _within(value, own)]
        turn = following
    return dict(one for key, one in found.items() if key not in weak)


def _length(value: Any) -> int | None:
    """Return how much a container holds, None for what has a limit or holds nothing."""
    if isinstance(value, deque) and value.maxlen is not None:
        return None
    if isinstance(value, dict | list | set | deque):
        return len(value)
    told = getattr(value, "cache_info", None)
    if told is None or isinstance(value, type):
        return None
    info = told()
    return info.currsize if info.maxsize is None else None


def _within(value: Any, own: Own) -> Iterator[tuple[str, Any]]:
    """Yield what a value holds, with the way there."""
    if isinstance(value, dict | MappingProxyType):
        yield from ((f"[{key!r:.40}]", held) for key, held in list(value.items()))
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((f"[{n}]", held) for n, held in enumerate(list(value)))
    elif isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, MethodType):
        yield ".self", value.__self__
    elif isinstance(value, type):
        if own(value.__module__):
            yield from ((f".{name}", held) for name, held in list(vars(value).items()))
    elif own(type(value).__module__):
        yield from _of_object(value)


def _of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    yield from ((f".{name}", held) for name, held in list(vars(function).items()))
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:
            continue  # Nothing was put there yet.
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield from ((f".default {n}", held) for n, held in enumerate(defaults))


def _of_object(value: Any) -> Iterator[tuple[str, Any]]:
    yield from ((f".{name}", held) for name, held in list(getattr(value, "__dict__", {}).items()))
    for kind in type(value).__mro__:
        names = kind.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            held = getattr(value, name, None)
            if held is not None:
                yield f".{name}", held
