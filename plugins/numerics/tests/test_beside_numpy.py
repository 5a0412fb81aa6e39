"""The functions of NumPy's names, run beside NumPy: values, under jit, and their gradients."""

import re
from typing import Any

import numpy
import pytest

import calor

np: Any = numpy
RNG = np.random.default_rng(7)

X = RNG.normal(size=(3, 4))
OPERANDS: dict[str, Any] = {
    "x": X,
    "y": RNG.normal(size=(3, 4)),
    "a": RNG.normal(size=5),
    "b": RNG.normal(size=4),
    "cube": RNG.normal(size=(2, 3, 4)),
    "n": np.where(RNG.random((3, 4)) < 0.3, np.nan, X),
    "gone": np.array([[np.nan, np.nan], [1.0, np.inf], [-np.inf, np.nan]]),
    "i": RNG.integers(-20, 20, (3, 4)),
    "k": RNG.integers(-20, 20, (4,)),
    "w": RNG.random((3, 4)) + 0.5,
    "v": RNG.random(4) + 0.5,
    "f": np.array([1, 2, 1, 3]),
    "z": RNG.normal(size=(2, 3)) + 1j * RNG.normal(size=(2, 3)),
    "up": np.array([-1.0, 0.0, 0.5, 2.0]),
    "edge": np.array([0.0, -0.0, 1e-310, -3.5, 1e300, np.inf, -np.inf, np.nan]),
    "empty": np.zeros((0, 3)),
    "places": np.array([[0, 5], [11, 7]]),
}
# Each is an expression of F, which is calor or NumPy.
VALUES = """
F.atleast_1d(F.sum(x)); F.atleast_2d(a); F.atleast_3d(x); F.atleast_3d(a)
F.hstack((x, y)); F.hstack((a, b)); F.vstack((b, x)); F.dstack((x, y)); F.dstack((a, a))
F.column_stack((b, b, F.swapaxes(x, 0, 1)))
F.array_split(a, 3)[0]; F.array_split(a, 7)[6]; F.array_split(a, (1, 3))[1]
F.array_split(a, (-2, 1))[1]; F.hsplit(x, 2)[1]; F.vsplit(x, (1,))[1]; F.dsplit(cube, 4)[3]
F.fliplr(x); F.flipud(x); F.rot90(x, 0); F.rot90(x, 1); F.rot90(x, 2); F.rot90(cube, -1, axes=(2, 0))
F.diag(b, k=-1); F.diag(x, k=1); F.diag(x, k=9); F.diagonal(cube, offset=-1, axis1=2, axis2=0)
F.tri(3, 4, k=-1); F.tril_indices(3, k=1)[0]; F.tril_indices(4, k=-1)[1]; F.triu_indices(3, k=-1)[0]
F.triu_indices(4, k=2)[1]; F.triu_indices(2, k=5)[0]
F.outer(x, b); F.inner(x, b); F.inner(cube, x); F.dot(cube, b); F.dot(x, F.permute_dims(cube, (2, 1, 0))[:, :, 0])
F.dot(cube, F.permute_dims(cube, (0, 2, 1))); F.kron(x, y); F.kron(b, x); F.kron(cube, b)
F.vander(b); F.vander(b, 6, increasing=True); F.vander(b, 1); F.logspace(-1, 2, 7); F.logspace(0, 1, 3, base=2, endpoint=False)
F.geomspace(1, 1000, 4); F.geomspace(-8, -1, 4, endpoint=False); F.indices((2, 3))
F.unravel_index(places, (3, 4))[0]; F.unravel_index(places, (3, 4))[1]
F.ravel_multi_index((f, f), (4, 5))
F.trapezoid(x); F.trapezoid(x, axis=0, dx=0.5); F.trapezoid(x, up); F.trapezoid(empty, axis=0)
F.gradient(a); F.gradient(b, up); F.gradient(x, 2.0, axis=1, edge_order=2); F.gradient(x)[0]
F.gradient(x, 2.0, up)[1]; F.gradient(b, up, edge_order=2)
F.interp(x, up, b); F.interp(x, up, b, left=-9.0, right=9.0); F.interp(n, up, b); F.interp(x, up[:1], b[:1])
F.cov(x); F.cov(b); F.cov(x, fweights=f); F.cov(x, aweights=v); F.cov(x, fweights=f, aweights=v); F.cov(z)
F.corrcoef(x); F.corrcoef(z)
F.nansum(n, axis=0); F.nanprod(n); F.nanmean(n, axis=1); F.nanmean(gone, axis=1); F.nanvar(n, axis=0)
F.nanstd(n); F.nanvar(gone[:1], axis=1); F.nanmax(n, axis=1); F.nanmin(gone, axis=1); F.nanmax(i)
F.nanargmax(n, axis=1); F.nanargmin(n); F.nanargmin(gone[1:], axis=1); F.nanmedian(n, axis=0); F.nanmedian(gone, axis=1)
F.nanquantile(n, 0.3, axis=1); F.nanquantile(n, v / 2, axis=0); F.nanpercentile(n, 70); F.nanquantile(n, 0.4, method="nearest")
F.quantile(x, 0.3, axis=0, method="lower"); F.quantile(x, 0.3, method="higher"); F.quantile(x, v / 2, axis=1, method="midpoint")
F.quantile(x, 0.5, axis=0, method="nearest"); F.quantile(x, 0.1); F.percentile(x, 20, axis=1)
F.ptp(x, axis=1); F.average(x, axis=0); F.average(x, weights=w); F.average(x, axis=1, weights=v); F.average(x, axis=0, weights=w)
F.partition(x, 2, axis=1)[..., 2]; F.take_along_axis(x, F.argpartition(x, -3, axis=1), axis=1)[..., 1]; F.lexsort(i); F.lexsort(F.stack((i % 3, i % 2)), axis=0)
F.histogram(x, 5)[0]; F.histogram(x, 5)[1]; F.histogram(x, 4, range=(-1, 1))[0]; F.histogram(x, up)[0]; F.histogram(x, up, density=True)[0]
F.histogram(x, 3, weights=w)[0]; F.histogram(i, 6)[0]; F.histogram(empty, 3)[0]; F.histogram(x * 0, 3)[1]; F.histogram_bin_edges(x, 3)
F.asarray(F.histogramdd(F.reshape(cube, (8, 3)), 2)[0], dtype='int64'); F.histogramdd(x[:, :2], (2, up), density=True)[0]; F.asarray(F.histogramdd(x, 2, range=[(-1, 1)] * 4)[0], dtype='int64')
F.digitize(x, up); F.digitize(up, up, right=True)
F.angle(z); F.angle(edge); F.isreal(z); F.iscomplex(z * 1.0); F.isreal(x); F.iscomplex(x)
F.deg2rad(x); F.rad2deg(x); F.ldexp(x, i); F.ldexp(edge, np.array([1, -1, 40, 0, -1000, 3, 3, 3])); F.frexp(edge)[0]; F.frexp(edge)[1]; F.frexp(x)[1]
F.modf(edge[:-3])[0]; F.modf(edge)[1]; F.float_power(w, x); F.fmax(n, y); F.fmin(y, n); F.fmax(i, k); F.isposinf(edge); F.isneginf(edge)
F.gcd(i, k); F.lcm(i, k); F.gcd(i, 0); F.bitwise_count(i); F.bitwise_count(np.array([-(2**63), 2**63 - 1, 0, -1])); F.bitwise_count(np.array([-128, 127, -1], "int8")); F.bitwise_count(np.array([-(2**31), -1], "int32"))
F.median(np.array([[-np.inf, 1.0], [1.0, np.inf], [-np.inf, np.inf], [np.inf, np.inf], [-1e308, 1.5e308]]), axis=1)
F.unique_all(i % 5).counts
F.convolve(a, b); F.convolve(b, a, "same"); F.convolve(a, b, "valid"); F.convolve(a, up, mode="same"); F.convolve(f, k); F.convolve(z[0], z[1])
F.correlate(a, b); F.correlate(b, a, "same"); F.correlate(a, b, mode="full"); F.correlate(z[0], z[1], "full"); F.correlate(b, up, "same")
F.unwrap(x * 5); F.unwrap(i, period=7, axis=0); F.unwrap(x * 5, discont=4.0)
F.polyval(a, x); F.polyadd(a, b); F.polysub(b, a); F.polymul(a, b); F.polyder(a); F.polyder(f, 2); F.polyint(a, 2, k=1.5); F.polyder(a, 9)
F.delete(x, 1, axis=0); F.delete(a, [0, -1]); F.delete(x, slice(0, 2), axis=1); F.delete(x, 3)
F.insert(a, 1, 9.0); F.insert(a, [0, 2, 2], b[:3]); F.insert(x, 1, b, axis=0); F.insert(x, -1, x[:, :2].T, axis=1); F.insert(x, [0, 3], x[:2], axis=0)
F.insert(x, [1, 1], 5.0, axis=1)
F.choose(f % 2, (b, up)); F.select((x > 1, x > 0), (y, x), -1.0); F.block([[x, y], [y, x]])
F.ix_(f, f)[1]; F.packbits(i > 0); F.packbits(i > 0, axis=0); F.unpackbits(F.packbits(i > 0), count=11); F.unpackbits(F.packbits(i > 0, axis=1), axis=0)
F.matvec(x, b); F.matvec(cube, b); F.vecmat(z[0], z.T); F.cbrt(x); F.cbrt(edge); F.diag_indices(3)[1]
F.apply_along_axis(F.cumulative_sum, 0, x); F.apply_along_axis(lambda r: r[:2] + r[-1], 1, cube)
""".replace("\n", "; ")  # noqa: E501
EXPRESSIONS = [part.strip() for part in VALUES.split("; ") if part.strip()]
# What can be differentiated, by the operand behind the colon.
SMOOTH = """
F.kron(x, y): x; F.kron(x, y): y; F.dot(cube, F.permute_dims(cube, (0, 2, 1))): cube; F.trapezoid(x, up): up; F.cov(x): x
F.cov(x, aweights=v): v; F.corrcoef(x): x; F.gradient(b, up, edge_order=2): b; F.gradient(b, up): up
F.interp(a, up, b): a; F.interp(a, up, b): b; F.nanmean(n, axis=1): n; F.nanstd(n): n
F.nanmax(n, axis=1): n; F.average(x, axis=1, weights=v): v; F.nanquantile(n, 0.3, axis=1): n
F.cdist(x, y): x; F.cdist(x, y, p=3.0): y; F.cdist(x, y, p=0.5): x; F.cdist(x, y, p=calor.inf): x
F.pdist(x): x; F.pdist(x, p=1): x; F.cumulative_logsumexp(x, axis=1): x; F.kthvalue(x, 2).values: x
F.mode(x, axis=0).values: x; F.masked_scatter(x, m, y): x; F.masked_scatter(x, m, y): y; F.vander(b, 4): b
F.diag_embed(x, offset=1): x; F.diagonal_scatter(x, b[:3]): x; F.diagonal_scatter(x, b[:3]): b
F.put(x, places, y[:2, :2], update="add"): y; F.polar(w, x): w; F.polar(w, x): x; F.angle(F.complex(x, y)): y
F.fmax(n, y): y; F.ldexp(x, i): x; F.frexp(x).fractions: x; F.nanprod(n, axis=0): n
F.convolve(a, b, "same"): a; F.convolve(a, b): b; F.polyval(a, x): a; F.polyval(a, x): x; F.cbrt(x): x
F.unwrap(x * 5): x; F.select((x > 1, x > 0), (y, x), -1.0): x; F.insert(x, [0, 3], x[:2], axis=0): x; F.fill_diagonal(x, b[:3]): b
F.choose(f % 2, (b, up)): up; F.apply_along_axis(lambda r: r[:2] + r[-1], 1, cube): cube
F.index_update(x, r, y, update="mean"): x; F.index_update(x, r, y, update="mean", include_self=False): y
F.index_update(x, r, y, update="mul", include_self=False): y; F.index_update(x, r, y, update="mul"): x
F.index_update(x, r, y, update="max", include_self=False): y
F.scatter_along_axis(x[:2], q, y[:2, :2], axis=1, update="mean"): x
""".replace("\n", "; ")  # noqa: E501
EXTRA = {"m": X > 0, "r": np.array([0, 2, 0]), "q": np.array([[0, 2], [1, 1]])}
NOT_TRACED = re.compile(r"unique|ix_|histogram\([^)]*up|triu_|tril_")


