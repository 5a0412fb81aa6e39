"""Tensors as values of Python and of NumPy: operators, conversions, protocols, NumPy's functions.

Every operator is called with operands on either side, of any kind, and in place; every conversion
and every function of NumPy that takes tensors is compared with an array's.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
import calor.linalg
from calor.device_selection import current_device
from calor.dtypes import (
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from calor.errors import DTypeError

from .base import Array, Check, Place

CONTRACT: Final = "a tensor is the value in Python and NumPy that an array of its elements is"
Rng = np.random.Generator
_ARITHMETIC: Final = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_BITS: Final = ("and_", "or_", "xor", "lshift", "rshift")
_COMPARED: Final = ("lt", "le", "gt", "ge", "eq", "ne")
_NEAR: Final = 1e-5


def _shape(rng: Rng) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.choice((1, 2, 3), int(rng.integers(0, 3))))


def _narrower(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n if rng.random() < 0.7 else 1 for n in shape)


def _numbers(rng: Rng, shape: tuple[int, ...], kind: str, name: str) -> Array:
    """Return operands of which an operator has a result in any dtype."""
    if kind == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if kind == "int32":
        low = 0 if name in ("pow", "lshift", "rshift") else -7
        made: Array = rng.integers(low, 5, shape)
        made = np.where(made == 0, 1, made) if name in ("floordiv", "mod", "truediv") else made
        return np.asarray(made, np.int32)
    real = rng.normal(size=shape) * 3
    whole = np.round(real)
    real = np.where(rng.random(shape) < 0.4, np.where(whole == 0, 2.0, whole), real)
    return np.asarray(np.abs(real) + 0.5 if name == "pow" else real, np.float32)


def _same(got: Any, want: Any, what: str) -> None:
    made = got.numpy() if isinstance(got, calor.Tensor) else np.asarray(got)
    want = np.asarray(want)
    assert made.shape == want.shape, f"{what}: shape {made.shape}, not {want.shape}"
    kinds = made.dtype.kind, want.dtype.kind
    assert kinds[0] == kinds[1], f"{what}: {made.dtype}, not {want.dtype}"
    with np.errstate(all="ignore"):
        if kinds[0] in "fc":
            near = np.abs(made - want) <= _NEAR * np.maximum(np.abs(want), 1)
            near |= (made == want) | ((made != made) & (want != want))
        else:
            near = made == want
    assert np.all(near), f"{what}: {made.tolist()}, not {want.tolist()}"


def _binary(rng: Rng) -> None:
    """Tensors on both sides, and arrays, numbers and lists of one on either."""
    for name in (*_ARITHMETIC, *_BITS, *_COMPARED):
        kinds = ("int32", "float32") if name in _ARITHMETIC else ("int32", "bool")
        kinds = ("int32", "float32") if name in _COMPARED else kinds
        for kind in kinds[:1] if name in ("lshift", "rshift") else kinds:
            run: Any = getattr(operator, name)
            shape = _shape(rng)
            a = _numbers(rng, shape, kind, name)
            b = _numbers(rng, _narrower(rng, shape), kind, name)
            number = _numbers(rng, (), kind, name).item()
            x, y = calor.asarray(a), calor.asarray(b)
            what = f"{name} of {a!r} and {b!r}"
            with np.errstate(all="ignore"):
                wide = np.float32 if kind == "int32" and name == "truediv" else a.dtype
                _same(run(x, y), _narrow(run(a, b), wide), what)
                _same(run(y, x), _narrow(run(b, a), wide), f"turned, {what}")
                _same(run(x, number), _narrow(run(a, number), wide), f"{name}: {a!r}, {number}")
                _same(run(number, x), _narrow(run(number, a), wide), f"{name}: {number}, {a!r}")
            reflected = f"__r{name.removesuffix('_')}__"
            if name not in _COMPARED:
                made = getattr(x, reflected)(number)
                _same(made, _narrow(run(number, a), wide), f"{reflected} of {a!r}, {number}")
            assert getattr(x, f"__{name.removesuffix('_')}__")("text") is NotImplemented, name


def _narrow(made: Any, kind: Any) -> Array:
    array = np.asarray(made)
    return np.asarray(array.astype(kind) if array.dtype.kind == "f" else array)


def _matmul(rng: Rng) -> None:
    a, b = (rng.normal(size=(3, 3)).astype(np.float32) for _ in range(2))
    x, y = calor.asarray(a), calor.asarray(b)
    _same(x @ y, a @ b, "a @ b")
    _same(x.__rmatmul__(y), b @ a, "__rmatmul__")
    x @= y
    _same(x, a @ b, "a @= b")


def _in_place(rng: Rng) -> None:
    """Operators that change a tensor, which stays the same object, and its views see it."""
    for name in (*_ARITHMETIC, *_BITS):
        kind = "float32" if name in _ARITHMETIC else "int32"
        shape = (2, 3)
        a, b = (_numbers(rng, s, kind, name) for s in (shape, _narrower(rng, shape)))
        x, run = calor.asarray(a.copy()), getattr(operator, f"i{name.removesuffix('_')}")
        kept = x.copy()
        made = run(x, calor.asarray(b))
        assert made is x, f"{name} in place makes another tensor"
        want = getattr(operator, name)(a, b)
        _same(x, _narrow(want, a.dtype), f"{name} in place of {a!r} and {b!r}")
        _same(kept, a, f"a copy after {name} in place")


_SUMS: Final = {
    "sum": np.sum, "prod": np.prod, "cumulative_sum": np.cumsum, "cumulative_prod": np.cumprod,
    "cumsum": np.cumsum, "cumprod": np.cumprod,
}  # fmt: skip


def _asked_dtypes(rng: Rng) -> None:
    """Sums and products in a dtype that is asked for, as functions and as methods."""
    whole = np.asarray(rng.integers(1, 4, (2, 3)), np.int8)
    of: Any
    for name, of in _SUMS.items():
        for array in (whole, whole.astype(np.float32) + np.float32(0.5)):
            x: Any = calor.asarray(array)
            wanted = (int8, int32, int64, float64) if array.dtype.kind == "i" else (float64,)
            for dtype in wanted:
                want = of(array, axis=1, dtype=dtype.numpy)
                what = f"{name}(axis=1, dtype={dtype.name}) of {array!r}"
                function = getattr(calor, name, None)
                calls = [getattr(x, name)] if hasattr(x, name) else []
                calls += [] if function is None else [partial(function, x)]
                for call in calls:
                    made = call(axis=1, dtype=dtype)
                    assert made.dtype is dtype, f"{what}: {made.dtype.name}"
                    _same(made, want, what)
    for dtype in (float16, bfloat16, float64, int32):
        for made in (calor.zeros_like(x, dtype=dtype), calor.ones_like(x, dtype=dtype),
                     calor.full_like(x, 3, dtype=dtype), calor.linspace(0, 3, 4, dtype=dtype),
                     calor.arange(3, dtype=dtype), calor.eye(2, dtype=dtype)):  # fmt: skip
            assert made.dtype is dtype, f"{made.dtype.name}, not {dtype.name}"
    for dtype in (float16, bfloat16, float64):
        for draw in (calor.random.uniform, calor.random.normal, calor.random.exponential,
                     calor.random.gumbel):  # fmt: skip
            made = draw((3,), dtype=dtype, key=calor.random.key(1))
            assert made.dtype is dtype, f"{draw.__name__}: {made.dtype.name}, not {dtype.name}"


def _asked_products(rng: Rng) -> None:
    """Products in a dtype that is asked for: one pair of operands in several, and in none."""
    for family in ((int8, int16, int32, int64), (float16, float32, float64)):
        kinds = [k for k in family if _multiplied(k)]
        for _ in range(2):
            batch, (m, k, n) = _shape(rng)[:1], (int(i) for i in rng.integers(1, 4, 3))
            shapes = [
                ((*batch, m, k), (k, n)),
                ((k,), (k,)),
                ((m, k), (k,)),
                ((m, k), (*batch, k, n)),
            ]
            first, second = shapes[int(rng.integers(len(shapes)))]
            of = [int(i) for i in rng.integers(len(kinds), size=2)]
            a, b = (
                rng.integers(-3, 4, shape).astype(kinds[i].numpy)
                for shape, i in zip((first, second), of, strict=True)
            )
            want, held = np.matmul(a.astype(float), b.astype(float)), int(rng.integers(3))
            x, y = (v if held == i else calor.asarray(v) for i, v in enumerate((a, b), 1))
            wide = [*kinds[max(of) :], None]
            for number in (*rng.permutation(len(wide)), *rng.permutation(len(wide))):
                asked = wide[number]
                made = (calor.matmul, calor.linalg.matmul)[int(number) % 2](x, y, dtype=asked)
                what = f"matmul of {a!r} and {b!r}, dtype={asked and asked.name}"
                expected = asked or kinds[max(of)]
                assert made.dtype is expected, f"{what}: {made.dtype.name}, not {expected.name}"
                _same(made, want.astype(expected.numpy), what)
            if max(of):
                narrow = kinds[max(of) - 1]
                try:
                    calor.matmul(x, y, dtype=narrow)
                except DTypeError:
                    continue
                raise AssertionError(f"matmul in {narrow.name} of {a.dtype} and {b.dtype}")


def _multiplied(dtype: Any) -> bool:
    return bool(current_device().info.supports("dot_general", dtype))


def _unary(rng: Rng) -> None:
    a = np.asarray(rng.normal(size=(2, 3)) * 3, np.float32)
    n = np.asarray(rng.integers(-9, 9, (4,)), np.int32)
    t = np.asarray(rng.random(5) < 0.5)
    for name in ("neg", "pos", "abs"):
        for array in (a, n):
            run: Any = getattr(operator, name)
            _same(run(calor.asarray(array)), run(array), f"{name} of {array!r}")
    _same(~calor.asarray(n), ~n, f"~ of {n!r}")
    _same(~calor.asarray(t), ~t, f"~ of {t!r}")
    _same(calor.asarray(a).T, a.T, "T")
    cube = np.asarray(rng.normal(size=(2, 3, 4)), np.float32)
    _same(calor.asarray(cube).mT, cube.swapaxes(1, 2), "mT")
    assert -calor.asarray(np.int32(-3)) == 3


def _alone(rng: Rng) -> None:
    """One element as a number of Python, and all of them as lists, bytes and rows."""
    whole, real = int(rng.integers(-99, 99)), float(np.float32(rng.normal() * 9))
    for shape in ((), (1,), (1, 1)):
        n, x = np.full(shape, whole, np.int64), np.full(shape, real, np.float32)
        c = np.full(shape, real + 2j, np.complex64)
        t, u, v = map(calor.asarray, (n, x, c))
        assert type(t.item()) is int
        assert t.item() == whole, f"item of {n!r}"
        assert u.item() == real, f"item of {x!r}"
        assert complex(v) == complex(c.reshape(-1)[0]), f"complex of {c!r}"
        assert (int(t), float(u), int(u)) == (whole, real, int(real)), f"{n!r}, {x!r}"
        assert bool(t) == bool(whole), f"bool of {n!r}"
        assert not bool(calor.zeros(shape)), "bool of 0"
        assert math.isclose(complex(u).real, real), "complex of a real one"
    assert [10, 20, 30][calor.asarray(np.int32(1))] == 20, "an index of a list"
    assert range(9)[calor.asarray(np.int64(2)) : 5] == range(2, 5), "a bound of a range"
    for bad in (np.array([1]), np.float32(1.0)):
        try:
            operator.index(calor.asarray(bad))
        except TypeError:
            continue
        raise AssertionError(f"{bad!r} is an index")
    a = np.asarray(rng.integers(0, 5, (3, 2)), np.int32)
    t = calor.asarray(a)
    assert t.tolist() == a.tolist()
    assert t.tobytes() == a.tobytes(), "bytes in their order"
    assert len(t) == 3, "len is the first axis"
    assert [row.tolist() for row in t] == a.tolist(), "rows"
    assert (2 in t) == (2 in a), "membership"
    assert 77 not in t, "membership of what is not there"
    _same(np.asarray(t), a, "np.asarray")
    assert np.asarray(t, np.float64).dtype == np.float64, "np.asarray of a dtype"
    copied = np.array(t)
    copied[0] = 99
    _same(t, a, "a tensor after a write to an array of it")


def _dtypes(rng: Rng) -> None:
    """Methods that convert, and bits read as another dtype."""
    a = np.asarray(rng.normal(size=(2, 4)) * 3, np.float32)
    x = calor.asarray(a)
    names = {
        "half": float16, "bfloat16": bfloat16, "float": float32, "double": float64,
        "int": int32, "long": int64, "bool": bool_,
    }  # fmt: skip
    for name, dtype in names.items():
        made = getattr(x, name)()
        assert made.dtype is dtype, f"{name}(): {made.dtype.name}"
        want = a.astype(dtype.numpy)
        assert made.tolist() == want.tolist(), f"{name}() of {a!r}: {made.tolist()}"
    for dtype, kind in ((int32, "i4"), (uint8, "u1"), (int8, "i1"), (int64, "i8"), (float64, "f8")):
        made = x.view(dtype)
        want = a.view(kind)
        assert made.shape == want.shape, f"view({dtype.name}): {made.shape}"
        assert made.numpy().tobytes() == want.tobytes(), f"view({dtype.name})"
        assert made.dtype is dtype, f"view({dtype.name}): {made.dtype.name}"
    _same(x.view(4, 2), a.reshape(4, 2), "view of a shape")
    c = calor.asarray((a + 1j * a[:, ::-1]).astype(np.complex64))
    _same(c.real, a, "real")
    _same(c.imag, a[:, ::-1], "imag")
    for name, want in (
        ("cumsum", a.cumsum(1)), ("cumprod", a.cumprod(1)),
        ("cummax", np.maximum.accumulate(a, 1)), ("cummin", np.minimum.accumulate(a, 1)),
    ):  # fmt: skip
        _same(getattr(x, name)(axis=1), want, f"{name} along 1")
        first = getattr(x[0], name)()
        _same(first, want[0], f"{name} of one axis")
    _same(x.ravel(), a.ravel(), "ravel")
    assert c.dtype is complex64


_UFUNCS: Final = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum",
    "hypot", "copysign", "arctan2", "logaddexp", "logaddexp2", "fmod", "power", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "nextafter", "heaviside", "float_power",
)  # fmt: skip
_ONE: Final = (
    "negative", "positive", "sign", "exp", "exp2", "expm1", "sin", "cos", "tanh", "floor", "ceil",
    "trunc", "rint", "isnan", "isinf", "isfinite", "signbit", "square", "absolute", "fabs",
    "arctan", "arcsinh", "sinh", "cosh", "tan", "conjugate", "logical_not",
)  # fmt: skip
_ABOVE: Final = ("log", "log2", "log10", "log1p", "sqrt", "reciprocal", "arccosh")
_INSIDE: Final = ("arcsin", "arccos", "arctanh")
_INTEGERS: Final = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")


def _ufuncs(rng: Rng) -> None:
    """NumPy's elementwise functions, with a tensor at either place, and their methods."""
    a, b = (np.asarray(np.abs(rng.normal(size=(2, 3))) * 2 + 0.3, np.float32) for _ in range(2))
    n, m = (np.asarray(rng.integers(0, 7, (2, 3)), np.int32) for _ in range(2))
    inside = np.asarray(rng.uniform(-0.9, 0.9, 5), np.float32)
    calls: list[tuple[str, tuple[Array, ...]]] = [
        *((name, (a, b) if "power" in name else (a - 1.5, b - 1)) for name in _UFUNCS),
        *((name, (a - 1,)) for name in _ONE),
        *((name, (a + 1,)) for name in _ABOVE), *((name, (inside,)) for name in _INSIDE),
        *((name, (n, m)) for name in _INTEGERS), ("invert", (n,)),
        ("matmul", (a, b.T.copy())), ("vecdot", (a, b)),
    ]  # fmt: skip
    for name, given in calls:
        run = getattr(np, name)
        want = run(*given)
        kind = np.float64 if name == "float_power" else np.result_type(*given)
        _same(run(*map(calor.asarray, given)), _narrow(want, kind), f"np.{name} of {given!r}")
        if len(given) > 1:
            _same(run(calor.asarray(given[0]), given[1]), _narrow(want, kind), f"np.{name}")
            _same(run(given[0], calor.asarray(given[1])), _narrow(want, kind), f"np.{name}")
    x: Any = calor.asarray(a)
    for name in ("add", "multiply", "maximum", "minimum"):
        run = getattr(np, name)
        _same(run.reduce(x), run.reduce(a), f"np.{name}.reduce")
        _same(run.reduce(x, axis=1), run.reduce(a, axis=1), f"np.{name}.reduce along 1")
        _same(run.accumulate(x), run.accumulate(a), f"np.{name}.accumulate")
    t = calor.asarray(a > 1)
    _same(np.logical_and.reduce(t), np.logical_and.reduce(a > 1), "np.logical_and.reduce")
    _same(np.logical_or.reduce(t), np.logical_or.reduce(a > 1), "np.logical_or.reduce")
    into: Any = calor.zeros((2, 3))
    assert np.exp(x, out=into) is into, "out= gives back what it got"
    _same(into, np.exp(a), "out= of np.exp")
    refusals: list[Callable[[], Any]] = [
        lambda: np.spacing(x),
        lambda: np.exp(x, out=np.zeros((2, 3), np.float32)),
    ]
    for refused in refusals:
        try:
            refused()
        except TypeError:
            continue
        raise AssertionError("a function of NumPy without one here gave a result")


