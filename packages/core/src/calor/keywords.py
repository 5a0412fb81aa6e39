"""Errors for arguments as other frameworks name them: ``dim=`` where calor has ``axis=``.

Requirements: signatures stay explicit, so a wrong keyword is Python's own TypeError; it is caught
and completed from the table of :mod:`calor.migration`, which is loaded only then. So is an error
that came from inside because an argument is of a wrong kind, by :mod:`calor.argument_types`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, MutableMapping
from types import FunctionType
from typing import Any, Final
from weakref import WeakSet

from calor.errors import CalorError, DTypeError, ShapeError

# Functions that take nothing else are not wrapped, for they are called most, and what records their
# operands tells of wrong ones.
OPERANDS: Final = frozenset(("self", "x", "x1", "x2"))

# The parameters that other frameworks name differently; methods with one of them are wrapped.
_RENAMED: Final = frozenset(
    ("axis", "axes", "axis1", "keepdims", "start_axis", "correction", "min", "shape", "fill_value",
     "k", "indices", "mask", "causal", "reduction", "training", "shift", "target", "approximate")
)  # fmt: skip
# What is wrapped already.
_EXPLAINED: Final[WeakSet[Callable[..., Any]]] = WeakSet()
# What Python and NumPy raise of arguments that they do not take.
RAW: Final = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError)


def explained(function: FunctionType) -> Callable[..., Any]:
    """Return the function with its errors about arguments completed."""
    written = written_as(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RAW as error:
            # What the call itself raised, before the function's first line.
            if type(error) is TypeError and _depth(error) == (1 if written is function else 2):
                from calor.migration import wrong_call

                raise wrong_call(function, parameters(function), args, kwargs, error) from None
            if isinstance(error, CalorError) and _is_told(error, written.__name__):
                raise
            from calor.argument_types import wrong_kind

            told = wrong_kind(written, args, kwargs, error)
            if told is None:
                raise
            raise told from error

    _EXPLAINED.add(call)
    return call


def explain(
    names: MutableMapping[str, Any], home: str = "calor.functions.", every: bool = False
) -> None:
    """Complete the errors of the functions among the names, here and in their modules.

    Their modules are those whose names begin with ``home``. ``every`` function is wrapped, or those
    that take more than operands.
    """
    for name, value in list(names.items()):
        told = isinstance(value, FunctionType) if every else _takes_more(value)
        told = told and value not in _EXPLAINED
        if told and not name.startswith("_") and value.__module__.startswith(home):
            names[name] = made = explained(value)
            setattr(sys.modules[value.__module__], value.__name__, made)


def explain_methods(kind: type, made: bool = False) -> None:
    """Complete the errors of the methods that a class defines; ``made``: of making one, too."""
    for name, value in list(vars(kind).items()):
        of_making = made and name == "__init__" and isinstance(value, FunctionType)
        # Others look at who calls them and holds what they are given.
        renamed = isinstance(value, FunctionType) and not _RENAMED.isdisjoint(parameters(value))
        if of_making or renamed:
            setattr(kind, name, explained(value))


def _takes_more(value: Any) -> bool:
    """Return whether a value is a function with a parameter that is no operand."""
    if not isinstance(value, FunctionType):
        return False
    variable = written_as(value).__code__.co_flags & inspect.CO_VARARGS
    return bool(variable) or not OPERANDS.issuperset(parameters(value))


def parameters(function: FunctionType) -> tuple[str, ...]:
    """Return the names of a function's parameters, without ``*args`` and ``**kwargs``."""
    code = written_as(function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def written_as(function: FunctionType) -> FunctionType:
    """Return the function that the user reads, of one that computes half types in float32."""
    made: FunctionType = getattr(function, "in_float32", function)
    return made


def _is_told(error: CalorError, name: str) -> bool:
    """Return whether an error says enough: others may be of an operand deep inside."""
    return not isinstance(error, DTypeError | ShapeError) or str(error).startswith(f"{name}:")


def _depth(error: BaseException) -> int:
    """Return the number of frames through which an error came."""
    count, trace = 0, error.__traceback__
    while trace is not None:
        count, trace = count + 1, trace.tb_next
    return count