def run(expression: str, names: dict[str, Any], library: Any) -> Any:
    return eval(expression, {"F": library, "np": np, "calor": calor, **names})


def tensors(names: dict[str, Any], expression: str) -> dict[str, Any]:
    used = re.findall(r"\b\w+\b", expression)
    return {k: calor.asarray(v) for k, v in names.items() if k in used}


pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def same(found: Any, wanted: Any) -> None:
    found, wanted = np.asarray(found.numpy()), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert found.dtype.kind == wanted.dtype.kind
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_function_gives_what_numpy_gives(expression: str) -> None:
    wanted = run(expression, OPERANDS, np)
    given = tensors(OPERANDS, expression)
    same(run(expression, given, calor), wanted)
    if given and not NOT_TRACED.search(expression):
        jitted = calor.jit(lambda names: run(expression, names, calor))
        same(jitted(given), wanted)


@pytest.mark.parametrize("line", [p.strip() for p in SMOOTH.split("; ") if p.strip()])
def test_a_gradient_is_that_of_differences(line: str) -> None:
    expression, _, name = line.rpartition(": ")
    names = tensors({**OPERANDS, **EXTRA}, expression)

    def loss(operand: Any) -> Any:
        made = run(expression, {**names, name: operand}, calor)
        made = calor.abs(made) + calor.real(made) if made.dtype.is_complex else made
        weights = calor.cos(calor.arange(made.size, dtype="float64") + 1)
        return calor.sum(calor.nan_to_num(made.reshape(-1)) * weights)

    operand = {**OPERANDS, **EXTRA}[name]
    found = calor.grad(loss)(names[name]).numpy()
    assert (found[np.isnan(operand)] == 0).all()
    # Along two directions, so that every element takes part.
    for seed in range(2):
        way = np.random.default_rng(seed).choice([-1.0, 0.5, 1.0], operand.shape)
        more, less = (loss(calor.asarray(operand + sign * 1e-6 * way)) for sign in (1, -1))
        slope = (more - less).item() / 2e-6
        assert (found * way).sum() == pytest.approx(slope, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("axis", [(2, 0), (0, 2), (-1, -3), (1, 2, 0), 1, (2,)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 2, 3)])
