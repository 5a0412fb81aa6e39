"""More kernels for the tests of printers and devices: products, dots, and units that meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import DType, float32, int32, int64, uint64
from calor_kernel.language import (
    Buffer,
    Scalar,
    absolute_position,
    cube_position,
    dot,
    fma,
    kernel,
    lane_position,
    plane_ballot,
    plane_reduce,
    plane_scan,
    plane_shuffle,
    registers,
    splat,
)
from kernel_cases import Case


@kernel
def product(a: Any, b: Any, c: Any, n: Any, k: Any, *, rows: int, width: int) -> None:
    """A tile of a matrix product in registers: what the inner loop of a kernel looks like."""
    sums = registers(rows, float32, width)
    row = cube_position(0) * rows
    column = cube_position(1) * width
    for p in range(k):
        line = b.load(p * n + column, width, align=width * 4)
        for i in range(rows):
            sums[i] = fma(splat(a[(row + i) * k + p], width), line, sums[i])
    for i in range(rows):
        c.store((row + i) * n + column, sums[i], align=width * 4)


def product_case(rows: int = 2, width: int = 4) -> Case:
    """Return the case of a small matrix product."""
    read, size = Buffer(float32, writable=False, align=64), Scalar(int64, nonnegative=True)
    signature: list[Buffer | Scalar] = [read, read, Buffer(float32, align=64), size, size]
    built = product.build(signature, rows=rows, width=width)
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((2 * rows, 5), (5, 2 * width)))
    c = np.zeros((2 * rows, 2 * width), np.float32)
    return Case("product", built, (2, 2, 1), (a, b, c, 2 * width, 5))


@kernel
def dots(a: Any, b: Any, c: Any, *, group: int, width: int) -> None:
    """Products of small numbers summed in wider ones."""
    i = absolute_position() * width
    total = c.load(i, width)
    c.store(i, dot(a.load(i * group, width * group), b.load(i * group, width * group), total))


def dots_case(dtype: DType, wide: DType, width: int, cube: int = 1) -> Case:
    """Return the case of sums of products in groups of lanes."""
    group = wide.itemsize // dtype.itemsize
    read = Buffer(dtype, writable=False)
    built = dots.build([read, read, Buffer(wide)], cube=(cube, 1, 1), group=group, width=width)
    rng = np.random.default_rng(4)
    low = 0 if dtype.kind == "uint" else -128
    a, b = (rng.integers(low, low + 256, 32 * group).astype(dtype.numpy) for _ in range(2))
    c = rng.integers(-(2**31) if dtype.kind == "int" else 0, 2**31, 32).astype(wide.numpy)
    return Case(f"dots-{dtype.name}x{width}", built, (32 // width // cube, 1, 1), (a, b, c))


@kernel
def meetings(x: Any, *outputs: Any, size: int) -> None:
    """What the units of a plane do together."""
    i = absolute_position()
    value = x[i]
    whole = value.dtype.kind != "float"
    made = [plane_reduce(kind, value) for kind in ("add", "min", "max")]
    made += [plane_scan("add", value), plane_scan("max", value, exclusive=True)]
    lane = lane_position().to(int32)
    made += [
        plane_shuffle(value, (lane * 3 + 1) & (size - 1)),
        plane_shuffle(value, size // 2, "xor"),
        plane_shuffle(value, 1, "up"),
        plane_shuffle(value, min(3, size - 1), "down"),
    ]
    made += [plane_reduce(kind, value) for kind in ("and", "or", "xor") if whole]
    for out, result in zip(outputs[1:], made, strict=True):
        out[i] = result
    outputs[0][i] = plane_ballot(value > value.builder.coerce(2, value.type))


def planes_case(dtype: DType, plane: int, planes: int = 2) -> Case:
    """Return the case of planes; sums are exact in every order."""
    count = 12 if dtype.kind != "float" else 9
    cube = (plane * planes, 1, 1)
    signature: list[Buffer | Scalar] = [Buffer(dtype), Buffer(uint64), *[Buffer(dtype)] * count]
    built = meetings.build(signature, cube=cube, plane=plane, size=plane)
    size = 3 * cube[0]
    x = np.random.default_rng(6).integers(-5, 9, size).astype(dtype.numpy)
    arrays = [np.zeros(size, np.uint64), *(np.zeros(size, dtype.numpy) for _ in range(count))]
    return Case(f"planes-{dtype.name}x{plane}", built, (3, 1, 1), (x, *arrays))
