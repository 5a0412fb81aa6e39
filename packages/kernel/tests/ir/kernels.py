"""Kernels that passes are tried on, with what each writes to and reads from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calor.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from calor_interpreter.launch import run_on_lanes
from calor_kernel.ir.nodes import Kernel
from calor_kernel.language import (
    Buffer,
    KernelFunction,
    Scalar,
    bitcast,
    cast,
    constant,
    dot,
    fma,
    insert,
    kernel,
    lane_position,
    loop_range,
    pack,
    plane_reduce,
    plane_shuffle,
    registers,
    select,
    shared,
    shuffle,
    splat,
    sqrt,
    unit_position,
    vreduce,
)

SIZE = 256


@dataclass(frozen=True)
class Case:
    """A kernel ``k(y, x, n)`` and the dtypes of its buffers."""

    function: KernelFunction
    result: DType
    source: DType
    units: int = 1
    plane: int = 1
    writable: bool = False

    def build(self) -> Kernel:
        """Build the kernel."""
        signature = [
            Buffer(self.result, align=64),
            Buffer(self.source, writable=self.writable, align=64),
            Scalar(int64, nonnegative=True),
        ]
        return self.function.build(signature, cube=(self.units, 1, 1), plane=self.plane)

    def run(self, kernel: Kernel, n: int = 5) -> np.ndarray[Any, Any]:
        """Return the bits that a kernel writes; its parameters may be the bits of the case's."""
        types = [p.memory.type.dtype for p in kernel.parameters if p.memory is not None]
        y = np.zeros(SIZE, self.result.numpy).view(types[0].numpy)
        x = numbers(self.source).view(types[1].numpy)
        run_on_lanes(kernel, (1, 1, 1), [y, x.copy(), n])
        return y.view(np.uint8)


CASES: dict[str, Case] = {}


def case(
    result: DType = float32, source: DType = float32, **more: Any
) -> Callable[[Callable[..., None]], None]:
    """Enter a kernel in the table."""

    def enter(function: Callable[..., None]) -> None:
        CASES[function.__name__] = Case(kernel(function), result, source, **more)

    return enter


def numbers(dtype: DType) -> np.ndarray[Any, Any]:
    """Numbers of every size, with the special ones of floats."""
    rng = np.random.default_rng(7)
    if dtype.kind in ("int", "uint"):
        limits = np.iinfo(dtype.numpy)
        made = rng.integers(limits.min, limits.max, SIZE, dtype.numpy, endpoint=True)
        made[:40] = np.arange(40).astype(dtype.numpy)
        return made
    made = rng.standard_normal(SIZE) * 10.0 ** rng.integers(-9, 6, SIZE)
    made[:32] = rng.integers(-8, 9, 32)
    with np.errstate(over="ignore"):
        made = made.astype(dtype.numpy)
    made[200:206] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    return made


@case()
def arithmetic(y, x, n):
    a, b = x.load(0, 7), x.load(8, 7)
    y.store(0, a * b - a / (b * b + 1.0))
    y.store(8, fma(a, b, splat(x[3], 7)))
    y.store(16, select(a < b, a, -b))
    y.store(24, sqrt(abs(a)), mask=a > 0.0)
    y.store(32, x.load(n, 6) + constant((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), float32))
    y[40] = a[6] + b[0]


@case(int64, int32)
def mixed_types(y, x, n):
    a = x.load(2, 12)
    wide = cast(a, int64) * 3 - n
    y.store(0, wide)
    y.store(16, select(a > 5, wide, cast(cast(a, int16), int64)))
    index = constant((5, 3, 1, 0, 2, 4, 8, 9, 30, 31, 7, 6), int64)
    y.store(index + 64, cast(x.load(index + n), int64))
    y.store(96, cast(x.load(index, mask=a > 3, other=-1), int64), mask=a != 4)


@case(int64, int32)
def masks_of_one_bool(y, x, n):
    near = x.load(4, 4, mask=n > 3, other=7)
    y.store(0, cast(near, int64), mask=n < 5)
    y.store(8, cast(x.load(1000, 4, mask=n > 5), int64), mask=n > 0)


@case()
def lanes_of_vectors(y, x, n):
    a, b = x.load(0, 8), x.load(8, 8)
    y.store(0, shuffle(a, (7, 6, 5, 4, 3, 2, 1, 0)))
    y.store(8, shuffle(a, (0, 8, 1, 9, 2, 10, 3, 11), b))
    y.store(16, shuffle(a, (3, 4, 5, 6), b))
    y.store(20, shuffle(a, (0, 0, 15), b))
    y.store(24, insert(insert(a, 5, b[2]), 0, 9.0))
    y.store(32, pack([b[7], a[1], x[50], a[0], b[3]]))
    y.store(40, shuffle(a, (2, 3), b))


@case()
def reductions(y, x, n):
    y[0] = vreduce("add", x.load(0, 16))
    y[1] = vreduce("mul", x.load(16, 7))
    y[2] = vreduce("max", x.load(0, 5))
    y[3] = vreduce("min", x.load(0, 2))
    y[4] = vreduce("add", x.load(0, 13))