def _functions(rng: Rng) -> None:
    """NumPy's other functions, with NumPy's names and places of arguments."""
    a = np.asarray(rng.normal(size=(3, 4)), np.float32)
    b = np.asarray(rng.normal(size=(3, 4)), np.float32)
    square = np.asarray(rng.normal(size=(3, 3)) + 4 * np.eye(3), np.float32)
    n = np.asarray(rng.integers(0, 4, (3, 4)))
    calls: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
        "sum": lambda x, y, s, n: np.sum(x, 1), "prod": lambda x, y, s, n: np.prod(x, axis=0),
        "mean": lambda x, y, s, n: np.mean(x, (0, 1), keepdims=True),
        "std": lambda x, y, s, n: np.std(x, 1, ddof=1), "var": lambda x, y, s, n: np.var(x),
        "max": lambda x, y, s, n: np.max(x, 0), "amin": lambda x, y, s, n: np.amin(x, 1),
        "argmax": lambda x, y, s, n: np.argmax(x, 1), "sort": lambda x, y, s, n: np.sort(x, 0),
        "argsort": lambda x, y, s, n: np.argsort(x, 1), "clip": lambda x, y, s, n: np.clip(
            x, -0.5, 0.5), "clip by name": lambda x, y, s, n: np.clip(x, a_min=0, a_max=1),
        "concatenate": lambda x, y, s, n: np.concatenate([x, y], 1),
        "stack": lambda x, y, s, n: np.stack([x, y], 1), "vstack": lambda x, y, s, n: np.vstack(
            [x, y]), "hstack": lambda x, y, s, n: np.hstack([x, y]),
        "hstack of lines": lambda x, y, s, n: np.hstack([x[0], y[1]]),
        "vstack of lines": lambda x, y, s, n: np.vstack([x[0], y[1]]),
        "transpose": lambda x, y, s, n: np.transpose(x), "reshape": lambda x, y, s, n: np.reshape(
            x, (2, 6)), "expand_dims": lambda x, y, s, n: np.expand_dims(x, 1),
        "squeeze": lambda x, y, s, n: np.squeeze(x[:1], 0), "ravel": lambda x, y, s, n: np.ravel(x),
        "roll": lambda x, y, s, n: np.roll(x, 2, 1), "flip": lambda x, y, s, n: np.flip(x, 0),
        "tile": lambda x, y, s, n: np.tile(x, (2, 1)), "repeat": lambda x, y, s, n: np.repeat(
            x, 2, 1), "take": lambda x, y, s, n: np.take(x, np.array([2, 0]), 1),
        "where": lambda x, y, s, n: np.where(x > 0, x, y), "dot": lambda x, y, s, n: np.dot(
            s, x), "dot of a number": lambda x, y, s, n: np.dot(x, 3.0),
        "tensordot": lambda x, y, s, n: np.tensordot(x, y, ([0], [0])),
        "einsum": lambda x, y, s, n: np.einsum("ij,ij->i", x, y), "outer": lambda x, y, s, n:
            np.outer(x[0], y[0]), "trace": lambda x, y, s, n: np.trace(s),
        "diagonal": lambda x, y, s, n: np.diagonal(s), "det": lambda x, y, s, n: np.linalg.det(s),
        "inv": lambda x, y, s, n: np.linalg.inv(s), "solve": lambda x, y, s, n: np.linalg.solve(
            s, x), "norm": lambda x, y, s, n: np.linalg.vector_norm(x, axis=1),
        "cumsum": lambda x, y, s, n: np.cumsum(x, 1), "cumprod": lambda x, y, s, n: np.cumprod(
            x, 0), "diff": lambda x, y, s, n: np.diff(x, axis=0), "tril": lambda x, y, s, n:
            np.tril(x, 1), "triu": lambda x, y, s, n: np.triu(x, -1),
        "swapaxes": lambda x, y, s, n: np.swapaxes(x, 0, 1), "moveaxis": lambda x, y, s, n:
            np.moveaxis(x, 0, -1), "broadcast_to": lambda x, y, s, n: np.broadcast_to(x, (2, 3, 4)),
        "zeros_like": lambda x, y, s, n: np.zeros_like(x), "ones_like": lambda x, y, s, n:
            np.ones_like(n), "full_like": lambda x, y, s, n: np.full_like(x, 2.5),
        "count_nonzero": lambda x, y, s, n: np.count_nonzero(n, axis=1),
        "all": lambda x, y, s, n: np.all(n, 1), "any": lambda x, y, s, n: np.any(n, 0),
        "round": lambda x, y, s, n: np.round(x, 1), "median": lambda x, y, s, n: np.median(x, 1),
        "quantile": lambda x, y, s, n: np.quantile(x, 0.25, 1), "bincount": lambda x, y, s, n:
            np.bincount(np.ravel(n)), "searchsorted": lambda x, y, s, n: np.searchsorted(
            np.sort(x[0]), y[0], "right"), "isclose": lambda x, y, s, n: np.isclose(x, x + 1e-9),
        "rfft": lambda x, y, s, n: np.fft.rfft(x).astype(np.complex64),
        "fftshift": lambda x, y, s, n: np.fft.fftshift(x), "copy": lambda x, y, s, n: np.copy(x),
        "atleast_1d": lambda x, y, s, n: np.atleast_1d(x[0, 0]), "nan_to_num": lambda x, y, s, n:
            np.nan_to_num(x), "isin": lambda x, y, s, n: np.isin(n, np.array([1, 3])),
        "take_along_axis": lambda x, y, s, n: np.take_along_axis(x, np.argsort(x, 1), 1),
        "meshgrid": lambda x, y, s, n: np.meshgrid(x[0], y[0])[1],
    }  # fmt: skip
    arrays = a, b, square, n
    tensors = tuple(map(calor.asarray, arrays))
    for name, run in calls.items():
        made, want = run(*tensors), np.asarray(run(*arrays))
        assert isinstance(made, calor.Tensor), f"np.{name} of tensors is a {type(made).__name__}"
        _same(made, want, f"np.{name}")
    x, y = tensors[:2]
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((3, 4), 2, 12, 4)
    assert np.array_equal(x, x)
    assert not np.array_equal(x, y)
    assert np.allclose(x, x * (1 + 1e-7))
    assert not np.allclose(x, x + 1e-3)
    assert np.allclose(x, x + 1e-3, rtol=0, atol=1e-2)
    assert not np.iscomplexobj(x)
    assert np.isrealobj(x)
    into = np.zeros((3, 4), np.float32)
    np.copyto(into, x)
    _same(x, into, "np.copyto")


