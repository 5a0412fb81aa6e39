"""Every operation, compiled and run, gives the bits of its meaning on lanes, on every target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType, bfloat16, float16, float32, float64
from calor_cpu.testing import run
from calor_interpreter.launch import run_on_lanes
from calor_kernel.ir.types import Buffer
from calor_kernel.language import cube_position, kernel, modulo, quotient

from .needs import TARGETS
from .operations import COMPUTED, STORED, build, chosen, values


def differing(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the places where the bits differ, of which NaN have any."""
    if got.dtype.kind in "iub":
        return np.flatnonzero(got != wanted)
    bits = f"u{got.dtype.itemsize}"
    with np.errstate(invalid="ignore"):
        nan = np.isnan(got) & np.isnan(wanted)
    return np.flatnonzero((got.view(bits) != wanted.view(bits)) & ~nan)


def nothing_differs(names: Iterable[str], results: list[list[Any]], operands: list[Any]) -> None:
    """Fail with a line for each row whose results differ, and the operands of the first place."""
    wrong = []
    for name, got, wanted in zip(names, *results, strict=True):
        where = differing(got, wanted)
        if len(where):
            i = where[0]
            given = [a[i * len(a) // len(got)] for a in operands]
            wrong.append(f"{name} of {given}: {got[i]!r}, not {wanted[i]!r} ({len(where)} differ)")
    assert not wrong, "\n".join(wrong)


def check(group: str, dtype: DType, width: int, target: str) -> None:
    kernel, types = build(group, dtype, width)
    operands = [a[: len(a) // width * width] for a in values(dtype)]
    cubes = len(operands[0]) // width
    results = [[np.zeros(cubes * t.width, t.dtype.numpy) for t in types] for _ in range(2)]
    run(kernel, cubes, [*operands, *results[0]], target=target)
    run_on_lanes(kernel, (cubes, 1, 1), [*operands, *results[1]])
    nothing_differs([name for name, _ in chosen(group, dtype)], results, operands)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_arithmetic(dtype: DType, width: int, target: str) -> None:
    check("scalars", dtype, width, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [3, 16])
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_lanes(dtype: DType, width: int, target: str) -> None:
    check("vectors", dtype, width, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_casts(dtype: DType, width: int, target: str) -> None:
    check("casts", dtype, width, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [t for t in STORED if t.kind != "bool"], ids=str)
def test_bitcasts(dtype: DType, target: str) -> None:
    check("bitcasts", dtype, 8, target)


@kernel
def extremes(a, b, low, high, *, width):
    at = cube_position(0) * width
    x, y = a.load(at, width), b.load(at, width)
    low.store(at, min(x, y))
    high.store(at, max(x, y))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 12, 32, 48])
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_extremes_of_any_width(dtype: DType, width: int, target: str) -> None:
    a, b, _ = values(dtype, 48 * 30)
    results = [[np.zeros_like(a), np.zeros_like(a)] for _ in range(2)]
    built = extremes.build([Buffer(dtype)] * 4, width=width)
    run(built, len(a) // width, [a, b, *results[0]], target=target)
    run_on_lanes(built, (len(a) // width, 1, 1), [a, b, *results[1]])
    nothing_differs(("min", "max"), results, [a, b])


@kernel
def divided_by(x, q, r, *, by, width):
    at = cube_position(0) * width
    a = x.load(at, width)
    b = a.builder.constant(by, a.dtype, width)
    q.store(at, quotient(a, b))
    r.store(at, modulo(a, b))


@pytest.mark.parametrize("by", [3, 7, (1, 2, 3, 4, 5, 6, 7, 100)])
@pytest.mark.parametrize("dtype", [t for t in COMPUTED if t.kind in ("int", "uint")], ids=str)
def test_divisors_that_are_known(dtype: DType, by: int | tuple[int, ...]) -> None:
    (x, *_) = values(dtype, 1536)
    results = [[np.zeros_like(x), np.zeros_like(x)] for _ in range(2)]
    built = divided_by.build([Buffer(dtype)] * 3, by=by, width=8)
    run(built, len(x) // 8, [x, *results[0]])
    run_on_lanes(built, (len(x) // 8, 1, 1), [x, *results[1]])
    nothing_differs(("quotient", "modulo"), results, [x])


@kernel
def halves(x, wide, back):
    at = cube_position(0) * 16
    value = x.load(at, 16)
    wide.store(at, value.to(float32))
    back.store(at, value.to(float32).to(x.dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_every_number_of_a_half_type_becomes_float32_and_back(dtype: DType, target: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    wide, back = np.zeros(len(x), np.float32), np.zeros_like(x)
    built = halves.build([Buffer(dtype), Buffer(float32), Buffer(dtype)])
    run(built, len(x) // 16, [x, wide, back], target=target)
    with np.errstate(invalid="ignore"):
        results = [[wide, back], [x.astype(np.float32), x]]
        nothing_differs(("float32", "back"), results, [x])


@kernel
def rounded(x, made, *, to, width):
    at = cube_position(0) * width
    made.store(at, x.load(at, width).to(to))


@pytest.mark.parametrize("width", [1, 4, 8, 16, 24, 64])
@pytest.mark.parametrize("target", TARGETS)
def test_vectors_with_and_without_denormals_round_to_bfloat16(target: str, width: int) -> None:
    rng = np.random.default_rng(width)
    bits = rng.integers(0, 1 << 32, 1536, np.uint64).astype(np.uint32)
    bits[::7] &= 0x807FFFFF  # Denormals among others.
    bits[768:] |= 0x10000000  # None.
    x = bits.view(np.float32)
    made = np.zeros(len(x), bfloat16.numpy)
    built = rounded.build([Buffer(float32), Buffer(bfloat16)], to=bfloat16, width=width)
    run(built, len(x) // width, [x, made], target=target)
    with np.errstate(invalid="ignore"):
        nothing_differs(("rounded",), [[made], [x.astype(bfloat16.numpy)]], [x])
