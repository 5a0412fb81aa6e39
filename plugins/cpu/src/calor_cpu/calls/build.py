"""Compilation of bound calls from text to built-in functions of the interpreter.

Requirements: a text is compiled once, cached on disk, loaded once in a process and never unloaded.
A function owns every object whose address is in its block, visibly to the garbage collector. On an
interpreter with another object layout, calls are not compiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from calor_cpu.calls.giving import giving_text
from calor_cpu.calls.offsets import LayoutError, check_interpreter
from calor_cpu.calls.writer import FUNCTIONS, Writer
from calor_cpu.linking import link
from calor_cpu.pool import Pool
from calor_cpu.toolchain import compile_once
from calor_kernel.device.calls import NativeCall

_FASTCALL, _KEYWORDS, _NO_ARGUMENTS = 0x80, 0x02, 0x04
_object, _pointer = ctypes.py_object, ctypes.c_void_p

# Prototypes of this module's own, because all code shares the attributes of ctypes.pythonapi.
_function = ctypes.PYFUNCTYPE(_object, _pointer, _object, _object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_method = ctypes.PYFUNCTYPE(_object, _object, _pointer)(("PyDescr_NewMethod", ctypes.pythonapi))
_keep_for_ever = ctypes.PYFUNCTYPE(None, _object)(("Py_IncRef", ctypes.pythonapi))


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef, the description of a function object."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Block:
    """The words of a call and the objects in them, which the garbage collector visits."""

    __slots__ = ("kept", "words")

    def __init__(self, words: Any, kept: tuple[Any, ...]) -> None:
        self.words = words
        self.kept = kept


def caller(call: NativeCall, pool: Pool, keep: object) -> Callable[..., Any] | None:
    """Return the built-in function of a bound call, or None if this interpreter cannot have one."""
    run = ctypes.cast(pool.native.run, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert run is not None
    plan = call.recorded.call
    try:
        check_interpreter()
        # The built-in function of a plan is bound to the plan's address.
        writer = Writer(call, run, plan.__self__)
    except LayoutError:
        return None
    words = (ctypes.c_uint64 * len(writer.words))(*writer.words)
    block = _Block(words, (*writer.kept, plan, keep))
    definition = _loaded(writer.text, "call", _FASTCALL | _KEYWORDS)
    made: Callable[..., Any] = _function(
        ctypes.addressof(definition), ctypes.addressof(words), block
    )
    return made


def finalizer(kind: type, pools: type) -> Any | None:
    """Return a type's method that frees memory, or None if this interpreter cannot have one."""
    try:
        check_interpreter()
        text = giving_text(kind, pools)
    except LayoutError:
        return None
    objects = {"pools": pools, "plainly": kind.__del__}  # type: ignore[attr-defined]
    for immortal in objects.values():
        _keep_for_ever(immortal)
    addresses = tuple((name, id(found)) for name, found in objects.items())
    definition = _loaded(text, "__del__", _NO_ARGUMENTS, addresses)
    return _method(kind, ctypes.addressof(definition))


@cache
def _loaded(
    text: str, name: str, flags: int, objects: tuple[tuple[str, int], ...] = ()
) -> _Definition:
    """Return the definition of the function ``call`` of a text."""
    symbols = dict(objects)
    for function in FUNCTIONS:
        found = getattr(ctypes.pythonapi, function)
        symbols[function] = ctypes.cast(found, ctypes.c_void_p).value or 0
    symbols["_Py_NoneStruct"] = id(None)
    library = link(compile_once(text), ("call",), symbols)
    definition = _Definition(name.encode(), library["call"], flags, None)
    for immortal in (library, definition):
        _keep_for_ever(immortal)
    return definition
