"""Launches and memory of one transform, as they are collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calor.dtypes import DType, int32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Input, Output, Scratch
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.fft.kernels import turns
from calor_kernel.library.fft.step_layout import Form, Read, Rows, Storage, Vectors, Written
from calor_kernel.library.fft.tiles import reversed_digits
from calor_kernel.library.steps import Steps

# Factors of a step, in the order in which they are tried.
_FACTORS = (8, 4, 2, 3, 5, 7, 11, 13)
# Vectors of a cube of one unit.
_SHARE = 64


@dataclass(frozen=True, slots=True)
class End:
    """The memory at which a transform of one axis begins or ends, and its storage."""

    first: Bound
    second: Bound
    storage: Storage

    @property
    def read(self) -> Read[Bound]:
        """The memory as a kernel's operand."""
        return Read(self.first, self.second)

    @property
    def written(self) -> Written[Bound]:
        """The memory as a kernel's result."""
        return Written(self.first, self.second)


def size_of(shape: Rows[int]) -> int:
    """Return the number of elements."""
    return shape.rows * shape.n * shape.inner


def factors_of(n: int) -> list[int] | None:
    """Return the factors of the steps, None where a prime is too large.

    >>> factors_of(120), factors_of(34)
    ([8, 3, 5], None)
    """
    found = []
    for factor in _FACTORS:
        while n % factor == 0:
            found.append(factor)
            n //= factor
    return found if n == 1 else None


def convolution_length(n: int) -> int:
    """Return a length for the convolution that gives a transform of length n."""
    long = 2 * n - 1
    while (factors := factors_of(long)) is None or max(factors) > 8:
        long += 1
    return long


class Plan(Steps):
    """Launches and scratch memory of one request."""

    def __init__(self, info: DeviceInfo, dtype: DType) -> None:
        super().__init__()
        self.info = info
        self.dtype = dtype
        self.units = min(info.max_units, 128)
        self.width = 1 if self.units > 1 else max(1, info.vector_bytes // dtype.itemsize)
        self._tables: dict[tuple[object, ...], Bound] = {}

    def end(self, memory: Input | Output | Scratch, form: Form, swapped: bool = False) -> End:
        """Return an end whose numbers are in one piece of memory."""
        bound = Bound(memory, self.dtype)
        return End(bound, bound, Storage(form, swapped))

    def apart(self, shape: Rows[int]) -> End:
        """Return memory for numbers of the form "apart"."""
        count = size_of(shape)
        first = self.room(max(2 * count, 1), self.dtype)
        second = Bound(Scratch(len(self.scratch) - 1, count), self.dtype)
        return End(first, second, Storage("apart"))

    def table(self, n: int, chirp: bool = False) -> Bound:
        """Return the twiddle factors of a length; they are computed once."""
        given = {"n": n, "count": n, "chirp": chirp}
        return self._filled(turns, (n, chirp), n, 2 * n, self.dtype, given)

    def order(self, n: int, factors: Sequence[int]) -> Bound:
        """Return the positions of the results of a transform in place; they are computed once."""
        given = {"n": n, "factors": digits_of(factors)}
        return self._filled(reversed_digits, (n, tuple(factors)), n, n, int32, given)

    def _filled(
        self,
        kernel: KernelFunction,
        key: tuple[object, ...],
        units: int,
        count: int,
        dtype: DType,
        given: Mapping[str, object],
    ) -> Bound:
        """Return a table of ``count`` elements, which ``units`` units compute once."""
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = self.room(count, dtype)
            effort = Effort(f"fft {kernel.name}", 0, count * dtype.itemsize)
            self.prepare(kernel, units, effort, table=found, **given)
        return found

    def prepare(
        self, kernel: KernelFunction, count: int, effort: Effort, /, **given: object
    ) -> None:
        """Add a launch that computes a table, an element a unit."""
        grid = Grid.line(-(-count // self.units), self.units)
        made = launch(kernel, grid, effort, **given)
        self.launches.append(replace(made, prepares=True))

    def over(
        self,
        kernel: KernelFunction,
        work: int,
        shape: Rows[int],
        flops: int = 0,
        prepares: bool = False,
        /,
        **given: object,
    ) -> None:
        """Add a launch over vectors of ``work`` elements of each row."""
        share = _SHARE if self.units == 1 else 1
        blocks = shape.rows * -(-work // self.width)
        given["vectors"] = Vectors(self.width, share)
        nbytes = 4 * shape.rows * work * self.dtype.itemsize
        self.add_line(kernel, -(-blocks // (self.units * share)), flops, nbytes, prepares, **given)

    def add_line(
        self,
        kernel: KernelFunction,
        cubes: int,
        flops: int,
        nbytes: int,
        prepares: bool = False,
        /,
        **given: object,
    ) -> None:
        """Add a launch of cubes along x, unless there are none."""
        if cubes:
            effort = Effort(f"fft {kernel.name}", flops, nbytes)
            made = launch(kernel, Grid.line(cubes, self.units), effort, **given)
            self.launches.append(replace(made, prepares=prepares))


def digits_of(factors: Sequence[int]) -> int:
    """Return factors as five bits each, the first lowest."""
    return sum(factor << (5 * i) for i, factor in enumerate(factors))


def flops_of(shape: Rows[int]) -> int:
    """Return the usual number of operations of complex transforms, 5 n log2 n."""
    return 5 * size_of(shape) * max(1, (shape.n - 1).bit_length())