def _lent(rng: Rng) -> None:
    """Writes to arrays of tensors reach these in `shared_views`, and nowhere else."""
    a = np.asarray(rng.normal(size=(3, 4)), np.float32)
    x, other = calor.asarray(a.copy()), calor.asarray(a.copy())
    with calor.shared_views():
        array = np.asarray(x)
        array[1:, ::2] = 7
        second = np.asarray(x)
        second[0, 0] = np.nan
        want = array.copy()
        del array, second
        _same(x, want, "a tensor after writes to its array")
        _same(other, a, "another tensor")
    assert not np.asarray(x).flags.writeable, "an array outside is read-only"


_ASPECTS: Final[dict[str, Callable[[Rng], None]]] = {
    "operators": _binary, "operators-in-place": _in_place, "operators-matmul": _matmul,
    "operators-of-one": _unary, "as-numbers": _alone, "as-other-dtypes": _dtypes,
    "asked-dtypes": _asked_dtypes, "numpy-ufuncs": _ufuncs, "numpy-functions": _functions,
    "numpy-writes": _lent, "asked-products": _asked_products,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    number = list(_ASPECTS).index(name)
    for turn in range(2):
        _ASPECTS[name](np.random.default_rng([place.seed, number, turn]))


def python_values() -> Iterator[Check]:
    """Yield a check of each way to use a tensor as a value of Python or NumPy."""
    for name, aspect in _ASPECTS.items():
        yield Check(
            kind="functions",
            subject=name,
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, aspect),
            dtypes=(float32, float64, int32, int64, bool_, complex64),
            looks=True,
        )
