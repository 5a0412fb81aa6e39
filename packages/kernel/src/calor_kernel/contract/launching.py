"""Launches of kernels with declared parameters.

Arguments are given by name; signature, order and build-time keywords follow from the kernel's
declaration. Symbolic sizes are accepted like numbers, without guards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from calor.dtypes import DType, int64
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.work import (
    Argument,
    Build,
    Flags,
    Guard,
    Input,
    Launch,
    Output,
    Scratch,
    Status,
    View,
)
from calor_kernel.errors import KernelTypeError, LaunchError
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.declared import DIVISOR, Access, Kind, Quantity
from calor_kernel.language.division import FastDivmod
from calor_kernel.language.kernel import KernelFunction

# Most launches use one of a few parameters, which are described by identity.
_buffer = cache(Buffer)
_scalar = cache(Scalar)

Place = Input | Output | Scratch | Status | Guard | Flags


@dataclass(frozen=True, slots=True)
class Bound:
    """Memory for a parameter, and its element type.

    ``align``: the known alignment of the first element in bytes.
    """

    place: Place
    dtype: DType
    align: int = 0

    def aligned(self, nbytes: int) -> Bound:
        """Return the memory with a known alignment of its first element."""
        return Bound(self.place, self.dtype, nbytes)


def operand(number: int, view: View) -> Bound:
    """Return the memory of an operand, from its view's first element."""
    return Bound(Input(number, view.offset), view.dtype)


@dataclass(frozen=True, slots=True)
class Multiple:
    """A number of a launch with a known divisor, which permits wider accesses.

    ``nonnegative``: whether this stride is known to be at least 0.
    """

    number: int
    divisor: int
    nonnegative: bool = False


@dataclass(frozen=True, slots=True)
class Typed:
    """A number of a launch with an element type."""

    number: int | float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Grid:
    """The number of cubes along x, y and z, and their shape.

    ``cube``: units of a cube along its axes. ``plane``: units in lock step. ``index``: the type of
    positions and of sizes and strides. ``alone``: see :class:`Launch`.
    """

    cubes: tuple[int, int, int]
    cube: tuple[int, int, int] = (1, 1, 1)
    plane: int = 1
    index: DType = int64
    alone: bool = False

    @staticmethod
    def line(cubes: int, units: int = 1, plane: int = 1, index: DType = int64) -> Grid:
        """Return cubes of units along x."""
        return Grid((cubes, 1, 1), (units, 1, 1), plane, index)


@dataclass(frozen=True, slots=True)
class Effort:
    """A launch's label for profiles, and its minimum work and traffic."""

    label: str = ""
    flops: int = 0
    nbytes: int = 0


def launch(kernel: KernelFunction, grid: Grid, effort: Effort, /, **arguments: object) -> Launch:
    """Return a launch of a kernel with an argument for each of its parameters, by name.

    Memory is given as Bound; a number as an integer or a Size, as Multiple with a known divisor, or
    as Typed; a group as its dataclass, with integers. Build-time parameters are given beside them.
    LaunchError names the mismatched parameter.

    >>> from calor.dtypes import float32
    >>> from calor_kernel.language import In, Out, Size, absolute_position, kernel
    >>> @kernel
    ... def scale(x: In, y: Out, n: Size, *, factor: float) -> None:
    ...     i = absolute_position()
    ...     if i < n:
    ...         y[i] = x[i] * factor
    >>> x, y = Bound(Input(0), float32), Bound(Output(), float32)
    >>> made = launch(scale, Grid.line(2, 64), Effort("scale"), y=y, x=x, n=100, factor=2.0)
    >>> made.arguments
    (Input(number=0, offset=0), Output(number=0, offset=0), 100)
    >>> print(*made.build.signature)
    const float32[] float32[] int64
    """
    declared = kernel.declaration
    if declared is None:
        raise KernelTypeError(
            f"kernel {kernel.name} does not declare its parameters; annotate them as In, Out, "
            f"InOut, Size, Stride or Element"
        )
    for name in arguments:
        if name not in declared.forms and name not in declared.keywords:
            problem = f"there is none of this name; there are {declared.known}"
            raise LaunchError(kernel.name, name, problem)
    for name in declared.required:
        if name not in arguments:
            problem = f"it has no argument; the kernel takes {declared.known}"
            raise LaunchError(kernel.name, name, problem)
    made = _Made(kernel, grid.index)
    for name, form in declared.forms.items():
        try:
            form.spread(name, arguments[name], made.take, made.counts)
        except LaunchError:
            raise
        except KernelTypeError as error:
            raise LaunchError(kernel.name, name, str(error)) from None
    said = tuple(sorted((n, a) for n, a in arguments.items() if n in declared.keywords))
    signature, counts = tuple(made.signature), tuple(made.counts)
    build = Build(kernel, signature, said, grid.cube, grid.plane, grid.index, counts=counts)
    given = tuple(made.given)
    alone = grid.alone
    return Launch(build, grid.cubes, given, effort.flops, effort.nbytes, effort.label, alone=alone)


class _Made:
    """The parts of a launch during its construction."""

    def __init__(self, kernel: KernelFunction, index: DType) -> None:
        self.kernel, self.index = kernel, index
        self.signature: list[Buffer | Scalar] = []
        self.given: list[Argument] = []
        self.counts: list[int] = []

    def take(self, name: str, kind: Kind, given: object) -> None:
        """Add an argument."""
        if isinstance(kind, Access):
            self._memory(name, kind, given)
        else:
            self._number(name, kind, given)

    def _fail(self, name: str, problem: str) -> LaunchError:
        return LaunchError(self.kernel.name, name, problem)

    def _memory(self, name: str, kind: Access, given: object) -> None:
        if not isinstance(given, Bound):
            raise self._fail(name, f"it is memory ({kind.name}), and {given!r} is none; give Bound")
        if kind.writes and isinstance(given.place, Input):
            raise self._fail(name, f"it is written ({kind.name}), and {given.place} is an operand")
        if kind.dtype is not None and given.dtype is not kind.dtype:
            raise self._fail(name, f"its elements are {kind.dtype}, not {given.dtype}")
        self.signature.append(_buffer(given.dtype, kind.writes, given.align))
        self.given.append(given.place)

    def _number(self, name: str, kind: Quantity, given: object) -> None:
        if kind.element:
            if not isinstance(given, Typed):
                raise self._fail(
                    name, f"it is an Element; give Typed(number, dtype), not {given!r}"
                )
            self.signature.append(_scalar(given.dtype))
            self.given.append(given.number)
            return
        number: Any = given.number if isinstance(given, Multiple) else given
        divisor = given.divisor if isinstance(given, Multiple) else 1
        positive = kind.nonnegative or (isinstance(given, Multiple) and given.nonnegative)
        # A symbolic size gets no guard here.
        if not is_size(number):
            if not isinstance(number, int) or isinstance(number, bool):
                raise self._fail(name, f"it is a number ({kind.name}), and {number!r} is none")
            if kind.nonnegative and number < 0:
                problem = f"it is at least 0 ({kind.name}), not {number}; declare a Stride"
                raise self._fail(name, problem)
            if number % divisor:
                raise self._fail(name, f"{number} is no multiple of {divisor}")
        if kind is DIVISOR:
            self.signature += FastDivmod.declared(self.index)
            self.given += FastDivmod.arguments(number, self.index)
            return
        dtype = kind.dtype or self.index
        self.signature.append(_scalar(dtype, divisor, positive))
        self.given.append(number)
