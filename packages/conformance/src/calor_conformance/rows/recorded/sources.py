"""Functions without operands of rows: random numbers, first weights, distributions, casts.

Their arguments are drawn by the names of their parameters, so a new one needs no row here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor
from calor.errors import CalorError, UnsupportedError

from ..functions import ways
from ..functions.drawing import Arguments, Rng, coin
from .dtypes import of_dtypes

_Named = tuple[str, Callable[[Rng], Arguments], Callable[..., Any], Callable[..., Any] | None]
_PACKAGES: Final = ("calor.random", "calor_numerics.random", "calor_nn.init")
_LEFT_OUT: Final = frozenset(("seed", "drawn"))
_SHAPES: Final[tuple[Any, ...]] = (
    (), (5,), (2, 3), 7, (4, 1, 3), (0,), (2, 0), (1,), (9, 4), (6, 6), (33,), (3, 4, 2, 2),
)  # fmt: skip
_FLOATS: Final = (0.0, 1.0, -1.0, 0.5, 2.5, -3.0, 1e-3, 40.0, float("inf"), float("nan"), 1e5)
_POSITIVE: Final = (1.0, 0.5, 2.0, 0.1, 7.5, 40.0, 900.0, 0.01, 0.0, -1.0, float("inf"))
_SHARES: Final = (0.5, 0.25, 0.9, 0.0, 1.0, 0.01, 0.999, -0.1, 1.1)
_BOUNDS: Final = (
    0, 1, -3, 7, 100, 255, -128, 2**16, 2**31 - 1, -(2**31), 2**31, 2**32, 2**32 + 5, 2**53 + 1,
    -(2**62), 2**62, 2**63 - 1, -(2**63), 2**63,
)  # fmt: skip
_COUNTS: Final = (1, 2, 3, 5, 17, 0, -1, 64, 1000)
_DTYPES: Final = (
    None, "float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "int8", "uint32",
    "bool", "complex64",
)  # fmt: skip


def named() -> Iterator[_Named]:
    """Yield a label, what draws arguments, what is called, and the public function if it is one."""
    for name in _PACKAGES:
        package = _package(name)
        for public in getattr(package, "__all__", ()):
            function = getattr(package, public)
            if inspect.isfunction(function) and public not in _LEFT_OUT:
                yield f"{name}.{public}-by names", partial(_by_names, function), function, function
    package = _package("calor_distributions")
    for public in getattr(package, "__all__", ()):
        kind = getattr(package, public)
        if inspect.isclass(kind) and issubclass(kind, package.Distribution):
            drawn = partial(_by_names, kind)
            if drawn_apart := _APART.get(public):
                drawn = partial(drawn_apart, package)
            if public not in _COMBINED:
                yield f"calor_distributions.{public}-by names", drawn, partial(_asked, kind), None
    yield from of_dtypes()
    yield from _methods()


def _methods() -> Iterator[_Named]:
    """Yield the methods of tensors that are functions too, called as those are."""
    seen = set()
    for way in ways():
        method = getattr(calor.Tensor, way.name, None)
        if way.other is None and inspect.isfunction(method) and way.label not in seen:
            seen.add(way.label)
            yield f"calor.Tensor.{way.label}", way.draw, method, method


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


def _numbers(rng: Rng, choices: tuple[float, ...]) -> Any:
    """Return a number, or an array of some that broadcasts with others."""
    usual = choices[: max(3, len(choices) // 2)] if rng.random() < 0.7 else choices
    if rng.random() < 0.4:
        return float(rng.choice(usual))
    shape = ((3,), (2, 1), (2, 3), (1,), (), (5,))[int(rng.integers(6))]
    made = rng.choice(usual, shape) + (rng.random(shape) * 0.1 if rng.random() < 0.5 else 0.0)
    return np.asarray(made, np.float64 if rng.random() < 0.2 else np.float32)


def _one(rng: Rng, function: Any, parameter: inspect.Parameter) -> Any:
    """Return an argument of a parameter's name."""
    match parameter.name:
        case "key":
            return np.array(rng.integers(0, 2**32, 2), np.uint32)
        case "shape":
            return _SHAPES[int(rng.integers(len(_SHAPES)))]
        case "dtype":
            return _DTYPES[int(rng.integers(len(_DTYPES) if rng.random() < 0.5 else 5))]
        case "low" | "high" if function.__name__ == "integers":
            low = parameter.name == "low"
            near = int(rng.integers(-20, 5)) if low else int(rng.integers(5, 40))
            return int(rng.choice(np.array(_BOUNDS, object))) if rng.random() < 0.6 else near
        case "low":
            return _numbers(rng, (-2.0, -0.5, 0.0, -1.0, 3.0, float("nan"), -1e30))
        case "high":
            return _numbers(rng, (1.0, 2.0, 4.5, 0.5, -3.0, float("inf"), 1e30))
        case "p" | "probs" | "p0":
            return _numbers(rng, _SHARES)
        case "mean" | "loc" | "logits":
            return _numbers(rng, _FLOATS)
        case "std" | "scale" | "rate" | "concentration" | "alpha" | "df" | "a" | "b" | "n":
            return _numbers(rng, _POSITIVE)
        case "concentration0" | "concentration1" | "exponent" | "gain" | "slope" | "value":
            return _numbers(rng, _POSITIVE) if coin(rng) else float(rng.choice(_POSITIVE))
        case "count" | "groups" | "number" | "total_count" | "axis":
            return int(rng.choice(_COUNTS))
        case "width":
            return int(rng.choice((8, 16, 32, 64, 1, 24)))
        case "x" | "weights":
            shape = ((7,), (3, 4), (2, 3, 2), (1,), (0,), (), (40,))[int(rng.integers(7))]
            made = np.round(rng.random(shape) * 4 - (parameter.name == "x"), 1)
            return made.astype(np.float32) if coin(rng) else np.asarray(made, np.int32)
        case "replace":
            return coin(rng)
        case "mode":
            return str(rng.choice(("fan_in", "fan_out", "fan_avg", "nonsense")))
        case "nonlinearity":
            return str(rng.choice(("linear", "relu", "tanh", "leaky_relu", "selu", "sigmoid", "x")))
    return parameter.default


