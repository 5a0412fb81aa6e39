"""Offsets of the interpreter's object slots, found by observation.

Requirements: no layout of objects is assumed. A slot is where a new object has the address of the
value that was just stored, twice in a row and nowhere else. If it is not found, calls are not
compiled.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import weakref
from types import MemberDescriptorType
from typing import Any, Final

_WORD: Final = 8
# Offset of an object's type, on interpreters with a lock and a reference count of one word.
TYPE: Final = 8
_KNOWN: weakref.WeakKeyDictionary[type, dict[str, int]] = weakref.WeakKeyDictionary()


class LayoutError(Exception):
    """An object of this interpreter does not have the layout that compiled calls need."""


def check_interpreter() -> None:
    """Raise LayoutError unless the interpreter's lock protects reference counts."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise LayoutError("compiled calls need CPython with a global interpreter lock")
    if ctypes.sizeof(ctypes.c_void_p) != _WORD:
        raise LayoutError("compiled calls need 64-bit addresses")


def slot(kind: type, name: str) -> int:
    """Return the offset of a slot in objects of a type.

    Raises
    ------
    LayoutError
        If it cannot be observed.
    """
    known = _KNOWN.setdefault(kind, {})
    if name not in known:
        known[name] = _seen(kind, name)
    return known[name]


def _seen(kind: type, name: str) -> int:
    found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if not isinstance(found, MemberDescriptorType):
        raise LayoutError(f"{kind.__name__}.{name} is no slot")
    # A subclass has its base's slots at the same offsets, and its finalizer does nothing.
    probe_type: Any = type("Probe", (kind,), {"__slots__": (), "__del__": lambda _: None})
    try:
        probe = object.__new__(probe_type)
    except TypeError as error:
        raise LayoutError(f"{kind.__name__} makes no plain objects: {error}") from error
    words = _words(probe, kind.__basicsize__)
    if words[TYPE // _WORD] != id(probe_type):
        raise LayoutError("an object does not begin with its count and its type")
    places = []
    for _ in range(2):
        seen = object()
        found.__set__(probe, seen)
        places.append([i for i, word in enumerate(words) if word == id(seen)])
    if places[0] != places[1] or len(places[0]) != 1:
        raise LayoutError(f"{kind.__name__}.{name} is not where it is seen")
    return places[0][0] * _WORD


def _words(probe: object, nbytes: int) -> Any:
    return (ctypes.c_size_t * (nbytes // _WORD)).from_address(id(probe))