@case(int32, int8)
def dots(y, x, n):
    c = constant((1, 2, 3, 4), int32)
    y.store(0, dot(x.load(0, 16), x.load(16, 16), c))
    y.store(4, dot(x.load(0, 4), x.load(16, 4), constant(7, int32)))
    y[8] = vreduce("xor", cast(x.load(0, 8), int32))


@case(uint32, uint8)
def bits_regrouped(y, x, n):
    y.store(0, bitcast(x.load(0, 16), uint32))
    y[4] = bitcast(x.load(40, 4), uint32)
    y.store(5, bitcast(bitcast(x.load(8, 8), uint64), uint32))
    y.store(8, cast(bitcast(bitcast(x.load(0, 8), uint32), uint8), uint32))
    y.store(16, bitcast(bitcast(x.load(0, 8), float32), uint32))
    y.store(18, cast(bitcast(bitcast(x.load(0, 2), int16), uint16), uint32))


@case()
def loops_of_vectors(y, x, n):
    acc = registers((2, 2), float32, 8)
    best = splat(x[0], 6)
    for p in range(n):
        a, b = x.load(p * 4, 8), x.load(p * 4 + 16, 8)
        for i in range(2):
            for j in range(2):
                acc[i, j] = fma(splat(x[p + i], 8), a if j else b, acc[i, j])
        best = max(best, x.load(p, 6))
        if x[p] > 0.0:
            acc[0, 0] = acc[0, 0] + a
    k = n
    while k > 0:
        acc[1, 1] = acc[1, 1] * 2.0
        k = k - 1
    for i in range(2):
        for j in range(2):
            y.store((i * 2 + j) * 8, acc[i, j])
    y.store(32, best)


@case(units=8, plane=4)
def planes(y, x, n):
    i = unit_position(0)
    memory = shared(64, float32)
    memory.store(i * 4, x.load(i * 4, 4))
    v = plane_shuffle(x.load(i * 6, 6), lane_position() ^ 1)
    y.store(i * 6, v)
    y[64 + i] = plane_reduce("add", x[i])
    y.store(80 + i * 4, memory.load(i * 4, 4))


@case(writable=True)
def repeated(y, x, n):
    """The same work several times, in places that see each other and in some that do not."""
    for i in loop_range(0, 4):
        scale = splat(x[0], 4) * 2.0
        row = n * 3 + 1
        y.store(i * 4, x.load(i * 4, 4) * scale)
        y[i + 32] = cast(row, float32) * 2.0
    for i in range(n):
        _ = x[i] * 3.0 + 1.0
        row = n * 3 + 1
        y[i + 40] = cast(row + i, float32)
    if n > 1:
        a = x[1] * 2.0
    else:
        a = x[1] * 2.0
    y[60] = a + x[1] * 2.0


@case()
def sums_nobody_reads(y, x, n):
    t = u = v = 0.0
    for i in range(n):
        t = t + x[i]
        u = u + t
        v = v + x[i] * x[i]
    k, m = n, 0
    while k > 0:
        m = m + k
        k = k - 1
    y[0] = v


@case()
def divisions_under_conditions(y, x, n):
    z = cast(x[200], int64)
    r = 0
    for _ in range(z):
        r = r + n // z
    if z > 0:
        r = r + n // z
    y[0] = cast(r, float32)
    y[1] = cast(100 // (n + 1), float32)


def halves(dtype: DType) -> None:
    """Enter the kernels of a half type."""

    def conversions(y, x, n):
        a = x.load(0, 8)
        y.store(0, cast(cast(a, float32) * 1.5, dtype))
        for i in range(30):
            y.store(8 + i * 8, cast(cast(x.load(i * 8, 8), float32), dtype))

    def arithmetic(y, x, n):
        a, b = x.load(0, 4), x.load(4, 4)
        y.store(0, a + b)
        y.store(4, a * b)
        y.store(8, select(a < b, -a, abs(b)))
        y.store(12, max(a, b) - 2.0)
        y.store(16, cast(splat(n, 4), dtype))
        y.store(20, shuffle(x.load(200, 6), (5, 4, 3, 2, 1, 0)))
        y.store(26, sqrt(abs(a)) / (b + 0.5))
        t = x[0]
        for i in range(n):
            t = t + x[i]
        y[30] = t
        y[31] = constant(0.1, dtype)

    for function in (conversions, arithmetic):
        name = f"{dtype.name} {function.__name__}"
        CASES[name] = Case(kernel(function), dtype, dtype)
    for other in (float64, float32, int64, uint64, int32, uint32, int8, uint16):

        def to(y, x, n):
            for i in loop_range(0, 10):
                y.store(i * 25, cast(x.load(i * 25, 25), dtype))

        def back(y, x, n, *, other=other):
            for i in loop_range(0, 10):
                y.store(i * 25, cast(x.load(i * 25, 25), other))

        CASES[f"{dtype.name} from {other.name}"] = Case(kernel(to), dtype, other)
        CASES[f"{dtype.name} to {other.name}"] = Case(kernel(back), other, dtype)


halves(float16)
halves(bfloat16)