def test_weights_have_the_axes_in_the_order_of_their_names(
    axis: int | tuple[int, ...], shape: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    named = axis if isinstance(axis, tuple) else (axis,)
    weights = np.random.default_rng(1).uniform(1, 2, [shape[a] for a in named])
    given = {"axis": axis, "weights": calor.asarray(weights)}
    found = calor.average(calor.asarray(x), **given)
    assert found.numpy() == pytest.approx(np.average(x, axis=axis, weights=weights))


def test_half_types_are_computed_in_float32() -> None:
    line = calor.full((3000,), 0.25, dtype="bfloat16")
    assert calor.nanmean(line).item() == 0.25
    assert calor.average(line, weights=line).item() == 0.25
    zero = calor.zeros(1, dtype="bfloat16")
    places = calor.zeros(3000, dtype="int64")
    mean = calor.scatter_along_axis(zero, places, line, update="mean", include_self=False)
    assert mean.item() == 0.25
    assert mean.dtype is calor.bfloat16


def test_names_that_numpy_does_not_have() -> None:
    x = calor.asarray([[3, 1, 3, 2], [2, 2, 9, 9]])
    assert calor.mode(x, axis=1).values.tolist() == [3, 2]
    assert calor.mode(x, axis=1).indices.tolist() == [2, 1]
    assert calor.mode(calor.asarray(5)).values.item() == 5
    assert calor.kthvalue(x, 3, axis=1, keepdims=True).values.tolist() == [[3], [9]]
    assert calor.argmedian(x, axis=1).tolist() == [3, 1]
    missing = calor.asarray([2.0, calor.nan, 1.0, 5.0])
    assert calor.argmedian(missing).item() == 1
    assert calor.nanargmedian(missing).item() == 0
    assert calor.cumulative_argmax(missing).tolist() == [0, 1, 1, 1]
    assert calor.cumulative_argmin(x, axis=1).tolist() == [[0, 1, 1, 1], [0, 1, 1, 1]]
    found = calor.unique_all(calor.asarray([[1, 2, 3], [0, 9, 9], [1, 2, 3]]), axis=0)
    assert found.values.tolist() == [[0, 9, 9], [1, 2, 3]]
    assert found.inverse_indices.tolist() == [1, 0, 1]
    assert found.counts.tolist() == [1, 2]
    assert found.indices.tolist() == [1, 0]
    runs = calor.unique_consecutive(calor.asarray([[1, 1], [1, 1], [2, 0]]), axis=0)
    assert runs.values.tolist() == [[1, 1], [2, 0]]
    assert runs.inverse_indices.tolist() == [0, 0, 1]
    assert calor.unique_consecutive(calor.zeros(0)).counts.tolist() == []


def test_a_search_in_several_sequences() -> None:
    lines, wanted = np.sort(RNG.normal(size=(3, 6))), RNG.normal(size=(3, 2))
    for side in ("left", "right"):
        found = calor.searchsorted(calor.asarray(lines), calor.asarray(wanted), side=side)
        assert found.tolist() == [
            np.searchsorted(a, b, side=side).tolist() for a, b in zip(lines, wanted, strict=True)
        ]


def test_a_number_of_indices_can_be_traced() -> None:
    x = calor.asarray([[0, 7], [8, 0]])
    jitted = calor.jit(lambda t: calor.nonzero(t, size=3, fill_value=-1))
    assert [t.tolist() for t in jitted(x)] == [[0, 1, -1], [1, 0, -1]]
    assert calor.argwhere(x, size=1).tolist() == [[0, 1]]
    assert calor.argwhere(calor.zeros((0, 2)), size=1, fill_value=5).tolist() == [[5, 5]]


@pytest.mark.parametrize("update", ["add", "mul", "max", "min", "mean"])
def test_values_alone_are_combined(update: str) -> None:
    x, places, values = np.full(3, 100), np.array([0, 0, 2]), np.array([3, 4, -5])
    how = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min, "mean": np.mean}[update]
    found = calor.scatter_along_axis(
        calor.asarray(x),
        places,
        values,
        update=update,
        include_self=False,  # type: ignore[arg-type]
    )
    assert found.tolist() == [int(np.floor(how(values[:2]))), 100, -5]
    same(
        calor.index_update(calor.asarray(x), places, values, update=update),  # type: ignore[arg-type]
        [int(np.floor(how([100, 3, 4]))), 100, int(np.floor(how([100, -5])))],
    )


