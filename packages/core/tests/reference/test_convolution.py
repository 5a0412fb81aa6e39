"""Convolutions against loops, on whole numbers, so that every comparison is exact."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor.reference import convolution
from calor.reference.convolution import conv, conv_input_gradient, conv_weight_gradient

Array = np.ndarray[Any, Any]

# name: x shape, w shape, stride, padding, dilation, groups, input dilation
CASES: dict[str, tuple[Any, ...]] = {
    "line": ((2, 3, 9), (4, 3, 3), (1,), ((0, 0),), (1,), 1, (1,)),
    "same": ((2, 2, 5, 6), (3, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (1, 1)),
    "pointwise": ((3, 4, 3, 3), (5, 4, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 1)),
    "strided": ((2, 2, 7, 8), (3, 2, 3, 2), (2, 3), ((1, 0), (0, 2)), (1, 1), 1, (1, 1)),
    "dilated": ((1, 2, 9, 9), (2, 2, 3, 2), (1, 2), ((2, 1), (0, 0)), (2, 3), 1, (1, 1)),
    "groups": ((2, 6, 5, 5), (4, 3, 2, 2), (1, 1), ((0, 1), (1, 0)), (1, 1), 2, (1, 1)),
    "many groups": ((2, 4, 5, 5), (12, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2, (1, 1)),
    "depthwise": ((2, 4, 6, 5), (4, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4, (1, 1)),
    "depth multiplier": ((2, 3, 6, 5), (6, 1, 3, 3), (2, 1), ((1, 1), (1, 1)), (1, 1), 3, (1, 1)),
    "cropped": ((2, 2, 8, 8), (2, 2, 3, 3), (1, 1), ((-1, -2), (-2, 1)), (1, 1), 1, (1, 1)),
    "cropped, strided": ((2, 2, 9, 8), (2, 2, 2, 3), (2, 2), ((-2, 0), (1, -3)), (1, 1), 1, (1, 1)),
    "transposed": ((2, 2, 4, 3), (3, 2, 3, 3), (1, 1), ((2, 2), (1, 2)), (1, 1), 1, (2, 3)),
    "cropped after": ((2, 2, 5, 4), (3, 2, 3, 2), (1, 1), ((-1, -2), (2, -3)), (1, 1), 1, (2, 2)),
    "both dilations": ((1, 2, 5, 4), (2, 2, 2, 2), (2, 1), ((1, 2), (0, 1)), (3, 2), 1, (2, 3)),
    "volume": (
        (2, 2, 4, 5, 3), (3, 2, 2, 3, 2), (1, 2, 1), ((0, 1), (1, 1), (0, 0)), (1,) * 3, 1, (1,) * 3
    ),
    "four axes": (
        (1, 2, 3, 3, 3, 3), (2, 2, 2, 2, 2, 2), (1,) * 4, ((0, 0),) * 4, (1,) * 4, 1, (1,) * 4
    ),
    "exact fit": ((2, 2, 3, 3), (2, 2, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 1)),
    "no image": ((0, 2, 5, 5), (3, 2, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 1)),
    "no image, strided": ((0, 2, 5, 5), (3, 2, 3, 3), (2, 2), ((0, 0), (0, 0)), (1, 1), 1, (1, 1)),
    "no output": ((2, 2, 5, 5), (0, 2, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 1)),
    "no output, strided": ((2, 2, 5, 5), (0, 2, 3, 3), (2, 2), ((1, 0), (0, 0)), (1, 1), 1, (1, 1)),
    "no input": ((2, 0, 5, 5), (3, 0, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 1)),
    "no input, strided": ((2, 0, 5, 5), (3, 0, 3, 3), (2, 2), ((0, 0), (0, 1)), (1, 1), 1, (1, 1)),
    "no channel": ((2, 0, 5, 5), (3, 0, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 1)),
    "no window fits": ((2, 2, 2, 5), (3, 2, 3, 3), (2, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 1)),
    "all padding": ((1, 1, 0, 2), (1, 1, 2, 2), (1, 1), ((1, 2), (0, 0)), (1, 1), 1, (1, 1)),
}  # fmt: skip
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64]
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128]


def whole(shape: tuple[int, ...], seed: int, dtype: Any = np.int64) -> Array:
    """Return small whole numbers."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def loops(
    x: Array,
    w: Array,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    between: Any,
    g: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Return the convolution and, given its gradient g, those of x and w, term by term."""
    sizes = [
        max((n and (n - 1) * b + 1) + lo + hi - ((k - 1) * d + 1) + s, 0) // s
        for n, k, s, (lo, hi), d, b in zip(
            x.shape[2:], w.shape[2:], stride, padding, dilation, between, strict=True
        )
    ]
    y = np.zeros((x.shape[0], w.shape[0], *sizes), x.dtype)
    gx, gw = np.zeros_like(x), np.zeros_like(w)
    per_group, outputs = w.shape[1], w.shape[0] // groups
    every = slice(None)
    for place in product(*map(range, sizes)):
        for tap in product(*map(range, w.shape[2:])):
            source = []
            for p, t, s, (lo, _), d, b, n in zip(
                place, tap, stride, padding, dilation, between, x.shape[2:], strict=True
            ):
                position = p * s + t * d - lo
                if position % b or not 0 <= position // b < n:
                    break
                source.append(position // b)
            else:
                for o in range(w.shape[0]):
                    for c in range(per_group):
                        seen = (every, o // outputs * per_group + c, *source)
                        out: Any = (every, o, *place)
                        y[out] += x[seen] * w[(o, c, *tap)]
                        if g is not None:
                            gx[seen] += g[out] * w[(o, c, *tap)]
                            gw[(o, c, *tap)] += (g[out] * x[seen]).sum()
    return y, gx, gw


def check(case: tuple[Any, ...], x: Array, w: Array, seed: int = 3) -> None:
    """Compare all three functions with the loops in wide arithmetic."""
    stride, padding, dilation, groups, between = case[2:]
    wide: Any = np.complex128 if x.dtype.kind == "c" else np.int64
    slow = loops(x.astype(wide), w.astype(wide), stride, padding, dilation, groups, between)[0]
    g = whole(slow.shape, seed, x.dtype)
    y, gx, gw = loops(
        x.astype(wide), w.astype(wide), stride, padding, dilation, groups, between, g.astype(wide)
    )
    options = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "input_dilation": between,
    }
    results = (
        (conv(x, w, **options), y),
        (conv_input_gradient(g, w, input_shape=x.shape, **options), gx),
        (conv_weight_gradient(x, g, weight_shape=w.shape, **options), gw),
    )
    for result, expected in results:
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(result, expected.astype(x.dtype))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_loops(case: tuple[Any, ...]) -> None:
    check(case, whole(case[0], 1, np.float64), whole(case[1], 2, np.float64))


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@pytest.mark.parametrize("name", ["strided", "many groups", "transposed"])
def test_dtypes(name: str, dtype: Any) -> None:
    case = CASES[name]
    x, w = whole(case[0], 1), whole(case[1], 2)
    if np.dtype(dtype).kind == "c":
        x, w = x + 1j * whole(case[0], 5), w + 1j * whole(case[1], 6)
    elif np.dtype(dtype) in FLOATS:
        x, w = x // 2, w // 2  # small, so that the sums are whole in 8 bits of precision
    check(case, x.astype(dtype), w.astype(dtype))


def test_wrapping_beyond_what_floats_hold() -> None:
    x = np.full((1, 2, 3), 2**62, np.int64)
    w = np.full((1, 2, 2), 7, np.int64)
    got = conv(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
    assert got.tolist() == [[[(2**62 * 28 + 2**63) % 2**64 - 2**63] * 2]]


def test_half_types_round_once() -> None:
    # 1 + 256 · 2**-9 is 1.5, but each step would be lost in bfloat16.
    x = np.full((1, 257, 1), 2.0**-9, ml_dtypes.bfloat16)
    x[0, 0] = 1
    w = np.ones((1, 257, 1), ml_dtypes.bfloat16)
    got = conv(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
    assert got.astype(float).tolist() == [[[1.5]]]


def test_blocks_of_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "_BLOCK", 300)
    for name in ("same", "strided", "many groups"):
        case = CASES[name]
        shape = (7, *case[0][1:])
        check((shape, *case[1:]), whole(shape, 1, np.float32), whole(case[1], 2, np.float32))


def test_operands_may_be_views() -> None:
    case = CASES["same"]
    x = whole(case[0][::-1], 1, np.float32).T
    w = whole(case[1], 2, np.float32)[..., ::-1]
    check(case, x, w)
