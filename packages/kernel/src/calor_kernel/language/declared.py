"""Declared parameters: a kernel's annotations declare its run-time parameters.

They are the only source for kinds and order of parameters, in the kernel's body and its launches.

A parameter is one of

- ``In``, ``Out``, ``InOut``: memory that the kernel reads, writes, or both,
- ``Size``, ``Stride``: an integer of the build's index type; a size is at least 0,
- ``Element``: a number of an element type given by the launch,
- ``FastDivmod``: a divisor, for which a launch gives one integer,
- a frozen dataclass whose fields are parameters; a generic one over the types of its numbers and
  divisors (``SizeOf[N]``, ``StrideOf[N]``, ``DivisorOf[D]``) also serves the planner, with
  integers,
- ``tuple[P, ...]``: as many parameters as a launch gives,
- ``P | None``: an optional parameter; the kernel sees None if a launch omits it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from calor.dtypes import DType
from calor_kernel.errors import KernelTypeError
from calor_kernel.language.division import FastDivmod
from calor_kernel.language.memory import Pointer
from calor_kernel.language.values import Number


@dataclass(frozen=True, slots=True)
class Access:
    """A memory parameter. ``dtype``: the element type, if it is the same in every launch."""

    name: str
    reads: bool
    writes: bool
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number parameter.

    ``dtype`` None means the build's index type; for an ``element``, the type given by the launch.
    """

    name: str
    nonnegative: bool = False
    dtype: DType | None = None
    element: bool = False


READS: Final = Access("In", True, False)
WRITES: Final = Access("Out", False, True)
CHANGES: Final = Access("InOut", True, True)
SIZE: Final = Quantity("Size", nonnegative=True)
STRIDE: Final = Quantity("Stride")
ELEMENT: Final = Quantity("Element", element=True)
DIVISOR: Final = Quantity("FastDivmod", nonnegative=True)

In = Annotated[Pointer, READS]
Out = Annotated[Pointer, WRITES]
InOut = Annotated[Pointer, CHANGES]
Size = Annotated[Number, SIZE]
Stride = Annotated[Number, STRIDE]
Element = Annotated[Number, ELEMENT]

N = TypeVar("N")
D = TypeVar("D")
SizeOf = Annotated[N, SIZE]
StrideOf = Annotated[N, STRIDE]
DivisorOf = Annotated[D, DIVISOR]

# Parameter types of helpers that accept both device numbers and build numbers.
Index = Number | int
Mask = Number | bool

Kind = Access | Quantity
Leaf = Callable[[str, Kind, object], None]


@dataclass(frozen=True, slots=True)
class One:
    """A parameter of one buffer or one number."""

    kind: Kind

    def names(self, name: str, counts: Iterator[int]) -> Iterator[str]:
        """Yield the names of the parameters of a build."""
        yield name

    def taken(self, values: Iterator[Any], counts: Iterator[int]) -> Any:
        """Return the body's argument, taken from the values of a build's parameters."""
        return next(values)

    def spread(self, name: str, given: object, leaf: Leaf, counts: list[int]) -> None:
        """Pass the launch's arguments to ``leaf`` one by one, and append the tuple counts."""
        leaf(name, self.kind, given)


@dataclass(frozen=True, slots=True)
class Divisor(One):
    """A FastDivmod parameter: three numbers of a build."""

    def names(self, name: str, counts: Iterator[int]) -> Iterator[str]:
        yield from (f"{name}_{field.name}" for field in fields(FastDivmod))

    def taken(self, values: Iterator[Any], counts: Iterator[int]) -> Any:
        return FastDivmod(next(values), next(values), next(values))


