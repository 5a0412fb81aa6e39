"""What is folded is what a device computes: each row on lanes, with numbers and with arguments."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor.dtypes import DType, bfloat16, bool_, float16, float32, float64, int8, int64, uint8
from calor_interpreter.launch import run_on_lanes
from calor_kernel.ir import fold
from calor_kernel.ir.nodes import Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.text import kernel_text
from calor_kernel.ir.types import Type
from calor_kernel.language import Buffer, Scalar, cube_position, kernel
from calor_kernel.language.builder import current

NUMBERS = {int8: (-128, -3, -1, 0, 1, 2, 5, 127), uint8: (0, 1, 2, 5, 128, 255)}
BINARY = [
    "add",
    "sub",
    "mul",
    "quotient",
    "modulo",
    "min",
    "max",
    "and",
    "or",
    "xor",
    "shl",
    "shr",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
]
CONVERSIONS = [
    (2**24 + 1, float32, 2.0**24),
    (2**60 + 2**36 + 1, float32, float(2**60 + 2**37)),
    (-(2**60 + 2**36 + 1), float32, -float(2**60 + 2**37)),
    (2**60 + 2**36, float32, 2.0**60),
    (2**53 + 1, float64, 2.0**53),
    (1 + 2.0**-8 + 2.0**-40, bfloat16, 1 + 2.0**-7),
    (1 + 2.0**-8, bfloat16, 1.0),
    (2**30 + 2**22 + 1, bfloat16, float(2**30 + 2**23)),
    (65519.9, float16, 65504.0),
    (65520.0, float16, np.inf),
    (3.4e38, bfloat16, np.inf),
    (300, int8, 44),
    (-1, uint8, 255),
    (0.5, bool_, True),
]


@pytest.mark.parametrize(("number", "dtype", "wanted"), CONVERSIONS)
def test_numbers_are_rounded_once(number: Any, dtype: DType, wanted: Any) -> None:
    assert fold.convert(number, dtype) == wanted


def test_bfloat16_is_rounded_as_from_integers_of_any_size() -> None:
    rng = np.random.default_rng(3)
    for exponent in rng.integers(0, 60, 200):
        number = int(rng.integers(1 << 62)) << int(exponent)
        near = float(np.float64(number).astype(ml_dtypes.bfloat16))
        assert abs(fold.convert(number, bfloat16) - number) <= abs(near - number)


@kernel
def one(y, a, b, c, d, *, name, numbers, type_):
    """Write the operation of arguments, then those with one number known, and both."""
    builder = current()
    x, z = (builder.constant(n, a.dtype) for n in numbers)
    pairs = [(a, b), (x, b), (a, z), (x, z)]
    for place, pair in enumerate(pairs):
        made = builder.emit(name, pair, (type_,))[0]
        y[place] = builder.cast(made, int64)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_known_numbers_give_what_unknown_ones_do(name: str, dtype: DType) -> None:
    result = Type(bool_) if OPS[name].result == "bool" else Type(dtype)
    signature = [Buffer(int64), *[Scalar(dtype)] * 4]
    for a, b in product(NUMBERS[dtype], repeat=2):
        if (name in ("quotient", "modulo") and (b == 0 or (a, b) == (-128, -1))) or (
            name in ("shl", "shr") and not 0 <= b < 8
        ):
            continue
        built = one.build(signature, name=name, numbers=(a, b), type_=result)
        y = np.zeros(4, np.int64)
        run_on_lanes(built, (1, 1, 1), [y, a, b, a, b])
        assert set(y) == {y[0]}, f"{name} of {a}, {b}: {y}\n{kernel_text(built)}"


@pytest.mark.parametrize("name", ["sub", "xor", "eq", "ne", "le", "and", "or", "min"])
def test_a_value_with_itself(name: str) -> None:
    result = Type(bool_) if OPS[name].result == "bool" else Type(int64)

    @kernel
    def same(y, a):
        builder = current()
        y[0] = builder.cast(builder.emit(name, (a, a), (result,))[0], int64)

    built = same.build([Buffer(int64), Scalar(int64)])
    y = np.zeros(1, np.int64)
    run_on_lanes(built, (1, 1, 1), [y, 6])
    assert y[0] == {"sub": 0, "xor": 0, "ne": 0, "eq": 1, "le": 1}.get(name, 6)
    assert not any(o.name == name for o in built.body.walk())


# An operation, the signs of its operands (None for a number), and whether the result's is known.
SIGNS = [
    ("add", (True, True), True),
    ("add", (True, False), False),
    ("sub", (True, True), False),
    ("mul", (True, True), True),
    ("and", (False, True), True),
    ("and", (False, False), False),
    ("or", (True, True), True),
    ("max", (False, True), True),
    ("min", (False, True), False),
    ("quotient", (True, True), True),
    ("modulo", (True, False), True),
    ("modulo", (False, True), False),
    ("shr", (True, False), True),
    ("neg", (True,), False),
    ("popcount", (False,), True),
]


@pytest.mark.parametrize(("name", "signs", "wanted"), SIGNS)
def test_signs_follow(name: str, signs: tuple[bool, ...], wanted: bool) -> None:
    operands = [Value(Type(int64), nonnegative=sign) for sign in signs]
    result = Value(Type(int64))
    fold.mark(name, operands, result)
    assert result.nonnegative is wanted


CASTS = [
    (int64, True, int64, True),
    (int8, True, int64, True),
    (int64, True, int8, False),
    (uint8, False, int64, True),
    (uint8, False, int8, False),
    (bool_, False, int8, True),
    (float32, False, int64, False),
]


@pytest.mark.parametrize(("source", "sign", "target", "wanted"), CASTS)
def test_signs_of_casts(source: DType, sign: bool, target: DType, wanted: bool) -> None:
    result = Value(Type(target))
    fold.mark("cast", [Value(Type(source), nonnegative=sign)], result)
    assert result.nonnegative is wanted


def test_divisors_follow() -> None:
    @kernel
    def k(x, n):
        i = cube_position() * 24
        places = [i, i + 8, i * n, i >> 1, i // 3, (i + 4) & -4, i + n, i % 16]
        x[0] = sum(places[1:], places[0])
        for value in places:
            found.append(value.divisible)

    found: list[int] = []
    k.build([Buffer(int64), Scalar(int64, divisible=6)])
    assert found == [24, 8, 144, 12, 8, 4, 6, 8]
