"""What is said of an argument of a wrong kind, when a function stumbled on it.

Requirements: functions do not look at the types of their arguments, which would cost every call.
Python or NumPy then raises an error of its own from inside, such as ``'str' object has no attribute
'shape'``. This module is loaded only then: it reads the kinds that the docstring gives to each
parameter, and names the first argument that is none of them.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final

import numpy as np

from calor.dtypes import DType
from calor.errors import ArgumentTypeError, CalorError
from calor.tensor.values import Handle

_Test = Callable[[Any], bool]
_ENTRY: Final = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.+)$")
_OPTIONAL: Final = re.compile(r", (optional|default .*)$")
_SPELLED: Final = (str, bool, int, float, complex, type(None))


def _is_whole(x: Any) -> bool:
    return hasattr(type(x), "__index__") and not isinstance(x, Handle | np.ndarray)


def _is_real(x: Any) -> bool:
    return isinstance(x, float | np.floating) or _is_whole(x)


def _is_number(x: Any) -> bool:
    return _is_real(x) or isinstance(x, complex | np.generic)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Handle)


def _is_operand(x: Any) -> bool:
    return isinstance(x, Handle) or _is_array(x) or _is_number(x)


def _is_array(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype.kind not in "OUSMm"
    return hasattr(type(x), "__array__")


# What is no kind in this table is any object.
_KINDS: Final[dict[str, _Test]] = {
    "Tensor": _is_tensor,
    "ndarray": _is_array,
    "array": _is_array,
    "number": _is_number,
    "int": _is_whole,
    "float": _is_real,
    "complex": _is_number,
    "bool": lambda x: isinstance(x, bool | np.bool_),
    "str": lambda x: isinstance(x, str),
    "None": lambda x: x is None,
    "inf": _is_real,
    "-inf": _is_real,
    "callable": callable,
    "sequence": lambda x: isinstance(x, list | tuple),
    "list": lambda x: isinstance(x, list | tuple),
    "DType": lambda x: isinstance(x, DType | type | np.dtype),
}
_MANY: Final = re.compile(r"^(?:an? )?(?:sequence|tuple|list|pair|iterable)s? of (?:two |three )?")
_BETWEEN: Final = re.compile(r", or | or | and |, ")


def wrong_kind(
    function: FunctionType,
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    error: Exception,
) -> CalorError | None:
    """Return the error for the first argument of a kind that the docstring does not give.

    Parameters
    ----------
    function : FunctionType
        What was called: a function, a method, or ``__init__`` of a class.
    positional : sequence
        The arguments that were given by their place.
    keywords : mapping
        Those that were given by their name.
    error : Exception
        What was raised from inside.

    Returns
    -------
    CalorError or None
        The error to raise; None if each argument is of a kind of its parameter. An error of calor
        remains of its class.
    """
    text = inspect.getdoc(function) or ""
    called = function.__name__
    if called == "__init__":
        called = type(positional[0]).__name__
        text = inspect.getdoc(type(positional[0])) or ""
    kinds = _documented(text)
    try:
        signature = inspect.signature(function)
        given = signature.bind_partial(*positional, **keywords).arguments
    except (TypeError, ValueError):
        return None
    known = isinstance(error, CalorError)
    of: type[CalorError] = type(error) if isinstance(error, CalorError) else ArgumentTypeError
    for strict in (False,) if known else (False, True):
        for name, value in given.items():
            kind = kinds.get(name)
            default = signature.parameters[name].default
            if kind is None or value is default:
                continue
            if not _fits(kind, value, strict, signature.parameters[name]):
                return of(_message(called, name, value, kind, error))
    return None


def _documented(text: str) -> dict[str, str]:
    """Return the kinds of parameters in a docstring of numpydoc's form, by their names."""
    _, _, section = text.partition("Parameters\n----------\n")
    kinds: dict[str, str] = {}
    for line in section.splitlines():
        entry = _ENTRY.match(line)
        if entry:
            for name in entry[1].split(", "):
                kinds.setdefault(name.lstrip("*"), _OPTIONAL.sub("", entry[2]))
        elif line.startswith("---"):
            break
    return kinds


def _fits(kind: str, value: Any, strict: bool, parameter: inspect.Parameter) -> bool:
    """Return whether a value is of a kind; a number may stand for a tensor unless ``strict``."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return all(_is_of(kind, one, strict) for one in value)
    return parameter.kind is parameter.VAR_KEYWORD or _is_of(kind, value, strict)


def _is_of(kind: str, value: Any, strict: bool) -> bool:
    many = _MANY.match(kind)
    if many:
        of = kind[many.end() :]
        return isinstance(value, list | tuple) and all(_is_of(of, one, strict) for one in value)
    before, brace, rest = kind.partition("{")
    inside, _, after = rest.partition("}")
    if brace and _is_among(inside, value):
        return True
    for part in _alternatives(before + after):
        if _MANY.match(part):
            found = _is_of(part, value, strict)
        else:
            test = _KINDS.get(part)
            found = test is None or test(value)
            found = found or (not strict and isinstance(value, Handle))
            found = found or (part == "Tensor" and not strict and _is_operand(value))
        if found:
            return True
    return False


def _alternatives(kind: str) -> list[str]:
    """Return the alternatives of a documented kind; what follows a sequence is of its parts."""
    made: list[str] = []
    for part in _BETWEEN.split(kind):
        word = part.strip()
        if made and _MANY.match(made[-1]):
            made[-1] = f"{made[-1]} or {word}"
            # It may as well be an alternative of its own.
            made.append(word)
        elif word:
            made.append(word)
    return made


def _is_among(choices: str, value: Any) -> bool:
    """Return whether a value is one of a set, which names kinds too."""
    for word in choices.split(", "):
        if word in _KINDS and word != "None":
            if _KINDS[word](value):
                return True
            continue
        choice = ast.literal_eval(word)
        if type(value) is type(choice) and value == choice:
            return True
    return False


def _message(called: str, name: str, value: Any, kind: str, error: Exception) -> str:
    parts = value if isinstance(value, list | tuple) else [value]
    # A traced tensor has no text.
    spelled = all(isinstance(x, _SPELLED) for x in parts)
    found = repr(value)[:60] if spelled else f"a {type(value).__name__}"
    if isinstance(value, np.ndarray):
        found = f"an array of {value.dtype}"
    advice = f"{called}: {name} is {found}; pass {kind}"
    if "Tensor" in kind and isinstance(value, list | tuple | np.ndarray | float | int):
        advice += f", such as calor.asarray({name})"
    return advice if isinstance(error, CalorError) else f"{advice} ({error})"
