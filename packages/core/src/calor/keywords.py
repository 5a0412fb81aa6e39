"""Errors for arguments as other frameworks name them: ``dim=`` where calor has ``axis=``.

Requirements: signatures stay explicit, so a wrong keyword is Python's own TypeError; it is caught
and completed from the table of :mod:`calor.migration`, which is loaded only then.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, MutableMapping
from types import FunctionType
from typing import Any, Final

# The parameters that other frameworks name differently; functions with one of them are wrapped.
RENAMED: Final = frozenset(
    ("axis", "axes", "axis1", "keepdims", "start_axis", "correction", "min", "shape", "fill_value",
     "k", "indices", "mask", "causal", "reduction", "training", "shift", "target", "approximate")
)  # fmt: skip


def explained(function: FunctionType) -> Callable[..., Any]:
    """Return the function with its errors about arguments completed."""
    written = written_as(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # Only what the call itself raised, before the function's first line.
            if _depth(error) != (1 if written is function else 2):
                raise
            from calor.migration import wrong_call

            raise wrong_call(function, parameters(function), args, kwargs, error) from None

    return call


def explain(
    names: MutableMapping[str, Any], home: str = "calor.functions.", every: bool = False
) -> None:
    """Complete the errors of the functions among the names, here and in their modules.

    Their modules are those whose names begin with ``home``. ``every`` function is wrapped, or those
    with a parameter that others name differently.
    """
    for name, value in list(names.items()):
        told = isinstance(value, FunctionType) if every else _is_renamed(value)
        if told and value.__module__.startswith(home):
            names[name] = made = explained(value)
            setattr(sys.modules[value.__module__], value.__name__, made)


def explain_methods(kind: type, made: bool = False) -> None:
    """Complete the errors of the methods that a class defines; ``made``: of making one, too."""
    for name, value in list(vars(kind).items()):
        of_making = made and name == "__init__" and isinstance(value, FunctionType)
        if of_making or _is_renamed(value):
            setattr(kind, name, explained(value))


def _is_renamed(value: Any) -> bool:
    """Return whether a value is a function with a parameter that others name differently."""
    return isinstance(value, FunctionType) and not RENAMED.isdisjoint(parameters(value))


def parameters(function: FunctionType) -> tuple[str, ...]:
    """Return the names of a function's parameters, without ``*args`` and ``**kwargs``."""
    code = written_as(function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def written_as(function: FunctionType) -> FunctionType:
    """Return the function that the user reads, of one that computes half types in float32."""
    made: FunctionType = getattr(function, "in_float32", function)
    return made


def _depth(error: BaseException) -> int:
    """Return the number of frames through which an error came."""
    count, trace = 0, error.__traceback__
    while trace is not None:
        count, trace = count + 1, trace.tb_next
    return count
