"""Results beside NumPy's, for what the standard's own suite does not see: extras, modes, edges."""

import array
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import calor

# NumPy's overloads know fewer dtypes by name than NumPy does.
np: Any = numpy

A = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
M = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]], np.float32)
V = np.array([4, 1, 3, 1, 2], np.int64)
N = np.array([1.0, np.nan, -np.inf, np.inf, 0.0], np.float32)
B = np.array([True, False, True])


def case(name: str, ours: Callable[..., Any], expected: Callable[..., Any]) -> Any:
    return pytest.param(ours, expected, id=name)


def t(array: Any) -> Any:
    return calor.asarray(array)


VALUES = [
    # Padding.
    *[
        case(
            f"pad {mode} {width}",
            lambda mode=mode, width=width: calor.pad(t(M), width, mode=mode),
            lambda mode=mode, width=width: np.pad(M, width, mode=mode),
        )
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap")
        for width in (1, (0, 1), ((1, 0), (2, 1)), 0)
    ],
    case(
        "pad with a value",
        lambda: calor.pad(t(V), 2, value=7),
        lambda: np.pad(V, 2, constant_values=7),
    ),
    case(
        "pad with a tensor",
        lambda: calor.pad(t(M), 1, value=t(9)),
        lambda: np.pad(M, 1, constant_values=9),
    ),
    case("pad bool", lambda: calor.pad(t(B), 1), lambda: np.pad(B, 1)),
    # Splitting, windows, repeating.
    *[
        case(
            f"split {sizes}",
            lambda s=sizes: calor.split(t(V), s)[1],
            lambda s=sizes: np.split(V, [s[0]])[1],
        )
        for sizes in ((2, 3), (0, 5))
    ],
    case("split the rest", lambda: calor.split(t(V), (1, -1))[1], lambda: V[1:]),
    *[
        case(f"chunk {i}", lambda i=i: calor.chunk(t(V), 3)[i], lambda i=i: np.array_split(V, 3)[i])
        for i in range(3)
    ],
    case("chunk beyond the size", lambda: calor.chunk(t(V), 7)[6], lambda: np.array_split(V, 7)[6]),
    case(
        "unfold",
        lambda: calor.unfold(t(A), axis=1, size=2),
        lambda: np.lib.stride_tricks.sliding_window_view(A, 2, 1),
    ),
    case(
        "unfold by 3",
        lambda: calor.unfold(t(V), axis=-1, size=2, step=3),
        lambda: np.lib.stride_tricks.sliding_window_view(V, 2)[::3],
    ),
    case(
        "repeat with a tensor",
        lambda: calor.repeat(t(M), t([2, 0, 1]), axis=1),
        lambda: np.repeat(M, [2, 0, 1], 1),
    ),
    case("repeat with one", lambda: calor.repeat(t(V), t([2])), lambda: np.repeat(V, [2])),
    case("repeat nothing", lambda: calor.repeat(t(V), t([0] * 5)), lambda: np.repeat(V, [0] * 5)),
    case("repeat never", lambda: calor.repeat(t(M), 0, axis=0), lambda: np.repeat(M, 0, 0)),
    case("tile more axes", lambda: calor.tile(t(M), (2, 1, 2)), lambda: np.tile(M, (2, 1, 2))),
    case("roll flat", lambda: calor.roll(t(M), -4), lambda: np.roll(M, -4)),
    case(
        "roll two axes",
        lambda: calor.roll(t(A), (1, -2), axis=(0, 2)),
        lambda: np.roll(A, (1, -2), (0, 2)),
    ),
    case(
        "roll one axis twice", lambda: calor.roll(t(V), (1, 2), axis=(0, 0)), lambda: np.roll(V, 3)
    ),
    case("flatten", lambda: calor.flatten(t(A), start_axis=1), lambda: A.reshape(2, 12)),
    case("flatten 0-d", lambda: calor.flatten(t(3)), lambda: np.array([3])),
    case("transpose", lambda: calor.transpose(t(A)), lambda: A.T),
    case("transpose to", lambda: calor.transpose(t(A), (1, -1, 0)), lambda: A.transpose(1, 2, 0)),
    case("swapaxes", lambda: calor.swapaxes(t(A), 0, -1), lambda: np.swapaxes(A, 0, -1)),
    case(
        "moveaxis",
        lambda: calor.moveaxis(t(A), (0, 1), (-1, 0)),
        lambda: np.moveaxis(A, (0, 1), (-1, 0)),
    ),
    case(
        "expand several",
        lambda: calor.expand_dims(t(M), (0, -1)),
        lambda: np.expand_dims(M, (0, -1)),
    ),
    case("squeeze all", lambda: calor.squeeze(t(A[:1, :, :1])), lambda: A[0, :, 0]),
    # Statistics and running reductions.
    case("median", lambda: calor.median(t(M), axis=1), lambda: np.median(M, 1)),
    case(
        "median of two axes", lambda: calor.median(t(A), axis=(0, 2)), lambda: np.median(A, (0, 2))
    ),
    case("median with NaN", lambda: calor.median(t(N)), lambda: np.float32(np.nan)),
    case(
        "quantile",
        lambda: calor.quantile(t(A), 0.3, axis=1),
        lambda: np.quantile(A, 0.3, 1).astype("f4"),
    ),
    case(
        "quantiles",
        lambda: calor.quantile(t(A), t([0.0, 0.25, 1.0]), axis=(0, 2), keepdims=True),
        lambda: np.quantile(A, [0.0, 0.25, 1.0], (0, 2), keepdims=True).astype("f4"),
    ),
    case(
        "quantile between infinities",
        lambda: calor.quantile(t([np.inf, np.inf]), 0.5),
        lambda: np.float32(np.inf),
    ),
    case("logsumexp", lambda: calor.logsumexp(t(M), axis=0), lambda: np.logaddexp(*M)),
    case(
        "logsumexp of -inf",
        lambda: calor.logsumexp(t([-np.inf, -np.inf])),
        lambda: np.float32(-np.inf),
    ),
    case("logsumexp of inf", lambda: calor.logsumexp(t([1.0, np.inf])), lambda: np.float32(np.inf)),
    case(
        "logsumexp of nothing",
        lambda: calor.logsumexp(calor.zeros((0,))),
        lambda: np.float32(-np.inf),
    ),
    case(
        "mean of large halves",
        lambda: calor.mean(calor.full((70,), 60000, dtype="float16")),
        lambda: np.float16(60000),
    ),
    case(
        "var of complex", lambda: calor.var(t(M[0] + 1j * M[1])), lambda: np.var(M[0] + 1j * M[1])
    ),
    case(
        "std unbiased", lambda: calor.std(t(M), axis=1, correction=1), lambda: np.std(M, 1, ddof=1)
    ),
    case("running max", lambda: calor.cumulative_max(t(V)), lambda: np.maximum.accumulate(V)),
    case(
        "running min",
        lambda: calor.cumulative_min(t(M), axis=1),
        lambda: np.minimum.accumulate(M, 1),
    ),
    case("sum of bool", lambda: calor.sum(t(B)), lambda: np.sum(B)),
    # Searching, sorting, sets.
    case("argwhere", lambda: calor.argwhere(t(M) > 0), lambda: np.argwhere(M > 0)),
    case("argwhere 0-d true", lambda: calor.argwhere(t(5)), lambda: np.argwhere(np.array(5))),
    case("argwhere 0-d false", lambda: calor.argwhere(t(0)), lambda: np.argwhere(np.array(0))),
    case(
        "nonzero of nothing",
        lambda: calor.nonzero(calor.zeros((0, 2)))[1],
        lambda: np.zeros(0, np.int64),
    ),
    *[
        case(
            f"searchsorted {side}",
            lambda side=side: calor.searchsorted(t(np.sort(V)), t([[0, 1], [2, 9]]), side=side),
            lambda side=side: np.searchsorted(np.sort(V), [[0, 1], [2, 9]], side),
        )
        for side in ("left", "right")
    ],
    *[
        case(
            f"searchsorted {side} with NaN",
            lambda side=side: calor.searchsorted(t(np.sort(N)), t(N), side=side),
            lambda side=side: np.searchsorted(np.sort(N), N, side),
        )
        for side in ("left", "right")
    ],
    case(
        "searchsorted in nothing",
        lambda: calor.searchsorted(calor.zeros(0), t([1.0])),
        lambda: np.zeros(1, np.int64),
    ),
    case(
        "searchsorted by sorter",
        lambda: calor.searchsorted(t(V), t([2]), sorter=calor.argsort(t(V))),
        lambda: np.searchsorted(V, [2], sorter=np.argsort(V)),
    ),
    case("bincount", lambda: calor.bincount(t(V), length=6), lambda: np.bincount(V, minlength=6)),
    case(
        "bincount weighted",
        lambda: calor.bincount(t(V), weights=t(V * 2), length=5),
        lambda: np.bincount(V, V * 2).astype(np.int64),
    ),
    *[
        case(
            f"bincount of at least {least}",
            lambda least=least: calor.bincount(t(V), None, least),
            lambda least=least: np.bincount(V, minlength=least),
        )
        for least in (0, 3, 9)
    ],
    case("bincount of nothing", lambda: calor.bincount(t(V)[:0]), lambda: np.bincount(V[:0])),
    case("topk", lambda: calor.topk(t(M), 2).values, lambda: -np.sort(-M, 1)[:, :2]),
    case(
        "topk indices", lambda: calor.topk(t(V), 2, largest=False).indices, lambda: np.array([1, 3])
    ),
    case(
        "sort with NaN",
        lambda: calor.sort(t(N), descending=True),
        lambda: np.array([np.inf, 1, 0, -np.inf, np.nan], "f4"),
    ),
    case(
        "unique of NaN",
        lambda: calor.unique_counts(t([np.nan, np.nan, 1.0])).counts,
        lambda: np.array([1, 1, 1]),
    ),
    case(
        "unique of zeros", lambda: calor.unique_counts(t([0.0, -0.0])).counts, lambda: np.array([2])
    ),
    case(
        "unique of nothing",
        lambda: calor.unique_all(calor.zeros((0, 2))).inverse_indices,
        lambda: np.zeros((0, 2), np.int64),
    ),
    *[
        case(
            f"isin {name}",
            lambda x=x, y=y: calor.isin(t(x), t(y)),
            lambda x=x, y=y: np.isin(x, y),
        )
        for name, x, y in (
            ("integers", V, [[1, 4]]),
            ("bool", B, [True]),
            ("NaN", N, N),
            ("complex", M * 1j, [-1j]),
            ("nothing", V, np.zeros(0, np.int64)),
        )
    ],
    case(
        "isin inverted",
        lambda: calor.isin(t(V), t([1]), invert=True),
        lambda: np.isin(V, [1], invert=True),
    ),
    # Places held in tensors.
    case(
        "take negative",
        lambda: calor.take(t(M), t([-1, 0]), axis=1),
        lambda: np.take(M, [-1, 0], 1),
    ),
    case(
        "take a grid",
        lambda: calor.take(t(V), t([[0, 1], [2, 3]])),
        lambda: np.take(V, [[0, 1], [2, 3]]),
    ),
    case(
        "take along, broadcast",
        lambda: calor.take_along_axis(t(M), t([[2, 0, 0, 1]]), axis=1),
        lambda: np.take_along_axis(M, np.array([[2, 0, 0, 1]]), 1),
    ),
    case(
        "scatter the last one wins",
        lambda: calor.scatter_along_axis(calor.zeros(2, dtype="int64"), t([0, 0]), t([5, 6])),
        lambda: np.array([6, 0]),
    ),
    *[
        case(
            f"scatter {update}",
            lambda u=update: calor.scatter_along_axis(t([2, 3]), t([1, 1]), t([4, 5]), update=u),
            lambda e=expected: np.array(e),
        )
        for update, expected in (
            ("add", [2, 12]),
            ("mul", [2, 60]),
            ("max", [2, 5]),
            ("min", [2, 3]),
        )
    ],
    case("gather parts", lambda: calor.gather_nd(t(A), t([[1], [0]])), lambda: A[[1, 0]]),
    case(
        "scatter parts",
        lambda: calor.scatter_nd(t(M), t([[0]]), t(1), update="add"),
        lambda: np.stack([M[0] + 1, M[1]]),
    ),
    case("a block", lambda: calor.dynamic_slice(t(M), [0, 1], [2, 1]), lambda: M[:, 1:2]),
    case(
        "a block at a place in a tensor, moved back inside",
        lambda: calor.dynamic_slice(t(M), [0, t(7)], [1, 2]),
        lambda: M[:1, -2:],
    ),
    case(
        "a block replaced, its dtype cast",
        lambda: calor.dynamic_update_slice(t(M), t([[7, 8]]), t([1, 5])),
        lambda: np.array([M[0], [0.5, 7, 8]], np.float32),
    ),
    # Element by element.
    case(
        "round to decimals",
        lambda: calor.round(t([1.25, -3.456]), decimals=1),
        lambda: np.array([1.2, -3.5], "f4"),
    ),
    case(
        "round to tens",
        lambda: calor.round(t([15, 25, -15, 14]), decimals=-1),
        lambda: np.array([20, 20, -20, 10]),
    ),
    case(
        "round floats to tens",
        lambda: calor.round(t([15.0, 26.0]), decimals=-1),
        lambda: np.array([20, 30], "f4"),
    ),
    case("nan_to_num", lambda: calor.nan_to_num(t(N)), lambda: np.nan_to_num(N)),
    case(
        "nan_to_num given",
        lambda: calor.nan_to_num(t(N), nan=1, posinf=2, neginf=3),
        lambda: np.nan_to_num(N, True, 1, 2, 3),
    ),
    case(
        "nan_to_num complex",
        lambda: calor.nan_to_num(t([complex(np.nan, 1)])),
        lambda: np.array([1j], "c8"),
    ),
    case(
        "clip by tensors",
        lambda: calor.clip(t(M), t([0.0, 0, 0]), t(2.5)),
        lambda: np.clip(M, 0, np.float32(2.5)),
    ),
    case("clip keeps NaN", lambda: calor.clip(t(N), 0, 1), lambda: np.clip(N, 0, 1)),
    case(
        "where of numbers",
        lambda: calor.where(t(B), 1, 0.5),
        lambda: np.where(B, 1, 0.5).astype("f4"),
    ),
    case(
        "where of a number",
        lambda: calor.where(t(B), 1, t([1, 2, 3])),
        lambda: np.where(B, 1, [1, 2, 3]),
    ),
    case("where by numbers", lambda: calor.where(t([0, 2]), 1, 0), lambda: np.array([0, 1])),
    case("real of real", lambda: calor.real(t(V)), lambda: V),
    case("imag of real", lambda: calor.imag(t(M)), lambda: np.zeros_like(M)),
    case(
        "logical and of numbers",
        lambda: calor.logical_and(t([0, 2]), 3),
        lambda: np.array([False, True]),
    ),
    case("numbers alone", lambda: calor.add(1, 2), lambda: np.int64(3)),
    case("a number and an array", lambda: calor.multiply(2, V), lambda: 2 * V),
    case(
        "NumPy scalars are weak", lambda: calor.add(t(M), np.float64(1)), lambda: M + np.float32(1)
    ),
    # Creation.
    case("full", lambda: calor.full((2,), 7.5), lambda: np.full(2, 7.5, "f4")),
    case("full of a tensor", lambda: calor.full((2,), t([[3]])[0, 0]), lambda: np.array([3, 3])),
    case(
        "full of a fraction as integer",
        lambda: calor.full(2, 2.7, dtype="int8"),
        lambda: np.full(2, 2, "i1"),
    ),
    case(
        "arange down, unsigned",
        lambda: calor.arange(5, 0, -2, dtype="uint8"),
        lambda: np.arange(5, 0, -2, "u1"),
    ),
    case(
        "arange uint64",
        lambda: calor.arange(2**64 - 1, 2**64 - 4, -1, dtype="uint64"),
        lambda: np.array([2**64 - 1, 2**64 - 2, 2**64 - 3], "u8"),
    ),
    case(
        "arange of halves",
        lambda: calor.arange(0, 1, 0.25, dtype="float16"),
        lambda: np.arange(0, 1, 0.25, "f2"),
    ),
    case(
        "arange of fractions as integers",
        lambda: calor.arange(0.5, 4, dtype="int32"),
        lambda: np.arange(0.5, 4, dtype="i4"),
    ),
    case(
        "linspace complex",
        lambda: calor.linspace(0, 1j, 3),
        lambda: np.linspace(0, 1j, 3).astype("c8"),
    ),
    case("linspace of one", lambda: calor.linspace(2, 5, 1), lambda: np.array([2.0], "f4")),
    case(
        "linspace without end",
        lambda: calor.linspace(0, 4, 4, endpoint=False),
        lambda: np.arange(4.0, dtype="f4"),
    ),
    *[
        case(
            f"linspace of integers to {stop}",
            lambda stop=stop, count=count: calor.linspace(5, stop, count, dtype="int64"),
            lambda stop=stop, count=count: np.linspace(5, stop, count, dtype="i8"),
        )
        for stop, count in ((-7, 4), (2**40, 3), (5, 2), (9, 0), (9, 1))
    ],
    case("diff of none", lambda: calor.diff(t(V), n=0, prepend=t(V)), lambda: V),
    case(
        "a buffer keeps its dtype",
        lambda: calor.asarray(array.array("d", [0.1, 2.0])),
        lambda: np.array([0.1, 2.0]),
    ),
    case(
        "a view of memory keeps its dtype",
        lambda: calor.asarray(memoryview(M)),
        lambda: M,
    ),
    case(
        "linspace of integers",
        lambda: calor.linspace(0, 5, 3, dtype="int32"),
        lambda: np.linspace(0, 5, 3, dtype="i4"),
    ),
    case("eye far off", lambda: calor.eye(2, k=5), lambda: np.zeros((2, 2), "f4")),
    case("tril of a batch", lambda: calor.tril(t(A), k=-1), lambda: np.tril(A, -1)),
    case("triu of bool", lambda: calor.triu(t(M) > 0), lambda: np.triu(M > 0)),
    case(
        "meshgrid",
        lambda: calor.meshgrid(t(V), t(3), indexing="ij")[0],
        lambda: np.meshgrid(V, 3, indexing="ij")[0],
    ),
    # Comparing.
    case(
        "diff with ends",
        lambda: calor.diff(t(V), n=2, prepend=t([0]), append=t([9])),
        lambda: np.diff(V, 2, prepend=0, append=9),
    ),
    case("diff of bool", lambda: calor.diff(t(B)), lambda: np.diff(B)),
    case("diff of too few", lambda: calor.diff(t([1]), n=3), lambda: np.zeros(0, np.int64)),
    case("isclose", lambda: calor.isclose(t(N), t(N)), lambda: np.isclose(N, N)),
    case(
        "isclose with NaN",
        lambda: calor.isclose(t(N), t(N), equal_nan=True),
        lambda: np.ones(5, bool),
    ),
    case(
        "isclose of integers",
        lambda: calor.isclose(t([100000, 3]), t([100001, 4])),
        lambda: np.array([True, False]),
    ),
]


