"""Launches and memory of one transform, as they are collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from calor.dtypes import DType, int32, int64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Scratch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.fft.kernels import turns
from calor_kernel.library.fft.step_layout import Form
from calor_kernel.library.fft.tiles import reversed_digits

SIZE = Scalar(int64, nonnegative=True)
# Factors that a step may have, those that are tried first before others.
_FACTORS = (8, 4, 2, 3, 5, 7, 11, 13)
# Vectors that a cube of one unit does in a launch over single elements.
_SHARE = 64


@dataclass(frozen=True, slots=True)
class End:
    """Where a transform of one axis begins or ends: arguments, form and whether parts change."""

    first: Argument
    second: Argument
    form: Form
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """Transforms of length n of all ``rows``, each of which has ``inner`` of them interleaved."""

    rows: int
    n: int
    inner: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.rows * self.n * self.inner


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


class Plan:
    """Launches and scratch memory of one request."""

    def __init__(self, info: DeviceInfo, dtype: DType) -> None:
        self.info = info
        self.dtype = dtype
        self.launches: list[Launch] = []
        self.scratch: list[int] = []
        self.units = min(info.max_units, 128)
        self.width = 1 if self.units > 1 else max(1, info.vector_bytes // dtype.itemsize)
        self._tables: dict[tuple[Any, ...], Scratch] = {}

    # Memory.
    def memory(self, count: int) -> Scratch:
        """Return memory for some real numbers."""
        self.scratch.append(max(count, 1) * self.dtype.itemsize)
        return Scratch(len(self.scratch) - 1)

    def apart(self, count: int) -> End:
        """Return memory for numbers whose parts lie apart."""
        first = self.memory(2 * count)
        return End(first, replace(first, offset=count), "apart")

    def table(self, n: int, chirp: bool = False) -> Scratch:
        """Return the turns of a length; they are computed once."""
        found = self._tables.get((n, chirp))
        if found is None:
            found = self._tables[n, chirp] = self.memory(2 * n)
            said = {"chirp": chirp}
            self.prepare(turns, n, (found,), (n, n), said, 2 * n * self.dtype.itemsize)
        return found

    def order(self, n: int, factors: Sequence[int]) -> Scratch:
        """Return where results of a transform in place are; it is computed once."""
        key = (n, tuple(factors))
        found = self._tables.get(key)
        if found is None:
            self.scratch.append(n * int32.itemsize)
            found = self._tables[key] = Scratch(len(self.scratch) - 1)
            numbers = (n, digits_of(factors))
            self.prepare(reversed_digits, n, (found,), numbers, {}, 4 * n, int32)
        return found

    # Launches.
    def prepare(
        self,
        function: KernelFunction,
        count: int,
        written: Sequence[Argument],
        numbers: Sequence[int],
        said: Mapping[str, Any],
        nbytes: int,
        dtype: DType | None = None,
    ) -> None:
        """Add a launch that computes a table, an element a unit."""
        declared = (Buffer(dtype or self.dtype),) * len(written)
        build = Build(
            function,
            (*declared, *(SIZE,) * len(numbers)),
            tuple(sorted(said.items())),
            (self.units, 1, 1),
        )
        cubes = (-(-count // self.units), 1, 1)
        label = f"fft {function.name}"
        self.launches.append(
            Launch(build, cubes, (*written, *numbers), 0, nbytes, label, prepares=True)
        )

    def over(
        self,
        function: KernelFunction,
        work: int,
        rows: int,
        read: Sequence[Argument],
        written: Sequence[Argument],
        tables: Sequence[Argument],
        numbers: Sequence[int],
        said: Mapping[str, Any],
        flops: int = 0,
        prepares: bool = False,
    ) -> None:
        """Add a launch over vectors of ``work`` elements of each row."""
        share = _SHARE if self.units == 1 else 1
        blocks = rows * -(-work // self.width)
        known = {**said, "width": self.width, "share": share}
        self.add(
            function,
            (-(-blocks // (self.units * share)), 1, 1),
            (*read, *written, *tables, *numbers),
            (*self.reads(read), *(Buffer(self.dtype) for _ in written), *self.reads(tables)),
            known,
            flops,
            4 * rows * work * self.dtype.itemsize,
            prepares,
        )

    def reads(self, arguments: Sequence[Argument]) -> list[Buffer]:
        """Return parameters that are only read."""
        return [Buffer(self.dtype, writable=False) for _ in arguments]

    def add(
        self,
        function: KernelFunction,
        cubes: tuple[int, int, int],
        arguments: Sequence[Argument],
        buffers: Sequence[Buffer],
        said: Mapping[str, Any],
        flops: int,
        nbytes: int,
        prepares: bool = False,
    ) -> None:
        """Add a launch whose arguments begin with buffers; numbers follow."""
        if not prod(cubes):
            return
        numbers = (SIZE,) * (len(arguments) - len(buffers))
        build = Build(
            function, (*buffers, *numbers), tuple(sorted(said.items())), (self.units, 1, 1)
        )
        label = f"fft {function.name}"
        self.launches.append(
            Launch(build, cubes, tuple(arguments), flops, nbytes, label, prepares=prepares)
        )


def digits_of(factors: Sequence[int]) -> int:
    """Return factors as five bits each, the first lowest."""
    return sum(factor << (5 * i) for i, factor in enumerate(factors))


def flops_of(shape: Rows) -> int:
    """Return the usual number of operations of complex transforms, 5 n log2 n."""
    return 5 * shape.size * max(1, (shape.n - 1).bit_length())