WRONG = [
    ("calor.array_split(x, 0)", "give at least 1"),
    ("calor.hsplit(x, 3)", "array_split makes uneven ones"),
    ("calor.diagonal(x, axis1=0, axis2=-2)", "the same axis"),
    ("calor.kthvalue(x, 5)", "k is 5; axis -1 of shape"),
    ("calor.mode(x[:0], axis=0)", "is empty along axis 0"),
    ("calor.quantile(x, 0.5, method='best')", "none of linear, lower"),
    ("calor.histogram(x, 0)", "give at least 1"),
    ("calor.histogram(x, range=(2, 1))", "not ascending and finite"),
    ("calor.histogram(x, weights=x[0])", "weights have shape"),
    ("calor.cdist(x, x[:, :2])", "other coordinates"),
    ("calor.cdist(x, x * 1j)", "real and imaginary parts as coordinates"),
    ("calor.pdist(x * 1j)", "real and imaginary parts as coordinates"),
    ("calor.gcd(x, 2)", "gcd needs integers, not float64"),
    ("calor.geomspace(-1, 1)", "of one sign, not 0"),
    ("calor.masked_scatter(x, x > 0, calor.zeros(12))", "values are float32, x is float64"),
    ("calor.masked_scatter(x, x == x, x[0]).numpy()", "out of range"),
    ("calor.scatter_along_axis(x[:2] > 0, q, True, update='mean')", "bool has no 'mean'"),
    ("calor.cumulative_argmax(x)", "name one"),
    ("calor.index_update(x, q, x)", "are no vector"),
    ("calor.gradient(x[:, :1], axis=1)", "needs 2"),
    ("calor.gradient(x, 1.0, 2.0, 3.0)", "3 spacings for 2 axes"),
    ("calor.rot90(x, axes=(0, -2))", "the same axis"),
    ("calor.nonzero(x, size=-1)", "give at least 0"),
    ("calor.searchsorted(x, x[0])", "x1 must have one axis, or"),
    ("calor.kthvalue(x, 1, dim=1)", "axis"),
    ("calor.delete(x, 4, axis=1)", "index 4 is out of range for 4 elements"),
    ("calor.convolve(x, x)", "give two vectors"),
    ("calor.convolve(x[0], x[0], 'some')", "none of full, same, valid"),
    ("calor.block([x, [x]])", "of different depths"),
    ("calor.select((), ())", "0 conditions and 0 choices"),
    ("calor.unpackbits(x)", "needs uint8"),
    ("calor.fill_diagonal(x[0], 1)", "give a matrix"),
]