@pytest.mark.parametrize(("ours", "expected"), VALUES)
def test_value(ours: Callable[[], Any], expected: Callable[[], Any]) -> None:
    result, wanted = ours(), np.asarray(expected())
    assert isinstance(result, calor.Tensor)
    assert result.shape == wanted.shape
    assert result.dtype.numpy == wanted.dtype
    np.testing.assert_allclose(result.numpy(), wanted, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: calor.result_type(1, 2.0), calor.float32),
        (lambda: calor.result_type(calor.int8, 2**40), calor.int8),
        (lambda: calor.result_type(calor.bool, 1), calor.int64),
        (lambda: calor.result_type(calor.int8, 1.0, t(M)), calor.float32),
        (lambda: calor.can_cast(t(V), calor.float64), False),
        (lambda: calor.can_cast(calor.uint64, calor.int64), False),
        (lambda: calor.can_cast(calor.bfloat16, calor.float32), True),
        (lambda: calor.isdtype(calor.bfloat16, "real floating"), True),
        (lambda: calor.isdtype(calor.complex64, ("bool", "numeric")), True),
        (lambda: calor.finfo(calor.complex64).dtype, calor.float32),
        (lambda: calor.iinfo(t(V)).bits, 64),
        (lambda: calor.array_equal(t(V), t(V[:2])), False),
        (lambda: calor.allclose(t(M), t(M) + 1), False),
        (lambda: calor.full_like(t(V), 2).dtype, calor.int64),
        (lambda: calor.ones_like(t(V), dtype="float64").dtype, calor.float64),
        (lambda: calor.empty((2, 0)).shape, (2, 0)),
        (lambda: [calor.signbit(calor.full(1, x)).item() for x in (-0.0, 0.0, -0.0)], [1, 0, 1]),
        (lambda: calor.zeros(3, requires_grad=True).requires_grad, True),
        (lambda: calor.broadcast_shapes((2, 1), (3,), ()), (2, 3)),
        (lambda: [x.shape for x in calor.broadcast_arrays(t(M), t(V[:3]))], [(2, 3), (2, 3)]),
        (lambda: calor.broadcast_arrays(), []),
        (lambda: calor.unstack(t(V))[4].item(), 2),
    ],
)
def test_answer(made: Callable[[], Any], expected: Any) -> None:
    assert made() == expected