# What is always given: without a key, numbers depend on what was drawn before.
_ALWAYS: Final = frozenset(("key", "shape"))


def _by_names(function: Any, rng: Rng) -> Arguments:
    given: list[Any] = []
    options: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        needed = parameter.default is inspect.Parameter.empty
        if parameter.name in ("generator", "device"):
            continue
        if not needed and parameter.name not in _ALWAYS and rng.random() < 0.35:
            continue
        if needed or (parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not options):
            given.append(_one(rng, function, parameter))
        else:
            options[parameter.name] = _one(rng, function, parameter)
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name == "probs":
            if coin(rng):
                given.append(None)
            break
    return given, options


def _two(kind: str, package: Any, rng: Rng) -> Arguments:
    """Return shares or logarithms of outcomes along the last axis."""
    shape = ((3,), (2, 4), (1, 2), (2, 1, 3))[int(rng.integers(4))]
    weights = rng.random(shape) + 0.05
    weights = np.where(rng.random(shape) < 0.15, 0.0, weights)
    if kind == "Dirichlet":
        return [(weights * 4).astype(np.float32)], {}
    with np.errstate(divide="ignore"):
        options: dict[str, Any] = (
            {"probs": weights.astype(np.float32)}
            if coin(rng)
            else {"logits": np.log(weights).astype(np.float32)}
        )
    if kind == "Multinomial":
        options["total_count"] = int(rng.choice((1, 4, 9)))
    return [], options


def _bells(package: Any, rng: Rng) -> Arguments:
    n = int(rng.integers(1, 4))
    root = np.tril(rng.normal(size=(2, n, n) if coin(rng) else (n, n))) + 2 * np.eye(n)
    name = str(rng.choice(("covariance_matrix", "precision_matrix", "scale_tril")))
    matrix = root if name == "scale_tril" else root @ np.swapaxes(root, -1, -2)
    loc = rng.normal(size=(n,) if coin(rng) else (2, n))
    return [loc.astype(np.float32)], {name: matrix.astype(np.float32)}


_OUTCOMES: Final = ("Categorical", "OneHotCategorical", "Multinomial", "Dirichlet")
_APART: Final[dict[str, Any]] = {
    **{name: partial(_two, name) for name in _OUTCOMES}, "MultivariateNormal": _bells,
}  # fmt: skip
_COMBINED: Final = frozenset((
    "Distribution", "Independent", "MixtureSameFamily", "TransformedDistribution",
))  # fmt: skip
_VALUES: Final = np.array(
    [0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 7.5, -4.0, 60.0, np.inf, -np.inf, np.nan], np.float32
)
_QUANTILES: Final = np.array([0.0, 1.0, 0.5, 0.01, 0.999, 1e-6], np.float32)


def _asked(kind: Any, *given: Any, **options: Any) -> list[Any]:
    """Return all that a distribution tells: moments, probabilities, quantiles and samples."""
    made = kind(*given, **options)
    found: list[Any] = [made.batch_shape, made.event_shape]
    for name in ("mean", "variance", "stddev", "mode", "logits", "probs", "covariance_matrix"):
        found.append(_told(partial(getattr, made, name)))
    found.append(_told(made.entropy))
    column = (-1, *(1,) * (len(made.batch_shape) + len(made.event_shape)))
    values = calor.asarray(_VALUES.reshape(column))
    shares = calor.asarray(_QUANTILES.reshape(column))
    for name in ("log_prob", "cdf", "survival", "log_survival"):
        found.append(_told(partial(_of, made, name, values)))
    found.append(_told(lambda: made.icdf(shares)))
    drawn = None
    for number, name in enumerate(("sample", "rsample")):
        key = calor.random.key(11 + number)
        drawn = _told(partial(_of, made, name, (3,), key=key))
        found.append(drawn)
    if isinstance(drawn, calor.Tensor):
        found.append(_told(lambda: made.log_prob(drawn)))
    return found


def _of(made: Any, name: str, *given: Any, **options: Any) -> Any:
    return getattr(made, name)(*given, **options)


def _told(ask: Callable[[], Any]) -> Any:
    """Return what is told, or the kind of error."""
    try:
        return ask()
    except UnsupportedError:
        raise
    except (CalorError, NotImplementedError, AttributeError, TypeError, ValueError) as error:
        return type(error).__name__
