"""Ops whose row and function are one declaration: numbers from mpmath, edges, dtypes, methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.rows import elementwise
from calor.ops import rules
from calor.ops.base import TABLE, Op
from calor.reference import elementwise as e
from calor.reference import error_functions as r

INF, NAN = math.inf, math.nan
DECLARED = {name: row for name, row in TABLE.items() if row.checks}
# Pairs (x, value), computed in 60 digits and rounded to float64.
ERFC = [
    (1e-300, 1.0),
    (-1e-05, 1.0000112837916706),
    (0.4999, 0.4795880048386134),
    (0.5, 0.4795001221869535),
    (0.5001, 0.4794122483231193),
    (5.9, 7.190409783550478e-17),
    (26.0, 5.663192408856143e-296),
    (26.5, 2.2109076642637343e-307),
    (-5.8, 1.9999999999999998),
    (0.750573, 0.28847612515846616),
    (2.38328, 0.0007504092078438607),
    (1.65411, 0.019321733476410412),
    (-1.64876, 1.9802834555339672),
    (-1.199, 1.910046312901886),
    (2.24132, 0.001525937000673086),
    (-2.96841, 1.9999730676566483),
    (1.92737, 0.006416280248250096),
    (1.78242, 0.011711415793059362),
    (-0.19239, 1.2144399134500674),
    (9.96975, 3.832529500292732e-45),
    (9.40379, 2.346871778388609e-40),
    (8.862, 4.9412267745085246e-36),
    (13.2368, 3.423158446542278e-78),
    (14.6046, 8.98189232862869e-95),
    (15.7304, 1.2291468953014577e-109),
    (25.8965, 1.2232399623833691e-293),
    (21.2312, 4.567893067371238e-198),
]
ERFCX = [
    (1e-300, 1.0),
    (1e-09, 0.9999999988716208),
    (0.03, 0.9670287119698767),
    (1.0, 0.427583576155807),
    (3.0, 0.17900115118138996),
    (50.0, 0.011281536265323773),
    (100000000.0, 5.641895835477562e-09),
    (1e200, 5.641895835477563e-201),
    (1e308, 5.64189583547756e-309),
    (-26.6, 3.894337719605585e307),
    (-1e-09, 1.0000000011283792),
    (6.22179, 0.0895510681417802),
    (9.8896, 0.05676149144268147),
    (2.15309, 0.23997328864945686),
    (1.60212, 0.3056367145091983),
    (6.1254, 0.09092522739813293),
    (0.43942, 0.6481188943828208),
    (0.356803, 0.6971826072280474),
    (5.14889, 0.10761555465127279),
    (4.66206, 0.11840627674078273),
    (9.17168, 0.06115501010817687),
    (-9.64012, 4.579807997014526e40),
    (-12.6329, 4.0752747754212245e69),
    (-13.0813, 4.146480860179408e74),
    (-19.5646, 3.447312367551351e166),
    (-25.6934, 1.002031111186374e287),
    (-20.9975, 6.015868143055579e191),
]
NDTR = [
    (1e-300, 0.5),
    (0.7, 0.758036347776927),
    (-0.7001, 0.24193242792265165),
    (-37.5, 4.605353009581955e-308),
    (-38.0, 2.88542835e-316),
    (8.2, 0.9999999999999999),
    (1.15219, 0.8753784969857009),
    (-1.79636, 0.036218640563126826),
    (-0.782782, 0.21687756973960093),
    (-2.97759, 0.0014526216686205414),
    (1.98029, 0.9761645240925583),
    (-2.07323, 0.019075439845520844),
    (-1.3944, 0.08159842405681608),
    (2.28199, 0.9887550346726827),
    (0.0587449, 0.5234223519810663),
    (-8.19689, 1.2334299449386317e-16),
    (-15.2496, 8.282237602900901e-53),
    (-11.7798, 2.4805322835877575e-32),
    (-33.8891, 4.821057160960031e-252),
    (-18.6011, 1.573909621571943e-77),
    (-19.7357, 5.323106170286761e-87),
    (-7.37446, 8.250625567591978e-14),
    (-24.717, 3.510937343327908e-135),
]
LOG_NDTR = [
    (1e-300, -0.6931471805599453),
    (-1.0, -1.8410216450092636),
    (-1.0001, -1.8411741625414106),
    (0.9, -0.2034146097557469),
    (30.0, -4.906713927148187e-198),
    (38.0, -2.88542835e-316),
    (-100000.0, -5000000012.431864),
    (-1e150, -4.9999999999999995e299),
    (0.589104, -0.3255857670528406),
    (-2.64449, -5.499037657445666),
    (-0.674209, -1.385937527666332),
    (-1.06178, -1.9367774794331454),
    (-2.0988, -4.021990370540605),
    (1.89803, -0.029270290923469992),
    (-0.723323, -1.4492736388751954),
    (2.87249, -0.0020383308240191373),
    (0.53995, -0.3490125996045048),
    (-25.5118, -329.5855798337567),
    (-23.6342, -283.3711204945626),
    (-21.4423, -233.87258207327827),
    (-51.4051, -1326.1012070019385),
    (-34.9021, -613.5505969720892),
    (-46.3449, -1078.6803928330382),
]
LOGIT = [
    (1e-300, -690.7755278982137),
    (0.5000001, 3.99999999789463e-07),
    (0.25, -1.0986122886681098),
    (0.75, 1.0986122886681098),
    (0.9999999999999999, 36.7368005696771),
    (0.4999, -0.0004000000053332894),
    (0.402498, -0.3950675031782248),
    (0.0967041, -2.2343943844994936),
    (0.967828, 3.403957876496323),
    (0.215004, -1.2950219896222637),
    (0.671765, 0.7161787617206689),
    (0.30042, -0.8452986594014638),
    (0.874077, 1.9374978634255342),
    (0.662215, 0.6731806782090236),
    (0.131616, -1.8867454210973031),
    (0.845074, 1.696476613923793),
    (0.944948, 2.8428517064074197),
    (0.903917, 2.24152514075342),
]
SINC = [
    (1e-300, 1.0),
    (1e-09, 1.0),
    (0.25, 0.9003163161571061),
    (1.0000001, -9.999999005838606e-08),
    (12345.678, -2.1855767447993962e-05),
    (1000000000000000.5, 3.183098861837905e-16),
    (1.11551, -0.10129130991807035),
    (-5.67264, -0.04806041270411639),
    (-4.92058, 0.01597343003147247),
    (6.84649, 0.02156261794277187),
    (0.837224, 0.18605979065186493),
    (-5.11116, -0.021309122026785417),
    (6.14491, 0.022775949364000823),
    (2.26515, 0.10398111179975005),
    (1.11511, -0.10099221549011696),
    (-1.97939, -0.010405024960153669),
    (-1.42472, -0.21720020372361443),
    (-4.16817, 0.03849533202908012),
]


@pytest.mark.parametrize(
    ("function", "rows", "bound"),
    [
        (r.erfc, ERFC, 4), (r.erfcx, ERFCX, 4), (r.ndtr, NDTR, 4), (r.log_ndtr, LOG_NDTR, 4),
        (e.logit, LOGIT, 2), (e.sinc, SINC, 3),
    ],
)  # fmt: skip
def test_reference_in_float64(
    function: Callable[[Any], Any], rows: list[tuple[float, float]], bound: float
) -> None:
    x, exact = np.array(rows).T
    assert (np.abs(function(x) - exact) / np.spacing(np.abs(exact))).max() <= bound
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        narrow = x[(np.abs(x) < 1e4) & (np.abs(x) > 1e-4)].astype(dtype)
        made = function(narrow)
        assert made.dtype == dtype
        wide = function(narrow.astype(np.float64))
        inside = np.abs(wide) < float(ml_dtypes.finfo(dtype).max)
        spacing = np.spacing(np.abs(wide[inside]).astype(np.float32)).astype(np.float64)
        unit = spacing * 2.0 ** (23 - ml_dtypes.finfo(dtype).nmant)
        tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
        off = np.abs(made[inside].astype(np.float64) - wide[inside])
        assert (off / np.maximum(unit, tiny)).max() <= 4


# Function, operands, result, and gradients of its sum where they are known at the edge.
EDGES: list[tuple[str, list[Any], list[float], list[list[float] | None]]] = [
    ("erfc", [[0.0, INF, -INF, NAN]], [1, 0, 2, NAN], [[-2 / math.sqrt(math.pi), 0, 0, NAN]]),
    ("erfcx", [[0.0, INF, -INF, NAN, 1e300]], [1, 0, INF, NAN, 5.641895835477563e-301],
     [[-2 / math.sqrt(math.pi), 0, -INF, NAN, 0]]),
    # Where 2 x erfcx(x) and 2/√π agree in all digits.
    ("erfcx", [[20.0, 8.5]], [0.02817434874105132, 0.06592512249998035],
     [[-0.0014052174534598012, -0.007652084595846594]]),
    ("ndtr", [[0.0, INF, -INF, NAN]], [0.5, 1, 0, NAN],
     [[1 / math.sqrt(2 * math.pi), 0, 0, NAN]]),
    ("log_ndtr", [[INF, -INF, NAN, -1e4]], [0, -INF, NAN, -50000010.12927892],
     [[0, INF, NAN, 10000.00009999]]),
    ("logit", [[0.0, 0.5, 1.0, -0.1, NAN]], [-INF, 0, INF, NAN, NAN], [None]),
    ("sinc", [[0.0, -0.0, 2.0, 1e300, INF, NAN, 5e-324]], [1, 1, 0, 0, NAN, NAN, 1], [None]),
    ("sinc", [[0.0, 1e-9, 1.0, 2.0]], [1, 1, 0, 0], [[0, -math.pi**2 / 3 * 1e-9, -1, 0.5]]),
    ("rsqrt", [[0.0, -0.0, INF, -1.0, 5e-324]], [INF, -INF, 0, NAN, 4.49891379454319e161],
     [None]),
    ("xlogy", [[0.0, 0.0, 0.0, 2.0, 0.0], [0.0, INF, NAN, 0.0, -1.0]], [0, 0, NAN, -INF, 0],
     [None, None]),
    ("xlogy", [[0.0, 0.0, 2.0], [0.0, 4.0, 4.0]], [0, 0, 2 * math.log(4)],
     [[0, math.log(4), math.log(4)], [0, 0, 0.5]]),
    ("xlog1py", [[0.0, 0.0, 2.0], [-1.0, 1.0, 1.0]], [0, 0, 2 * math.log(2)],
     [[0, math.log(2), math.log(2)], [0, 0, 1]]),
    ("logaddexp2", [[-INF, INF, INF, 1e300], [-INF, -INF, INF, -1e300]], [-INF, INF, INF, 1e300],
     [[0.5, 1, 0.5, 1], [0.5, 0, 0.5, 0]]),
    ("fmod", [[7.0, -7.0, -0.0, 1.0, INF, 1e308], [4.0, 4.0, 1.0, INF, 1.0, 3.0]],
     [3, -3, -0.0, 1, NAN, 2.0], [None, None]),
    ("fmod", [[7.5, -7.5], [2.0, 2.0]], [1.5, -1.5], [[1, 1], [-3, 3]]),
    ("heaviside", [[-1.0, 0.0, -0.0, 2.0, NAN], [0.5] * 5], [0, 0.5, 0.5, 1, NAN],
     [[0] * 5, [0, 1, 1, 0, 0]]),
    ("lerp", [[1.0, -1.7e308, 3.0], [5.0, 1.7e308, 3.0], [0.25, 0.5, 0.3]], [2, 0, 3],
     [[0.75, 0.5, 0.7], [0.25, 0.5, 0.3], None]),
    ("hypot", [[0.0, 3.0], [0.0, 4.0]], [0, 5], [[0, 0.6], [0, 0.8]]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "operands", "wanted", "gradients"),
    EDGES,
    ids=[f"{n}-{i}" for i, (n, *_) in enumerate(EDGES)],
)
@pytest.mark.parametrize("decomposed", [False, True])
def test_edges(
    name: str,
    operands: list[list[float]],
    wanted: list[float],
    gradients: list[list[float] | None],
    decomposed: bool,
) -> None:
    function: Any = TABLE[name].decompose if decomposed else getattr(calor, name)
    if function is None:
        return
    given = [calor.asarray(x, dtype="float64") for x in operands]
    np.testing.assert_allclose(function(*given).numpy(), wanted, rtol=1e-14)
    if decomposed:
        return
    _, pull = calor.vjp(getattr(calor, name), *given)
    found = pull(calor.ones(len(wanted), dtype="float64"))
    for got, want in zip(found, gradients, strict=True):
        if want is not None:
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_zeros_keep_their_sign() -> None:
    made = calor.fmod(calor.asarray([-0.0, -6.0, 6.0]), 3.0)
    assert np.signbit(made.numpy()).tolist() == [True, True, False]
    assert not np.signbit(calor.heaviside(calor.asarray([-2.0]), 0.5).numpy()).any()


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_integer_fmod_is_total(dtype: str) -> None:
    low = np.iinfo(dtype).min
    a = calor.asarray([7, 9, low, low], dtype=dtype)
    b = calor.asarray([4, 0, -1 if low else 1, 3], dtype=dtype)
    expected = [3, 0, 0, math.fmod(low, 3)]
    assert calor.fmod(a, b).tolist() == expected
    defined: Any = TABLE["fmod"].decompose
    assert defined(a, b).tolist() == expected


# These take complex operands by their definition.
COMPLEX = ("lerp", "rsqrt", "sinc")


@pytest.mark.parametrize("name", DECLARED)
def test_operands_broadcast_and_promote(name: str) -> None:
    count = len(DECLARED[name].checks[0].domains)
    function = getattr(calor, name)
    columns = [calor.full((3, 1), 0.5), calor.full((1, 4), 0.25), calor.full((4,), 0.75)][:count]
    made = function(*columns)
    assert made.shape == ((3, 1), (3, 4), (3, 4))[count - 1]
    assert made.dtype is calor.float32
    ones = [calor.asarray([1, 2]) for _ in range(count)]
    assert function(*ones).dtype is (calor.int64 if name == "fmod" else calor.float32)
    halves = [calor.full(2, 0.5, dtype="float16")] * count
    assert function(*halves).dtype is calor.float16
    if count > 1:
        # Numbers take the type of the tensors, in every place.
        for place in range(count):
            mixed = [*halves[:place], 0.5, *halves[place + 1 :]]
            assert function(*mixed).dtype is calor.float16
            np.testing.assert_array_equal(function(*mixed).numpy(), function(*halves).numpy())
        with pytest.raises(ShapeError, match=f"{name}: shapes .* cannot be broadcast"):
            function(*[calor.ones(3), calor.ones(2), calor.ones(2)][:count])
    assert function(*[0.5] * count).shape == ()
    if name in COMPLEX:
        assert function(*[calor.asarray([1j])] * count).dtype is calor.complex64
    else:
        with pytest.raises(DTypeError, match=f"real.*operands, not complex.* in op '{name}'"):
            function(*[calor.asarray([1j])] * count)
    with pytest.raises(DTypeError, match=r"an operand is a list|is \[1\.0\]; pass Tensor"):
        function(*[[1.0]] * count)


@pytest.mark.parametrize("name", DECLARED)
def test_declared_ops_are_exported(name: str) -> None:
    assert name in calor.__all__
    assert getattr(calor, name).__name__ == name


def test_calls_are_recorded_whole() -> None:
    graph = calor.trace(lambda x, y: calor.lerp(x, y, x), calor.ones(3), calor.ones(3))
    assert [node.op.name for node in graph.nodes] == ["lerp"]


@pytest.fixture
def no_new_rows() -> Any:
    before = dict(TABLE)
    yield
    for name in set(TABLE) - set(before):
        del TABLE[name]


@pytest.mark.usefixtures("no_new_rows")
def test_names_and_parameters() -> None:
    def declared(function: Callable[..., Any]) -> Any:
        same = {"reference": np.positive, "checks": ()}
        return elementwise(rules.floats, lambda *x: x[0], **same)(function)  # type: ignore[arg-type]

    def erf(x: Any, /) -> Any: ...
    def of_four(a: Any, b: Any, c: Any, d: Any, /) -> Any: ...
    def own(x: Any, /) -> Any:
        """Return x."""

    with pytest.raises(ArgumentError, match="op 'erf' is already in the table"):
        declared(erf)
    with pytest.raises(AssertionError, match="of_four has 4 parameters"):
        declared(of_four)
    made = declared(own)
    assert made.__doc__ == "Return x."
    assert made(calor.asarray([2.0])).tolist() == [2.0]
    assert isinstance(TABLE["own"], Op)


@pytest.mark.parametrize(("name", "slope"), [("xlogy", 0.5), ("xlog1py", 1 / 3)])
def test_a_product_with_a_logarithm_has_both_mixed_derivatives_at_0(
    name: str, slope: float
) -> None:
    x, y = (calor.asarray(v, dtype="float64") for v in (0.0, 2.0))
    for first, second in ((0, 1), (1, 0)):
        mixed = calor.grad(calor.grad(getattr(calor, name), argnums=first), argnums=second)
        assert mixed(x, y).item() == pytest.approx(slope)
