"""Fourier transforms as launches: axis by axis, factor by factor.

Requirements: lengths of small primes take a step per factor, others a circular convolution of such
a length (Bluestein, 1970); each step is a launch over all rows, so that there is work for every
core of any device; what lies inside of the transformed axis lies inside of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from calor.dtypes import DType, float32, float64, int64
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.fft.kernels import (
    chirp_filter,
    chirp_in,
    chirp_out,
    chirp_product,
    step,
    turns,
)
from calor_kernel.library.fft.places import Form
from calor_kernel.library.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    Work,
    lowering,
)
from calor_kernel.runtime.device import DeviceInfo

_SIZE = Scalar(int64, nonnegative=True)
# Factors that a step may have, those that are tried first before others.
_FACTORS = (8, 4, 2, 3, 5, 7, 11, 13)
# Vectors that a cube of one unit does in a step.
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
    """Return the least length for the convolution that gives a transform of length n."""
    long = 2 * n - 1
    while factors_of(long) is None:
        long += 1
    return long


class _Plan:
    """Launches and scratch memory of one request, as they are collected."""

    def __init__(self, info: DeviceInfo, dtype: DType) -> None:
        self.info = info
        self.dtype = dtype
        self.launches: list[Launch] = []
        self.scratch: list[int] = []
        self.tables: dict[tuple[int, bool], Scratch] = {}
        self.units = min(info.max_units, 128)
        self.width = 1 if self.units > 1 else max(1, info.vector_bytes // dtype.itemsize)

    def memory(self, count: int) -> Scratch:
        """Return memory for some real numbers."""
        self.scratch.append(max(count, 1) * self.dtype.itemsize)
        return Scratch(len(self.scratch) - 1)

    def apart(self, count: int, swapped: bool = False) -> End:
        """Return memory for numbers whose parts lie apart."""
        first = self.memory(2 * count)
        second = replace(first, offset=count)
        return End(second, first, "apart") if swapped else End(first, second, "apart")

    def table(self, n: int, chirp: bool = False) -> Scratch:
        """Return the turns of a length; they are computed once."""
        found = self.tables.get((n, chirp))
        if found is None:
            found = self.tables[n, chirp] = self.memory(2 * n)
            build = Build(
                turns,
                (Buffer(self.dtype), _SIZE, _SIZE),
                (("chirp", chirp),),
                (self.units, 1, 1),
            )
            cubes = (-(-n // self.units), 1, 1)
            nbytes = 2 * n * self.dtype.itemsize
            arguments = (found, n, n)
            self.launches.append(
                Launch(build, cubes, arguments, 0, nbytes, "fft turns", prepares=True)
            )
        return found

    def launch(
        self,
        function: KernelFunction,
        work: int,
        rows: int,
        read: Sequence[Argument],
        written: Sequence[Argument],
        tables: Sequence[Argument],
        numbers: Sequence[int],
        keywords: dict[str, Any],
        flops: int = 0,
        prepares: bool = False,
    ) -> None:
        """Add a launch over vectors of ``work`` elements of each row."""
        share = _SHARE if self.units == 1 else 1
        blocks = rows * -(-work // self.width)
        signature: tuple[Buffer | Scalar, ...] = (
            *(Buffer(self.dtype, writable=False) for _ in read),
            *(Buffer(self.dtype) for _ in written),
            *(Buffer(self.dtype, writable=False) for _ in tables),
            *(_SIZE for _ in numbers),
        )
        said = {**keywords, "width": self.width, "share": share}
        build = Build(function, signature, tuple(sorted(said.items())), (self.units, 1, 1))
        self.launches.append(
            Launch(
                build,
                (-(-blocks // (self.units * share)), 1, 1),
                (*read, *written, *tables, *numbers),
                flops,
                4 * rows * work * self.dtype.itemsize,
                f"fft {function.name}",
                prepares=prepares,
            )
        )

    def transform(self, shape: Rows, source: End, target: End, prepares: bool = False) -> None:
        """Transform one axis."""
        factors = factors_of(shape.n)
        if factors is None:
            self._convolve(shape, source, target)
            return
        factors = factors or [1]
        table = self.table(shape.n) if len(factors) > 1 else source.first
        # In between, results go from one piece of memory to another one and back.
        places = [self.apart(shape.size) for _ in range(min(len(factors) - 1, 2))]
        before = 1
        for i, radix in enumerate(factors):
            last = i == len(factors) - 1
            to = target if last else places[i % 2]
            keywords = {
                "radix": radix,
                "whole": before * shape.inner % self.width == 0,
                "last": last,
                "read": source.form,
                "write": to.form,
                "swap_read": source.swapped,
                "swap_write": to.swapped,
            }
            self.launch(
                step,
                shape.n * shape.inner // radix,
                shape.rows,
                (source.first, source.second),
                (to.first, to.second),
                (table,),
                (shape.rows, shape.n, shape.inner, before),
                keywords,
                5 * shape.size * max(radix.bit_length() - 1, 1),
                prepares,
            )
            source = to
            before *= radix

    def _convolve(self, shape: Rows, source: End, target: End) -> None:
        """Transform by a product of a longer transform with that of a chirp."""
        long = convolution_length(shape.n)
        chirp = self.table(shape.n, chirp=True)
        folded, spectrum = self.apart(long), self.apart(long)
        build = Build(
            chirp_filter,
            (
                Buffer(self.dtype, writable=False),
                *(Buffer(self.dtype),) * 2,
                _SIZE,
                _SIZE,
                Scalar(self.dtype),
            ),
            (),
            (self.units, 1, 1),
        )
        arguments = (chirp, folded.first, folded.second, shape.n, long, 1 / long)
        cubes = (-(-long // self.units), 1, 1)
        self.launches.append(Launch(build, cubes, arguments, 0, 0, "fft chirp", prepares=True))
        self.transform(Rows(1, long, 1), folded, spectrum, prepares=True)
        wide = replace(shape, n=long)
        first, second = self.apart(wide.size), self.apart(wide.size)
        numbers = (shape.rows, shape.n, shape.inner, long)
        self.launch(
            chirp_in,
            long * shape.inner,
            shape.rows,
            (source.first, source.second),
            (first.first, first.second),
            (chirp,),
            numbers,
            {"read": source.form, "swap_read": source.swapped},
        )
        self.transform(wide, first, second)
        # With both parts exchanged, the next transform is the inverse one.
        back = replace(first, first=first.second, second=first.first)
        self.launch(
            chirp_product,
            long * shape.inner,
            shape.rows,
            (second.first, second.second, spectrum.first, spectrum.second),
            (back.first, back.second),
            (),
            (shape.rows, long, shape.inner),
            {},
        )
        self.transform(wide, first, second)
        self.launch(
            chirp_out,
            shape.n * shape.inner,
            shape.rows,
            (second.second, second.first),
            (target.first, target.second),
            (chirp,),
            numbers,
            {"write": target.form, "swap_write": target.swapped},
        )


@lowering("fft")
def lower_fft(request: Request) -> Sequence[Work] | Refusal:
    """Return the steps of a transform, axis by axis."""
    (x,) = request.inputs
    (result,) = request.outputs
    kind, axes = request.attributes["kind"], list(request.attributes["axes"])
    part = float32 if result.dtype.itemsize == (4 if kind == "c2r" else 8) else float64
    if part not in request.info.dtypes:
        return Refusal(f"the device does not compute in {part}")
    if not result.size:
        return [Work(())]
    inverse = kind in ("inverse", "c2r")
    # The axis whose bins are halved is the first of a real operand, and the last of a real result.
    order = axes[::-1] if kind == "r2c" else axes
    length = {axis: x.shape[axis] for axis in axes}
    if kind == "c2r":
        length[axes[-1]] = request.attributes["length"]
    plan = _Plan(request.info, part)
    given = Input(0, x.offset if kind == "r2c" else 2 * x.offset)
    source = End(given, given, "real" if kind == "r2c" else "pairs", inverse)
    shape = list(x.shape)
    for i, axis in enumerate(order):
        halved = axis == axes[-1]
        n = length[axis]
        rows = Rows(prod(shape[:axis]), n, prod(shape[axis + 1 :]))
        if halved and kind == "c2r":
            source = replace(source, form="half")
            shape[axis] = n
        if halved and kind == "r2c":
            shape[axis] = n // 2 + 1
        to: Argument = Output(0) if i == len(order) - 1 else plan.memory(2 * prod(shape))
        form: Form = "pairs"
        if halved and kind in ("r2c", "c2r"):
            form = "half" if kind == "r2c" else "real"
        target = End(to, to, form, inverse)
        plan.transform(rows, source, target)
        source = End(to, to, "pairs", inverse)
    return [Work(tuple(plan.launches), tuple(plan.scratch))]
