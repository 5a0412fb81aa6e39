"""Arguments of constructors, held against their annotations and the ranges of their names.

Requirements: a wrong setting is told where it is given, by its name and with what is accepted, not
by what fails on it later. The annotations of a signature say of which kind an argument is, and a
table of each distribution in which range the numbers of a name lie, so that no constructor checks
either. What an annotation leaves open (tensors, dtypes, protocols) is left to the constructor.
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import numpy as np

from calor.dtypes import DType
from calor.errors import ArgumentError, ArgumentTypeError
from calor.keywords import parameters
from calor.sizes import is_size
from calor.tensor.values import Handle


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``within`` leaves out the ends, ``nan`` takes NaN too.

    An infinite end is always in.
    """

    low: float = -inf
    high: float = inf
    within: bool = False
    nan: bool = False

    def __contains__(self, number: Any) -> bool:
        if isnan(number):
            return self.nan
        if self.within:
            return bool(self.low < number) and bool(number < self.high or self.high == inf)
        return bool(self.low <= number <= self.high)

    def __str__(self) -> str:
        if self.high == inf:
            least = f"{'above' if self.within else 'at least'} {self.low:g}"
            return least if self.low > -inf else "a number"
        if self.within:
            return f"between {self.low:g} and {self.high:g}"
        return f"within [{self.low:g}, {self.high:g}]"


COUNT: Final = Range(1)
NOT_NEGATIVE: Final = Range(0)
POSITIVE: Final = Range(0, within=True)
SHARE: Final = Range(0, 1)
ANY: Final = Range(nan=True)
_NUMBER: Final = Range()
Ranges = Mapping[str, Range]


@dataclass(frozen=True)
class Kind:
    """What a parameter takes: texts that follow "must be", and whether a value is of it.

    ``strings`` says that it takes some strings, so another string is no wrong type.
    """

    texts: tuple[str, ...]
    takes: Callable[[Any], bool]
    strings: bool = False

    @property
    def text(self) -> str:
        """The texts as one."""
        several = ", ".join(self.texts[:-1])
        return f"{several} or {self.texts[-1]}" if several else self.texts[0]


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return False  # It was meant for another parameter.
    if isinstance(value, int) or is_size(value):
        return True
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    known = isinstance(value, Handle | int | float | np.integer | np.floating | np.bool_)
    return known or is_size(value)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or (type(value) is int and value in (0, 1))


_PLAIN: Final[Mapping[Any, Kind]] = {
    int: Kind(("a whole number",), _is_whole),
    float: Kind(("a number",), _is_number),
    bool: Kind(("True or False",), _is_truth),
    NoneType: Kind(("None",), lambda value: value is None),
    Path: Kind(("a path",), lambda value: isinstance(value, os.PathLike)),
    str: Kind(("a string",), lambda value: isinstance(value, str)),
}
_BY_ORIGIN: Final[Mapping[Any, Kind]] = {
    Callable: Kind(("a function",), callable),
    Mapping: Kind(("a mapping",), lambda value: hasattr(type(value), "items")),
    Iterable: Kind(("an iterable",), lambda value: hasattr(type(value), "__iter__")),
    np.ndarray: Kind(("an array",), lambda value: hasattr(type(value), "__array__")),
}
# Functions take more for these than their instances.
_OPEN: Final = (Handle, DType)


def kind_of(annotation: Any) -> Kind | None:
    """Return what an annotation takes; None if it leaves that open.

    Parameters
    ----------
    annotation : Any
        A type, a union, a Literal, a sequence of these, or anything else, which is open.

    Returns
    -------
    Kind or None
        The kind.
    """
    annotation = NoneType if annotation is None else annotation
    origin, inside = get_origin(annotation), get_args(annotation)
    alias = getattr(annotation if origin is None else origin, "__value__", None)
    if alias is not None:
        return kind_of(alias)  # It is a name of a type, as NumPy's are since Python has these.
    if origin in (Union, UnionType):
        return _either([kind_of(part) for part in inside])
    if origin is Literal:
        texts = tuple([f'"{x}"' if isinstance(x, str) else repr(x) for x in inside])
        return Kind(texts, lambda value: _is_among(value, inside), strings=True)
    if origin in (Sequence, list, tuple):
        return _several(origin, inside)
    if origin in _BY_ORIGIN:
        return _BY_ORIGIN[origin]
    if not isinstance(annotation, type):
        return None
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    protocol = getattr(annotation, "_is_protocol", False)
    checked = not protocol or getattr(annotation, "_is_runtime_protocol", False)
    if issubclass(annotation, _OPEN) or annotation in (object, Any) or not checked:
        return None
    return Kind((f"a {annotation.__name__}",), lambda value: isinstance(value, annotation))


