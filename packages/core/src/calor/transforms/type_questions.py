"""Finds code that may decide by the type of a size, which no guard of a trace sees.

Requirements: a symbolic size answers every question about its number with a guard, but Python asks
its type without telling it, so a branch under ``type(n) is int`` or ``isinstance(n, int)`` goes
another way than for a number. The code that runs during a trace is looked at, once for each code
object: what may ask types of numbers is found, whether or not it asked a size.
"""

from __future__ import annotations

import builtins
import dis
import numbers
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

_OWN: Final = ("calor.", "calor_")
# What calor itself asks of NumPy is not about types of sizes.
_NUMPY: Final = ("numpy.", "ml_dtypes.")
_LIBRARY: Final = sysconfig.get_path("stdlib")
_GLOBAL: Final = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
_ASKING: Final = frozenset((isinstance, issubclass))
# Modules of which an attribute may be a type of numbers.
_MODULES: Final = frozenset((builtins, numbers))


class TypeQuestions:
    """Context in which the calls of this thread are watched.

    ``found`` names the code that may ask types of numbers, None if none ran.
    """

    def __init__(self) -> None:
        self.found: str | None = None
        self._seen: set[types.CodeType] = set()
        self._watches = False

    def __enter__(self) -> Self:
        if sys.getprofile() is None:
            self._watches = True
            sys.setprofile(self._called)
        else:
            self.found = "unknown, since a profiler runs"
        return self

    def __exit__(self, *error: object) -> None:
        if self._watches:
            sys.setprofile(None)

    def _called(self, frame: types.FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._seen or self.found is not None:
            return
        name = _module(frame)
        if name.startswith(_NUMPY) and _called_by_own(frame):
            return
        self._seen.add(code)
        if name.startswith(_OWN) or code.co_filename.startswith("<frozen"):
            return
        # Of the library, dispatch by types is what is given sizes.
        library = code.co_filename.startswith(_LIBRARY) and "site-packages" not in code.co_filename
        if library and not code.co_qualname.startswith("singledispatch"):
            return
        if asks(code, frame.f_globals):
            self.found = f"{code.co_qualname}, {code.co_filename}:{code.co_firstlineno}"


def _module(frame: types.FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '')}."


def _called_by_own(frame: types.FrameType) -> bool:
    """Return whether code of calor called the library whose code runs."""
    caller = frame.f_back
    while caller is not None and _module(caller).startswith(_NUMPY):
        caller = caller.f_back
    return caller is not None and _module(caller).startswith(_OWN)


def asks(code: types.CodeType, scope: Mapping[str, Any]) -> bool:
    """Return whether code may decide by the type of a number.

    Parameters
    ----------
    code : code
        The code of a function.
    scope : mapping of str
        Its global names.

    Returns
    -------
    bool
        True if it uses ``type``, ``__class__``, or ``isinstance`` or a class pattern with a type
        of integers, or with one that its global names do not tell.
    """
    loaded: list[Any] = []
    matches = False
    for one in dis.get_instructions(code):
        if one.opname in _GLOBAL:
            loaded.append(scope.get(one.argval, getattr(builtins, one.argval, None)))
        elif one.opname in ("LOAD_ATTR", "LOAD_METHOD") and one.argval == "__class__":
            return True
        matches = matches or one.opname == "MATCH_CLASS"
    if any(value is type for value in loaded):
        return True
    if not matches and not any(value is one for value in loaded for one in _ASKING):
        return False
    if any(value is module for value in loaded for module in _MODULES):
        return True
    kinds = [kind for value in loaded for kind in _kinds(value)]
    return not kinds or any(issubclass(int, kind) for kind in kinds if kind is not object)


def _kinds(value: Any) -> Iterator[type]:
    """Yield the types that a value names, in unions and tuples too."""
    if isinstance(value, type):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _kinds(one)
    elif isinstance(value, types.UnionType):
        yield from _kinds(value.__args__)
