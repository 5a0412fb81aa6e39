"""dot_general against einsum and exact integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor.reference.contraction import dot_general, matmul

# einsum's equation, shapes, contract, batch
CASES: dict[str, tuple[Any, ...]] = {
    "matrices": ("mk,kn->mn", (3, 4), (4, 5), ((1,), (0,)), ((), ())),
    "transposed": ("km,nk->mn", (4, 3), (5, 4), ((0,), (1,)), ((), ())),
    "batch": ("bmk,bkn->bmn", (2, 3, 4), (2, 4, 5), ((2,), (1,)), ((0,), (0,))),
    "batch last": ("mkb,kbn->bmn", (3, 4, 2), (4, 2, 5), ((1,), (0,)), ((2,), (1,))),
    "two batches": ("abmk,banK->abmknK", (2, 3, 2, 2), (3, 2, 4, 2), ((), ()), ((0, 1), (1, 0))),
    "two contracted": ("mkl,lkn->mn", (3, 4, 2), (2, 4, 5), ((1, 2), (1, 0)), ((), ())),
    "all contracted": ("ij,ji->", (3, 4), (4, 3), ((0, 1), (1, 0)), ((), ())),
    "outer": ("m,n->mn", (3,), (4,), ((), ()), ((), ())),
    "numbers": (",->", (), (), ((), ()), ((), ())),
    "inner": ("k,k->", (5,), (5,), ((0,), (0,)), ((), ())),
    "nothing contracted": ("mk,kn->mn", (3, 0), (0, 5), ((1,), (0,)), ((), ())),
    "no rows": ("mk,kn->mn", (0, 4), (4, 5), ((1,), (0,)), ((), ())),
    "no batch": ("bmk,bkn->bmn", (0, 3, 4), (0, 4, 5), ((2,), (1,)), ((0,), (0,))),
}
DTYPES = [
    np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.float16, ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn, np.float32, np.float64, np.complex64, np.complex128,
]  # fmt: skip


def whole(shape: tuple[int, ...], seed: int, dtype: Any = np.int64) -> Any:
    """Return small whole numbers."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_einsum(case: tuple[Any, ...], dtype: Any) -> None:
    equation, first, second, contract, batch = case
    a, b = whole(first, 1), whole(second, 2)
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * whole(first, 3), b + 1j * whole(second, 4)
    got = dot_general(a.astype(dtype), b.astype(dtype), contract=contract, batch=batch)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.einsum(equation, a, b).astype(dtype))


def test_bool_is_or_of_ands() -> None:
    a = np.array([[True, False, True], [False, False, True]])
    b = np.array([[False, True], [True, True], [False, False]])
    got = dot_general(a, b, contract=((1,), (0,)), batch=((), ()))
    assert got.dtype == np.bool_
    assert got.tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize(
    ("first", "second", "dtype"),
    [
        (np.int8, np.int8, np.int32),
        (np.uint8, np.int8, np.int32),
        (np.int8, np.int8, np.int8),
        (np.int32, np.int32, np.int64),
        (np.int64, np.int64, np.int32),
        (np.int64, np.int64, np.int64),
        (np.uint64, np.uint64, np.uint64),
    ],
)
@pytest.mark.parametrize("depth", [3, 2000])
def test_integers_are_exact_and_wrap(first: Any, second: Any, dtype: Any, depth: int) -> None:
    random = np.random.default_rng(0)
    low, high = np.iinfo(first), np.iinfo(second)
    a = random.integers(low.min, low.max, (2, depth), first, endpoint=True)
    b = random.integers(high.min, high.max, (depth, 2), second, endpoint=True)
    exact = a.astype(object) @ b.astype(object)
    bits = 8 * np.dtype(dtype).itemsize
    sign = 2 ** (bits - 1) if np.dtype(dtype).kind == "i" else 0
    wrapped = [[(v + sign) % 2**bits - sign for v in row] for row in exact]
    got = dot_general(a, b, contract=((1,), (0,)), batch=((), ()), dtype=dtype)
    assert got.dtype == dtype
    assert got.tolist() == wrapped


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_types_accumulate_in_float32(dtype: Any) -> None:
    a = np.full((1, 4097), 2.0**-12, dtype)
    a[0, 0] = 1
    ones = np.ones((4097, 1), dtype)
    pair = {"contract": ((1,), (0,)), "batch": ((), ())}
    assert float(dot_general(a, ones, **pair)[0, 0]) == 2.0
    wide = dot_general(a, ones, **pair, dtype=np.float32)
    assert wide.dtype == np.float32
    assert wide[0, 0] == 2.0


def test_wider_and_narrower_results() -> None:
    a = np.array([[1 + 2.0**-20]], np.float32)
    pair = {"contract": ((1,), (0,)), "batch": ((), ())}
    assert dot_general(a, a, **pair, dtype=np.float64)[0, 0] == float(a[0, 0]) ** 2
    narrow = dot_general(a, a, **pair, dtype=ml_dtypes.bfloat16)
    assert narrow.dtype == ml_dtypes.bfloat16


def test_views_that_blas_cannot_use() -> None:
    base = whole((6, 8, 10), 1, np.float32)
    a, b = base[::2, ::-2, ::3], np.broadcast_to(whole((4, 1), 2, np.float32), (3, 4, 5))
    got = dot_general(a, b, contract=((2,), (1,)), batch=((0,), (0,)))
    np.testing.assert_array_equal(got, np.einsum("bmk,bkn->bmn", a, b))


def test_bits_do_not_depend_on_how_operands_lie() -> None:
    random = np.random.default_rng(3)
    for _ in range(100):
        rows, depth, columns = random.integers(1, 9, 3)
        wide = random.standard_normal((rows, 2 * depth + 3)).astype(np.float32)
        tall = random.standard_normal((columns, depth)).astype(np.float32)
        a, b = wide[:, 1 : depth + 1], tall.T
        dense = matmul(a.copy(), np.ascontiguousarray(b))
        assert matmul(a, b).tobytes() == dense.tobytes()
        assert matmul(a[None], np.broadcast_to(b, (2, *b.shape)))[1].tobytes() == dense.tobytes()