@dataclass(frozen=True, slots=True)
class Group:
    """A parameter that is a frozen dataclass of parameters."""

    made: type[Any]
    fields: tuple[tuple[str, Form], ...]

    def names(self, name: str, counts: Iterator[int]) -> Iterator[str]:
        for field, form in self.fields:
            yield from form.names(f"{name}_{field}", counts)

    def taken(self, values: Iterator[Any], counts: Iterator[int]) -> Any:
        return self.made(*(form.taken(values, counts) for _, form in self.fields))

    def spread(self, name: str, given: object, leaf: Leaf, counts: list[int]) -> None:
        if not isinstance(given, self.made):
            raise KernelTypeError(f"{name} is a {self.made.__name__}, not {given!r}")
        for field, form in self.fields:
            form.spread(f"{name}.{field}", getattr(given, field), leaf, counts)


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple of parameters of one form; the launch gives the length."""

    form: Form

    def names(self, name: str, counts: Iterator[int]) -> Iterator[str]:
        for number in range(next(counts)):
            yield from self.form.names(f"{name}_{number}", counts)

    def taken(self, values: Iterator[Any], counts: Iterator[int]) -> Any:
        return tuple([self.form.taken(values, counts) for _ in range(next(counts))])

    def spread(self, name: str, given: object, leaf: Leaf, counts: list[int]) -> None:
        if not isinstance(given, tuple | list):
            raise KernelTypeError(f"{name} is a tuple, not {given!r}")
        counts.append(len(given))
        for number, item in enumerate(given):
            self.form.spread(f"{name}[{number}]", item, leaf, counts)


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional parameter."""

    form: Form

    def names(self, name: str, counts: Iterator[int]) -> Iterator[str]:
        if next(counts):
            yield from self.form.names(name, counts)

    def taken(self, values: Iterator[Any], counts: Iterator[int]) -> Any:
        return self.form.taken(values, counts) if next(counts) else None

    def spread(self, name: str, given: object, leaf: Leaf, counts: list[int]) -> None:
        counts.append(int(given is not None))
        if given is not None:
            self.form.spread(name, given, leaf, counts)


Form = One | Group | Several | Maybe


@dataclass(frozen=True, slots=True)
class Declaration:
    """The run-time parameters of a kernel by name, and its build-time parameters.

    ``required``: the parameters without a default.
    """

    forms: Mapping[str, Form]
    keywords: frozenset[str]
    required: tuple[str, ...]

    @property
    def known(self) -> str:
        """The names of all parameters, for messages."""
        return ", ".join([*self.forms, *sorted(self.keywords)])

    def names(self, counts: tuple[int, ...]) -> list[str]:
        """Return the names of the parameters of a build."""
        left = iter(counts)
        return [n for name, form in self.forms.items() for n in form.names(name, left)]

    def arguments(self, values: Iterator[Any], counts: tuple[int, ...]) -> list[Any]:
        """Return the arguments of a kernel's body."""
        left = iter(counts)
        return [form.taken(values, left) for form in self.forms.values()]


def declaration_of(function: Callable[..., None]) -> Declaration | None:
    """Return a kernel's declaration, or None if no run-time parameter is declared.

    KernelTypeError if only some parameters are declared.
    """
    forms: dict[str, Form | None] = {}
    keywords: set[str] = set()
    required: set[str] = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords.add(parameter.name)
            if parameter.default is parameter.empty:
                required.add(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            forms[parameter.name] = None
        else:
            forms[parameter.name] = form_of(_evaluated(function, parameter.annotation))
    declared = {name: form for name, form in forms.items() if form is not None}
    if len(declared) == len(forms):
        return Declaration(declared, frozenset(keywords), (*declared, *sorted(required)))
    if declared:
        missing = ", ".join(name for name, form in forms.items() if form is None)
        raise KernelTypeError(
            f"kernel {function.__name__} declares {', '.join(declared)} and not {missing}; "
            f"annotate each run-time parameter as In, Out, InOut, Size, Stride, Element or a "
            f"group of these"
        )
    return None


def form_of(annotation: Any) -> Form | None:
    """Return the form of an annotation, or None if it is no run-time parameter."""
    origin = get_origin(annotation)
    if origin is Annotated:
        kinds = [m for m in annotation.__metadata__ if isinstance(m, Access | Quantity)]
        if not kinds:
            return None
        return Divisor(DIVISOR) if kinds[0] is DIVISOR else One(kinds[0])
    if annotation is FastDivmod:
        return Divisor(DIVISOR)
    if origin is tuple:
        item, *rest = get_args(annotation)
        form = form_of(item) if rest == [Ellipsis] else None
        return None if form is None else Several(form)
    if origin in (Union, types.UnionType):
        chosen = [one for one in get_args(annotation) if one is not types.NoneType]
        form = form_of(chosen[0]) if len(chosen) == 1 else None
        return None if form is None else Maybe(form)
    made = origin or annotation
    if not (isinstance(made, type) and is_dataclass(made)):
        return None
    hints = get_type_hints(made, include_extras=True)
    found = {field.name: form_of(hints[field.name]) for field in fields(made)}
    forms = tuple((name, form) for name, form in found.items() if form is not None)
    return Group(made, forms) if len(forms) == len(found) else None


def _evaluated(function: Callable[..., None], annotation: Any) -> Any:
    """Return an annotation, evaluated if it is text; None if a name is undefined at run time."""
    if not isinstance(annotation, str):
        return annotation
    inner = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    names = {name: cell.cell_contents for name, cell in inner.items()}
    try:
        return eval(annotation, function.__globals__, names)
    except NameError:
        return None
