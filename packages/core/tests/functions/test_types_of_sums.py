"""Products whose sums have a type of their own, of which factors of float8 need one."""

import ml_dtypes
import numpy as np
import pytest

import calor
from calor.errors import DTypeError

RNG = np.random.default_rng(5)
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@pytest.mark.parametrize("types", [(E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2)], ids=str)
@pytest.mark.parametrize("result", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("shapes", [((5, 7), (7, 3)), ((2, 5, 7), (7, 3)), ((7,), (7,))], ids=str)
def test_factors_of_float8(types, result, shapes):
    a, b = (RNG.normal(size=s).astype(t) for s, t in zip(shapes, types, strict=True))
    found = calor.matmul(calor.asarray(a), calor.asarray(b), dtype=result)
    wide = np.float64 if result == "float64" else np.float32
    wanted = (a.astype(wide) @ b.astype(wide)).astype(found.numpy().dtype)
    assert found.dtype.name == result
    np.testing.assert_allclose(
        found.numpy().astype(np.float64), wanted.astype(np.float64), rtol=2e-2, atol=1e-2
    )


@pytest.mark.parametrize(
    ("given", "result"), [("int8", "int32"), ("uint8", "int32"), ("bfloat16", "float32")]
)
def test_sums_are_wider(given, result):
    a = RNG.integers(0, 100, (4, 50)).astype("float32")
    x = calor.asarray(a).astype(given)
    found = calor.matmul(x, x.T, dtype=result)
    assert found.dtype.name == result
    np.testing.assert_array_equal(found.numpy(), (a @ a.T).astype(result))


def test_gradients_of_wider_sums():
    x = calor.asarray(RNG.normal(size=(3, 4)).astype("float32")).astype("bfloat16")
    gradient = calor.grad(lambda v: calor.matmul(v, v.T, dtype="float32").sum())(x)
    assert gradient.dtype is calor.bfloat16
    wide = x.numpy().astype(np.float32)
    np.testing.assert_allclose(
        gradient.numpy().astype(np.float32), np.tile(2 * wide.sum(0), (3, 1)), rtol=2e-2, atol=1e-2
    )


F8, F32, I8, B = (calor.ones((2, 2)).astype(t) for t in ("float8_e5m2", "float32", "int8", "bool"))
ERRORS = [
    (lambda: calor.matmul(F8, F8), r"name the type of the sums .*dtype=calor.float32"),
    (lambda: calor.matmul(F8, F8, dtype="int32"), "are summed in a floating type, not int32"),
    (lambda: calor.matmul(F8, F8, dtype="float8_e5m2"), "summed in a floating type"),
    (lambda: calor.matmul(F8, F32, dtype="float32"), "have no common type"),
    (lambda: calor.matmul(F32, F32, dtype="bfloat16"), r"as wide, .*astype\(calor.bfloat16\)"),
    (lambda: calor.matmul(I8, I8, dtype="float32"), "of the same kind"),
    (lambda: calor.matmul(B, B, dtype="int32"), "sums of bool"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_types_that_sums_do_not_have(wrong, message):
    with pytest.raises(DTypeError, match=message):
        wrong()


def test_a_precision_below_the_highest_is_said_of_float8():
    x = calor.asarray(RNG.normal(size=(4, 4)).astype(E4M3))
    with calor.matmul_precision("high"):
        found = calor.matmul(x, x, dtype="float32")
    wide = x.numpy().astype(np.float32)
    np.testing.assert_allclose(found.numpy(), wide @ wide, rtol=1e-6)
