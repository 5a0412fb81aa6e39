"""What a function reaches without arguments: objects with state, and tensors.

Requirements: whatever way Python lets a function have an object, the object's modes and tensors are
those of the call. A walk follows only what the code names, so that a large object with a small
method costs little, and what the method does not use makes no new trace.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from calor.tensor.values import Handle
from calor.transforms.state import Stateful

# Values that hold nothing, and classes, whose attributes are no state of a function.
_LEAVES: Final = (str, bytes, bytearray, int, float, complex, type(None), type)
# What an object is called by, and what a decorator that is no function keeps.
_CALLED: Final = ("__call__", "__wrapped__")
# The flag of classes that are made at run time, and so may have methods in Python.
_OF_PYTHON: Final = 1 << 9
# How far objects, containers and functions are followed, and how many of them.
_DEPTH: Final = 8
_MOST: Final = 10_000


class _Search:
    """The objects and tensors found so far, by identity."""

    def __init__(self) -> None:
        self.objects: dict[int, Stateful] = {}
        self.tensors: dict[int, Handle] = {}
        self.seen: set[tuple[int, frozenset[str]]] = set()

    def visit(self, value: Any, names: frozenset[str], depth: int = 0) -> None:
        """Follow a value that code with these names reaches."""
        if isinstance(value, Stateful):
            self.objects[id(value)] = value
            return
        if isinstance(value, Handle):
            self.tensors[id(value)] = value
            return
        key = id(value), names
        if isinstance(value, _LEAVES) or key in self.seen:
            return
        if depth > _DEPTH or len(self.seen) >= _MOST:
            return
        self.seen.add(key)
        if isinstance(value, types.FunctionType):
            self._function(value, depth + 1)
        elif isinstance(value, types.MethodType):
            self._method(value.__self__, value.__func__, depth)
        elif isinstance(value, types.ModuleType):
            held = vars(value)
            self._each([held[n] for n in names if isinstance(held.get(n), Stateful)], names, depth)
        else:
            parts = _parts(value)
            if parts is None:
                self._attributes(value, names, depth + 1)
            else:
                self._each(parts, names, depth)

    def _each(self, values: Iterable[Any], names: frozenset[str], depth: int) -> None:
        for value in itertools.islice(values, _MOST):
            self.visit(value, names, depth + 1)

    def _function(self, function: types.FunctionType, depth: int) -> None:
        names = _names(function.__code__)
        for cell in function.__closure__ or ():
            try:
                self.visit(cell.cell_contents, names, depth)
            except ValueError:
                continue
        defaults = (function.__defaults__ or (), (function.__kwdefaults__ or {}).values())
        self._each([value for part in defaults for value in part], names, depth - 1)
        for name in names:
            named = function.__globals__.get(name)
            # Of functions those of the same file, for all of a library would be followed.
            if not isinstance(named, types.FunctionType) or _near(named, function):
                self.visit(named, names, depth)

    def _method(self, owner: Any, function: Any, depth: int) -> None:
        code = getattr(function, "__code__", None)
        self.visit(owner, frozenset() if code is None else _names(code), depth)
        self.visit(function, frozenset(), depth)

    def _attributes(self, value: Any, names: frozenset[str], depth: int) -> None:
        """Follow the attributes of an object without state that the code names."""
        held = getattr(value, "__dict__", None)
        if held is None:
            if not type(value).__flags__ & _OF_PYTHON:
                return
            held = {}
        for name in (*names, *_CALLED):
            if name in held:
                self.visit(held[name], names, depth)
                continue
            for kind in type(value).__mro__:
                found = vars(kind).get(name)
                if found is None:
                    continue
                if isinstance(found, property):
                    found = found.fget
                if isinstance(found, types.FunctionType):
                    self._method(value, found, depth)
                break


def _near(named: types.FunctionType, function: types.FunctionType) -> bool:
    """Return whether two functions are of one module; a decorator may take either sign away."""
    of, name = function.__globals__.get("__name__"), named.__globals__.get("__name__")
    return named.__module__ == function.__module__ or of == name


def _parts(value: Any) -> Collection[Any] | None:
    """Return what a container or a wrapper holds, None of an object that is neither."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    wrapped = getattr(type(value), "hidden_parts", None)
    return None if wrapped is None else tuple(wrapped(value))


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> frozenset[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return frozenset(names)


def hidden(function: Callable[..., Any]) -> tuple[list[Stateful], list[Handle]]:
    """Return the objects and the tensors that a function reaches without arguments.

    These are its own ``self``, its closure's cells, what its parameters are by default, and the
    globals that its code names; the items of containers there, and the attributes of other
    objects that the code names.

    Parameters
    ----------
    function : callable
        The function.

    Returns
    -------
    tuple of (list of Stateful, list of Handle)
        The objects with state, whose own tensors are not listed, and the other tensors.
    """
    search = _Search()
    search.visit(function, frozenset())
    return [*search.objects.values()], [*search.tensors.values()]