@pytest.mark.parametrize(("call", "told"), WRONG, ids=[call for call, _ in WRONG])
def test_an_error_says_what_to_do(call: str, told: str) -> None:
    names = tensors({**OPERANDS, **EXTRA}, call)
    with pytest.raises((calor_error(), TypeError), match=told):
        eval(call, {"calor": calor, **names})


def calor_error() -> type[Exception]:
    from calor.errors import CalorError

    return CalorError


@pytest.mark.parametrize("name", ["percentile", "nanpercentile"])
def test_levels_of_percentiles_may_be_a_list(name: str) -> None:
    x = numpy.asarray([[1.0, 4.0, 2.0], [5.0, 3.0, 9.0]], numpy.float32)
    for q in ([25, 50.0], (75,)):
        made = getattr(calor, name)(calor.asarray(x), q, axis=1)
        numpy.testing.assert_allclose(made.numpy(), getattr(numpy, name)(x, q, axis=1))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize(
    "name",
    ["dot", "fmax", "fmin", "inner", "kron", "outer", "polyadd", "polymul", "polysub", "polyval"],
)
def test_numbers_beside_tensors_do_not_widen(name: str, dtype: str) -> None:
    function = getattr(calor, name)
    x = calor.asarray([1.0, 2.0], dtype=dtype)
    for number in (2.0, 2, numpy.float64(2)):
        for operands in ((x, number), (number, x)):
            assert function(*operands).dtype is x.dtype
            wanted = function(*[calor.asarray(o, dtype=dtype) for o in operands])
            assert function(*operands).tolist() == wanted.tolist()
    assert calor.interp(1.5, x, x).dtype is x.dtype
    assert calor.interp(300, calor.asarray([0, 9], dtype="int8"), x).item() == 2.0
    assert calor.ldexp(x, 2.0).dtype is x.dtype
    assert calor.ldexp(x, 3).tolist() == [8.0, 16.0]
