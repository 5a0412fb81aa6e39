"""Two kernels as text, as built and optimized: what a person reads when something is wrong."""

from time import perf_counter
from typing import Any

import pytest

from calor.dtypes import float32, int64
from calor_interpreter.verify import verify
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes import optimize
from calor_kernel.ir.text import kernel_text
from calor_kernel.language import (
    Buffer,
    Scalar,
    absolute_position,
    cube_position,
    fma,
    kernel,
    registers,
    splat,
)

FLOATS = Buffer(float32, align=64)
SIZE = Scalar(int64, nonnegative=True)


@kernel
def scale(x: Any, y: Any, n: Any, *, factor: float, vector: int = 4) -> None:
    i = absolute_position() * vector
    if i < n:
        y.store(i, x.load(i, vector) * factor)


@kernel
def matmul(a, b, c, n, k, *, rows: int, columns: int, width: int, unroll: int = 1) -> None:
    acc = registers((rows, columns), float32, width)
    row, column = cube_position(0) * rows, cube_position(1) * (columns * width)
    for p in range(0, k, unroll):
        for u in range(unroll):
            across = [b.load((p + u) * n + column + j * width, width) for j in range(columns)]
            for i in range(rows):
                down = splat(a[(row + i) * k + p + u], width)
                for j in range(columns):
                    acc[i, j] = fma(down, across[j], acc[i, j])
    for i in range(rows):
        for j in range(columns):
            c.store((row + i) * n + column + j * width, acc[i, j])


def product(**build: int) -> Kernel:
    return matmul.build([FLOATS, FLOATS, FLOATS, SIZE, SIZE], **build)


SCALE = """\
kernel scale(x: float32[], y: float32[], n: int64) cube=1x1x1:
  %1 = constant value=1 : int64
  %2 = constant value=0 : int64
  %3 = constant value=4 : int64
  %4 = constant value=2.0 : float32
  %5 = cube_position axis=0 : int64
  %6 = mul %5 %3 : int64
  %7 = lt %6 %n : bool
  if %7
    %8 = load x %6 align=16 : float32x4
    %9 = splat %4 : float32x4
    %10 = mul %8 %9 flags=('contract',) : float32x4
    store y %6 %10 align=16
  else
"""

MATMUL = """\
kernel matmul(a: float32[], b: float32[], c: float32[], n: int64, k: int64) cube=1x1x1:
  %2 = constant value=0.0 : float32
  %3 = constant value=2 : int64
  %4 = constant value=8 : int64
  %5 = constant value=0 : int64
  %6 = constant value=1 : int64
  %7 = splat %2 : float32x8
  %8 = cube_position axis=0 : int64
  %9 = mul %8 %3 : int64
  %10 = cube_position axis=1 : int64
  %11 = mul %10 %4 : int64
  %12 = mul %9 %k : int64
  %13 = add %9 %6 : int64
  %14 = mul %13 %k : int64
  %15, %16 = for %5 %k %6 %7 %7 : float32x8, float32x8
    with %i17, %item18, %item19
    %20 = mul %i17 %n : int64
    %21 = add %20 %11 : int64
    %22 = load b %21 : float32x8
    %23 = add %12 %i17 : int64
    %24 = load a %23 : float32
    %25 = splat %24 : float32x8
    %26 = fma %25 %22 %item18 : float32x8
    %27 = add %14 %i17 : int64
    %28 = load a %27 : float32
    %29 = splat %28 : float32x8
    %30 = fma %29 %22 %item19 : float32x8
    yield %26, %30
  %31 = mul %9 %n : int64
  %32 = add %31 %11 : int64
  store c %32 %15 align=8
  %33 = mul %13 %n : int64
  %34 = add %33 %11 : int64
  store c %34 %16
"""


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (scale.build([FLOATS, FLOATS, SIZE], factor=2.0), SCALE),
        (optimize(product(rows=2, columns=1, width=8)), MATMUL),
    ],
    ids=["scale", "matmul"],
)
def test_texts(built: Kernel, text: str) -> None:
    assert kernel_text(verify(built)) == text


def test_building_is_quick() -> None:
    """24 sums of 16 lanes, four steps of the loop at once: 96 multiplications and additions."""
    took = []
    for _ in range(3):
        start = perf_counter()
        built = product(rows=6, columns=4, width=16, unroll=4)
        took.append(perf_counter() - start)
    assert sum(o.name == "fma" for o in built.body.walk()) == 96
    assert min(took) < 0.05
