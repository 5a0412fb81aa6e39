"""Casts and bitcasts: every pair of types against exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from calor.dtypes import ALL, as_dtype
from calor_kernel.language import bitcast

from .run import map_on_lanes, same
from .test_arithmetic import floats, integers, nearest

TYPES = [t.name for t in ALL if t.kind in ("bool", "int", "uint", "float")]


def values(name):
    dtype = as_dtype(name)
    if dtype.kind == "bool":
        return np.array([True, False] * 4)
    if dtype.kind != "float":
        return integers(name)
    edges = [
        s * 2.0**p + d
        for p in (7, 8, 15, 16, 31, 32, 63, 64)
        for s in (-1, 1)
        for d in (-0.5, 0, 0.5)
    ]
    with np.errstate(all="ignore"):
        return np.concatenate([floats(name), np.array(edges).astype(dtype.numpy)])


def cast(x, name):
    dtype = as_dtype(name)
    if dtype.kind == "bool":
        return x != 0
    if dtype.kind == "float":
        if isinstance(x, float) and not (math.isfinite(x) and x):
            return x
        return nearest(Fraction(x), name)
    limits = np.iinfo(name)
    if isinstance(x, float):
        if math.isnan(x):
            return 0
        return (
            int(min(max(x, limits.min), limits.max))
            if math.isinf(x)
            else min(max(int(x), limits.min), limits.max)
        )
    bits = limits.bits
    low = int(x) & ((1 << bits) - 1)
    return low - (1 << bits) if limits.min and low >> (bits - 1) else low


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_cast(source, target):
    given = values(source)
    host = as_dtype(target).numpy
    with np.errstate(all="ignore"):
        numbers = [cast(x.item(), target) for x in given]
        # Integers beyond int64 must not become floats on the way.
        whole = as_dtype(target).kind in ("int", "uint")
        expected = np.array(numbers, host if whole else None).astype(host)
    made = map_on_lanes(lambda x: x.to(as_dtype(target)), given, result=host)
    assert same(made, expected)


@pytest.mark.parametrize("number", [2**60 + 2**52, 2**60 + 2**52 + 1, -(2**60) - 2**52 - 1])
def test_large_integers_round_once(number):
    # In bfloat16 an ulp is 2**53 here: halfway, and one above, which float64 does not see.
    expected = np.array([nearest(Fraction(number), "bfloat16")]).astype(as_dtype("bfloat16").numpy)
    given = np.array([number], np.int64)
    made = map_on_lanes(lambda x: x.to(as_dtype("bfloat16")), given, result=expected.dtype)
    assert same(made, expected)


def test_double_to_bfloat16_rounds_once():
    # Just above halfway, which float32 makes halfway.
    given = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, 1 + 2.0**-8])
    made = map_on_lanes(
        lambda x: x.to(as_dtype("bfloat16")), given, result=as_dtype("bfloat16").numpy
    )
    assert made.astype(np.float64).tolist() == [1 + 2.0**-7, 1.0, 1.0]


@pytest.mark.parametrize(
    ("source", "target", "width"),
    [
        ("float32", "int32", 1),
        ("int64", "float64", 2),
        ("bfloat16", "uint16", 4),
        ("uint8", "bool", 4),
        ("bool", "uint8", 4),
    ],
)
def test_bitcast(source, target, width):
    given = values(source)
    if target == "bool":
        given = given & np.uint8(1)
    host = as_dtype(target).numpy
    made = map_on_lanes(
        lambda x: bitcast(x, as_dtype(target)), given[:64], result=host, width=width
    )
    assert made.tobytes() == given[:64].tobytes()[: made.nbytes]
