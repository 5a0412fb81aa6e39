"""Every operation on numbers against an oracle of Python integers and fractions, or NumPy's own."""

import math
import operator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from calor.dtypes import as_dtype
from calor_kernel import language as kl
from calor_kernel.language.builder import current

from .run import map_on_lanes, same

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def host(name):
    return as_dtype(name).numpy


def integers(name, count=64, seed=0):
    """Return the edges of a type and random numbers."""
    limits = np.iinfo(name)
    edges = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, limits.max // 3]
    edges += [-1, -2] if limits.min else [3, 5]
    generator = np.random.default_rng(seed)
    some = generator.integers(limits.min, limits.max, count - len(edges), name, endpoint=True)
    made = np.concatenate([np.array(edges, name), some])
    generator.shuffle(made)
    return made


def floats(name, count=64, seed=0):
    generator = np.random.default_rng(seed)
    edges = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.5, -2.5, 3.5, 1e-6, 3e4]
    made = np.array([*edges, *generator.normal(0, 10, count - len(edges))]).astype(host(name))
    generator.shuffle(made)
    return made


def wrapped(value, name):
    bits = np.iinfo(name).bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if name.startswith("int") and value >> (bits - 1) else value


def toward_zero(a, b):
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def bits_of(a, name):
    return format(a & ((1 << np.iinfo(name).bits) - 1), f"0{np.iinfo(name).bits}b")


BINARY_INTEGERS = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "and": (operator.and_, operator.and_),
    "or": (operator.or_, operator.or_),
    "xor": (operator.xor, operator.xor),
    "quotient": (kl.quotient, toward_zero),
    "modulo": (kl.modulo, lambda a, b: a - toward_zero(a, b) * b),
    "floor divide": (operator.floordiv, operator.floordiv),
    "floor modulo": (operator.mod, operator.mod),
}
DIVISIONS = ("quotient", "modulo", "floor divide", "floor modulo")


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("op", BINARY_INTEGERS)
def test_binary_integers(op, name):
    function, plain = BINARY_INTEGERS[op]
    a, b = integers(name, seed=1), integers(name, seed=2)
    if op in DIVISIONS:
        overflow = (a == np.iinfo(name).min) & (b.astype(np.int64) == -1)
        b[(b == 0) | overflow] = 3
    expected = [wrapped(plain(int(x), int(y)), name) for x, y in zip(a, b, strict=True)]
    assert map_on_lanes(function, a, b, result=name).tolist() == expected
    assert map_on_lanes(function, a, b, result=name, width=4).tolist() == expected


@pytest.mark.parametrize("name", INTEGERS)
def test_upper_half_of_products(name):
    a, b = integers(name, seed=3), integers(name, seed=4)
    bits = np.iinfo(name).bits
    expected = [wrapped((int(x) * int(y)) >> bits, name) for x, y in zip(a, b, strict=True)]
    assert map_on_lanes(kl.mulhi, a, b, result=name).tolist() == expected


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts(name):
    a = integers(name)
    by = np.random.default_rng(5).integers(0, np.iinfo(name).bits, len(a)).astype(name)
    left = [wrapped(int(x) << int(n), name) for x, n in zip(a, by, strict=True)]
    right = [int(x) >> int(n) for x, n in zip(a, by, strict=True)]
    assert map_on_lanes(operator.lshift, a, by, result=name).tolist() == left
    assert map_on_lanes(operator.rshift, a, by, result=name).tolist() == right


