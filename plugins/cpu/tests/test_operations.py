"""Every operation, compiled and run, gives the bits of its meaning on lanes, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType
from calor_cpu.target import native
from calor_cpu.testing import run
from calor_kernel.language.lanes import run_on_lanes

from .operations import COMPUTED, STORED, build, chosen, values

TARGETS = ("native", "x86-64-v3", "x86-64") if native().is_x86 else ("native",)


def differing(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the places where the bits differ, of which NaN have any."""
    if got.dtype.kind in "iub":
        return np.flatnonzero(got != wanted)
    bits = f"u{got.dtype.itemsize}"
    with np.errstate(invalid="ignore"):
        nan = np.isnan(got) & np.isnan(wanted)
    return np.flatnonzero((got.view(bits) != wanted.view(bits)) & ~nan)


def check(group: str, dtype: DType, width: int, target: str) -> None:
    kernel, types = build(group, dtype, width)
    operands = [a[: len(a) // width * width] for a in values(dtype)]
    cubes = len(operands[0]) // width
    results = [[np.zeros(cubes * t.width, t.dtype.numpy) for t in types] for _ in range(2)]
    run(kernel, cubes, [*operands, *results[0]], target=target)
    run_on_lanes(kernel, (cubes, 1, 1), [*operands, *results[1]])
    wrong = []
    for (name, _), got, wanted in zip(chosen(group, dtype), *results, strict=True):
        where = differing(got, wanted)
        if len(where):
            i = where[0]
            given = [a[i * len(a) // len(got)] for a in operands]
            wrong.append(f"{name} of {given}: {got[i]!r}, not {wanted[i]!r} ({len(where)} differ)")
    assert not wrong, "\n".join(wrong)


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