def _either(kinds: Sequence[Kind | None]) -> Kind | None:
    known = [kind for kind in kinds if kind is not None]
    if len(known) != len(kinds):
        return None
    texts = tuple([text for kind in known for text in kind.texts])
    strings = any(kind.strings for kind in known)
    return Kind(texts, lambda value: any(kind.takes(value) for kind in known), strings)


def _is_among(value: Any, options: tuple[Any, ...]) -> bool:
    return any(type(value) is type(option) and value == option for option in options)


def _several(origin: Any, inside: tuple[Any, ...]) -> Kind | None:
    """Return the kind of a sequence: of any length, or a tuple with a kind for each place."""
    exact = origin is tuple and Ellipsis not in inside
    kinds = [kind_of(part) for part in inside if part is not Ellipsis]
    known = [kind for kind in kinds if kind is not None]
    if not known or len(known) != len(kinds):
        return None

    def takes(value: Any) -> bool:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = list(value)
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return False
        if exact and len(value) != len(known):
            return False
        each = known if exact else known * len(value)
        return all(kind.takes(item) for kind, item in zip(each, value, strict=True))

    texts = [kind.text for kind in known]
    if not exact:
        return Kind((f"a sequence with {texts[0]} in each place",), takes)
    return Kind((f"a tuple of {', '.join(texts)}",), takes)


def _numbers(value: Any) -> Iterator[Any]:
    """Yield the numbers of an argument that are known: not those of tensors and symbolic sizes."""
    if isinstance(value, int | float | np.integer | np.floating):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)


def _shown(value: Any) -> str:
    """Return a value as errors show it; of what may be long, its type."""
    if value is None or isinstance(value, str | int | float | complex | list | tuple):
        text = repr(value)
        if len(text) <= 60:
            return text
    return f"a {type(value).__name__}"


class _Tests:
    """What the parameters of a constructor take, worked out at its first call."""

    def __init__(self, function: FunctionType, owner: str, ranges: Ranges) -> None:
        written = inspect.unwrap(function)
        self.names = parameters(written)
        scope, given = written.__globals__, written.__annotations__
        self.kinds: dict[str, tuple[Kind, Range]] = {}
        for name in self.names:
            try:
                annotation = given.get(name, Any)
                kind = kind_of(
                    eval(annotation, scope) if isinstance(annotation, str) else annotation
                )
            except NameError:
                continue  # It is imported for type checkers alone.
            if kind is not None:
                known = ranges.get(f"{owner}.{name}", ranges.get(name, _NUMBER))
                self.kinds[name] = kind, known

    def check(self, owner: str, name: str, value: Any) -> None:
        """Raise an error if a parameter does not take a value."""
        found = self.kinds.get(name)
        if found is None:
            return
        kind, allowed = found
        if not kind.takes(value):
            wrong = ArgumentError if kind.strings and isinstance(value, str) else ArgumentTypeError
            raise wrong(f"{owner}: {name} must be {kind.text}, not {_shown(value)}")
        for number in _numbers(value):
            if number not in allowed:
                raise ArgumentError(f"{owner}: {name} must be {allowed}, not {_shown(value)}")


def checked(function: Any, home: str, ranges: Ranges) -> Callable[..., None]:
    """Return a constructor that refuses arguments of another kind or range.

    Parameters
    ----------
    function : function
        An ``__init__``.
    home : str
        How the modules of the distribution begin; errors name the class that is of one.
    ranges : Mapping of str to Range
        By the name of a parameter, or the class's and the parameter's with a dot between.

    Returns
    -------
    callable
        The constructor.
    """
    tests: dict[str, _Tests] = {}

    @functools.wraps(function)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> None:
        kinds = type(self).__mro__
        owner = next(
            (k.__name__ for k in kinds if k.__module__.startswith(home)), kinds[0].__name__
        )
        found = tests.get(owner)
        if found is None:
            found = tests[owner] = _Tests(function, owner, ranges)
        for name, value in zip(found.names[1:], args, strict=False):
            found.check(owner, name, value)
        for name, value in kwargs.items():
            found.check(owner, name, value)
        function(self, *args, **kwargs)

    return call


def check_constructors(kinds: Iterable[type], home: str, ranges: Ranges) -> None:
    """Hold the arguments of the constructors of classes against their annotations and ranges.

    Parameters
    ----------
    kinds : iterable of type
        The classes; those that they inherit from are included.
    home : str
        How the names of the modules begin whose classes are meant.
    ranges : Mapping of str to Range
        By the name of a parameter, or the class's and the parameter's with a dot between.
    """
    for kind in {inside for found in kinds for inside in found.__mro__}:
        made = vars(kind).get("__init__")
        if kind.__module__.startswith(home) and isinstance(made, FunctionType):
            kind.__init__ = checked(made, home, ranges)  # type: ignore[misc]