UNARY_INTEGERS = {
    "neg": (operator.neg, lambda x, name: wrapped(-x, name)),
    "not": (operator.invert, lambda x, name: wrapped(~x, name)),
    "abs": (abs, lambda x, name: wrapped(abs(x), name)),
    "popcount": (kl.popcount, lambda x, name: bits_of(x, name).count("1")),
    "clz": (kl.clz, lambda x, name: len(bits_of(x, name)) - len(bits_of(x, name).lstrip("0"))),
    "ctz": (kl.ctz, lambda x, name: len(bits_of(x, name)) - len(bits_of(x, name).rstrip("0"))),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("op", UNARY_INTEGERS)
def test_unary_integers(op, name):
    function, plain = UNARY_INTEGERS[op]
    a = integers(name)
    expected = [plain(int(x), name) for x in a]
    assert map_on_lanes(function, a, result=name).tolist() == expected


COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("function", COMPARISONS)
def test_comparisons(function, name):
    made = floats if name in FLOATS else integers
    a, b = made(name, seed=1), made(name, seed=2)
    b[::3] = a[::3]
    expected = [function(x.item(), y.item()) for x, y in zip(a, b, strict=True)]
    assert map_on_lanes(function, a, b, result=bool).tolist() == expected


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(
    "function", [operator.add, operator.sub, operator.mul, operator.truediv, kl.copysign]
)
def test_binary_floats(function, name):
    a, b = floats(name, seed=1), floats(name, seed=2)
    plain = np.copysign if function is kl.copysign else function
    with np.errstate(all="ignore"):
        # Of two halves the result in float64 is exact, or rounds to the same half.
        wide = np.float64 if name != "float64" else np.longdouble
        expected = plain(a.astype(wide), b.astype(wide)).astype(host(name))
        if name == "float64":
            expected = plain(a, b)
    assert same(map_on_lanes(function, a, b, result=host(name)), expected)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("function", ["floor", "ceil", "trunc", "rint", "sqrt"])
def test_unary_floats(function, name):
    a = floats(name)
    with np.errstate(all="ignore"):
        expected = getattr(np, function)(a.astype(np.float64)).astype(host(name))
    assert same(map_on_lanes(getattr(kl, function), a, result=host(name)), expected)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(("op", "plain"), [("min", min), ("max", max)])
def test_extremes_of_floats(op, plain, name):
    values = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    pairs = [(a, b) for a in values for b in values]

    def expected(a, b):
        if math.isnan(a) or math.isnan(b):
            return math.nan
        return plain((a, b), key=lambda v: (v, math.copysign(1, v)))

    a, b = (np.array(side).astype(host(name)) for side in zip(*pairs, strict=True))
    wanted = np.array([expected(*p) for p in pairs]).astype(host(name))
    made = map_on_lanes(lambda x, y: current().binary(op, x, y), a, b, result=host(name))
    assert same(made, wanted)
    # Reductions know the same order.
    many = np.array([-0.0, 0.0, 5.0, -0.0] * 2).astype(host(name))
    made = map_on_lanes(lambda x: kl.splat(kl.vreduce(op, x), 4), many, result=host(name), width=4)
    assert same(made, np.full(8, -0.0 if op == "min" else 5.0).astype(host(name)))


def exact_fma(a, b, c, round_to):
    if not all(map(math.isfinite, (a, b, c))):
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return a * b + c if 0.0 in (a, b) else 0.0
    return round_to(total)


def nearest(total, name):
    """Return a fraction rounded to a floating type by looking at its neighbours."""
    try:
        wide = float(total)
    except OverflowError:
        return math.copysign(math.inf, total)
    if name == "float64":
        return wide
    with np.errstate(over="ignore"):
        near = np.asarray(wide).astype(host(name))
    if not np.isfinite(near):
        return float(near)
    around = [float(np.nextafter(near, near.dtype.type(s * math.inf))) for s in (-1, 1)]
    candidates = [float(near), *filter(math.isfinite, around)]
    bits = {
        x: int(np.asarray(x).astype(host(name)).view(f"u{near.dtype.itemsize}")) & 1
        for x in candidates
    }
    return min(candidates, key=lambda x: (abs(Fraction(x) - total), bits[x]))


def fma_inputs(name, count=300):
    generator = np.random.default_rng(6)
    kind = host(name)
    spread = {"float16": 8, "bfloat16": 60, "float32": 60, "float64": 500}[name]
    a, b = (
        generator.normal(size=count) * 2.0 ** generator.integers(-spread, spread, count)
        for _ in range(2)
    )
    a, b = a.astype(kind), b.astype(kind)
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        scale = 2.0 ** generator.integers(-60, 60, count)
        c = np.where(generator.random(count) < 0.3, -product, product * scale).astype(kind)
    special = np.array(floats(name, 40)[:40])
    joined = [np.concatenate([v, generator.permutation(special)]) for v in (a, b, c)]
    # Halfway cases: 1 + half an ulp, and a little more or less from the product's end.
    ulp = float(ml_dtypes.finfo(kind).eps)
    ties = [(1 + ulp, 1 + ulp, s * ulp * ulp) for s in (-1, 0, 1)]
    ties += [(1 + ulp, ulp / 2, 1.0), (1 - ulp / 2, ulp / 2, 1.0), (ulp / 2, 1.0, 1.0)]
    ties += [(ulp / 2, 1.0, 1 + ulp), (ulp, ulp / 4, 1.0), (1 + ulp, 1 - ulp / 2, -1.0)]
    tiny = float(ml_dtypes.finfo(kind).smallest_subnormal)
    ties += [(tiny, 0.5, tiny), (tiny, 0.75, 0.0), (-tiny, 0.5, 0.0), (tiny, -0.25, 3 * tiny)]
    columns = np.array(ties).astype(kind).T
    return [np.concatenate([v, t]) for v, t in zip(joined, columns, strict=True)]


@pytest.mark.parametrize("name", FLOATS)
def test_fma_rounds_once(name):
    a, b, c = fma_inputs(name)
    expected = [
        exact_fma(x.item(), y.item(), z.item(), lambda t: nearest(t, name))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    made = map_on_lanes(kl.fma, a, b, c, result=host(name))
    assert same(made, np.array(expected).astype(host(name)))
