"""The native runtime as Python functions: loaded once in a process, never unloaded.

Requirements: threads may still be inside when the interpreter shuts down, so the code outlives it.
A caller with a compiler and a disk cache passes ``compile``. Python's functions are linked by
address, so the build of the interpreter does not matter.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calor_cpu.linking import link, symbol_address
from calor_cpu.pool.system import System, system
from calor_cpu.pool.text import text
from calor_cpu.target import native
from calor_cpu.toolchain import LlvmToolchain

Compile = Callable[[str], bytes]
"""Makes an object file of this machine from LLVM text."""

_PYTHON = (
    "PyCFunction_NewEx",
    "PyErr_BadArgument",
    "PyErr_CheckSignals",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyLong_AsUnsignedLongLongMask",
    "PyLong_AsVoidPtr",
    "PyObject_CallFunction",
    "PyTuple_New",
    "PyTuple_SetItem",
    "Py_IncRef",
)
_EXPORTS = ("prepare", "worker", "halt", "run", "now", "call", "fill")
_METH_FASTCALL = 0x80

# Prototypes of this module's own, because all code shares the attributes of ctypes.pythonapi.
_object = ctypes.py_object
_function = ctypes.PYFUNCTYPE(_object, ctypes.c_void_p, _object, _object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_keep_for_ever = ctypes.PYFUNCTYPE(None, _object)(("Py_IncRef", ctypes.pythonapi))


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef, the description of a function object."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@dataclass(frozen=True, slots=True)
class Native:
    """The runtime's functions.

    ``worker(pool)`` is called without the interpreter's lock, ``run(plan, bases, times)`` with it.
    ``now()`` is the clock in nanoseconds. ``call`` and ``fill`` are the addresses of the method
    definitions of built-in functions.
    """

    prepare: Callable[[int], None]
    worker: Callable[[int], int]
    halt: Callable[[int], None]
    run: Callable[[int, Any, int | None], int]
    now: Callable[[], int]
    call: int
    fill: int

    def function(self, plan: int, owner: object) -> Callable[..., None]:
        """Return a built-in function that runs a plan with its arguments and owns ``owner``."""
        made: Callable[..., None] = _function(self.call, plan, owner)
        return made

    def filler(self, form: int, owner: object) -> Callable[..., Callable[..., None]]:
        """Return a built-in function that creates plans' functions from a form and owns ``owner``.

        It takes the address of a plan's words, their owner, and the numbers.
        """
        made: Callable[..., Callable[..., None]] = _function(self.fill, form, owner)
        return made


_LOADED: dict[str, Native] = {}


def compile_plainly(source: str) -> bytes:
    """Compile LLVM text for this machine without a disk cache."""
    return LlvmToolchain(native()).compile(source, "pool")


def load(compile: Compile = compile_plainly, target: System | None = None) -> Native:
    """Return the compiled and linked runtime; ``target`` selects another system's way to sleep."""
    chosen = target or system()
    source = text(chosen)
    if source not in _LOADED:
        _LOADED[source] = _linked(compile(source), chosen)
    return _LOADED[source]


def _linked(image: bytes, chosen: System) -> Native:
    symbols = {name: symbol_address(name) for name in chosen.symbols}
    for name in _PYTHON:
        function = getattr(ctypes.pythonapi, name)
        symbols[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    symbols["_Py_NoneStruct"] = id(None)
    library = link(image, _EXPORTS, symbols)
    call = _Definition(b"run", library["call"], _METH_FASTCALL, None)
    fill = _Definition(b"fill", library["fill"], _METH_FASTCALL, None)
    for immortal in (library, call, fill):
        _keep_for_ever(immortal)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    outside, inside = ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE
    return Native(
        prepare=inside(None, pointer)(library["prepare"]),
        worker=outside(number, pointer)(library["worker"]),
        halt=inside(None, pointer)(library["halt"]),
        run=inside(number, pointer, ctypes.c_char_p, pointer)(library["run"]),
        now=inside(number)(library["now"]),
        call=ctypes.addressof(call),
        fill=ctypes.addressof(fill),
    )
