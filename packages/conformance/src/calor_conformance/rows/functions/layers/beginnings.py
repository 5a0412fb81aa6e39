"""First values of weights: the spread that shapes and options ask for, and their structure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, coin
from .language import Function, Row

_ASKS: Final = "nan infinite zeros ties equal large small limits long short"
# Numbers of one draw, and the accepted error of their moments in units of the spread.
_MANY, _NEAR = 6000, 0.08
_GAINS: Final = {
    "linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75,
}  # fmt: skip


def _shape(rng: Rng) -> list[int]:
    """Return the shape of a weight with many elements, and other fans in and out."""
    sides = [20, 300] if coin(rng) else [300, 20]
    if coin(rng):
        return [*sides, 1]
    return [sides[0] // 4, sides[1] // 4, 4, 5] if coin(rng) else sides


def _moments(made: Array, mean: Any, spread: Any, low: Any, high: Any) -> Array:
    """Return the mean and spread in units of those that are wanted, and how many are outside."""
    out = (made < low - 1e-5 * abs(low)).sum() + (made > high + 1e-5 * abs(high)).sum()
    return np.array([(made.mean() - mean) / spread, made.std() / spread, float(out)])


def _drawn(name: str, of: Callable[..., tuple[float, float, float, float]]) -> Function:
    def call(package: Any, *given: Any, **options: Any) -> Any:
        import calor

        run = getattr(package, name)
        made, again, other = (
            run(*given, key=calor.random.key(k), **options).numpy() for k in (4, 4, 5)
        )
        same = np.array([(made == again).all(), (made == other).all(), made.shape == given[0]])
        mean, spread, low, high = of(*given, **options)
        far = np.array([np.abs(made - mean).max() / spread])
        return [
            calor.asarray(_moments(made, mean, spread, low, high)),
            calor.asarray(same), calor.asarray(np.minimum(far, _farthest(name))),
        ]  # fmt: skip

    return call


def _farthest(name: str) -> float:
    # Uniform numbers end at √3 spreads; of so many normal ones some are beyond three.
    return math.sqrt(3) if "uniform" in name else 3.0


def _wanted(name: str) -> Function:
    def meaning(*given: Any, **options: Any) -> Any:
        far = 0.0 if name == "truncated_normal" else _farthest(name)
        moments = np.array([0.0, 1.0, 0.0])
        return [moments, np.array([True, False, True]), np.array([far])]

    return meaning


def _uniform(shape: Any, low: float = 0.0, high: float = 1.0) -> tuple[float, float, float, float]:
    return (low + high) / 2, (high - low) / math.sqrt(12), low, high


def _normal(shape: Any, mean: float = 0.0, std: float = 1.0) -> tuple[float, float, float, float]:
    return mean, std, -math.inf, math.inf


def _fans(shape: Any) -> tuple[int, int]:
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _xavier(uniform: bool) -> Callable[..., tuple[float, float, float, float]]:
    def of(shape: Any, gain: float = 1.0) -> tuple[float, float, float, float]:
        std = gain * math.sqrt(2 / sum(_fans(shape)))
        end = math.sqrt(3) * std if uniform else math.inf
        return 0.0, std, -end, end

    return of


def _kaiming(uniform: bool) -> Callable[..., tuple[float, float, float, float]]:
    def of(
        shape: Any, slope: float = 0.0, *, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
    ) -> tuple[float, float, float, float]:
        gain = _GAINS.get(nonlinearity, math.sqrt(2 / (1 + slope**2)))
        std = gain / math.sqrt(_fans(shape)[mode == "fan_out"])
        end = math.sqrt(3) * std if uniform else math.inf
        return 0.0, std, -end, end

    return of


def _with(**choices: tuple[Any, ...]) -> Callable[[Rng], Arguments]:
    """Return what draws a shape and options, of which each may be left out."""

    def drawn(rng: Rng) -> Arguments:
        options = {
            name: some[int(rng.integers(len(some)))] for name, some in choices.items() if coin(rng)
        }
        return [tuple(_shape(rng))], options

    return drawn


def _truncated(rng: Rng) -> Arguments:
    return [(_MANY,)], {"mean": 0.5, "std": 2.0, "low": -1.0, "high": float(rng.choice((2.0, 3.0)))}


def _cut(package: Any, shape: Any, **options: Any) -> Any:
    import calor

    made = package.truncated_normal(shape, key=calor.random.key(2), **options).numpy()
    ends = [options["mean"] + options["std"] * options[name] for name in ("low", "high")]
    inside = np.array([(made >= ends[0]).all(), (made <= ends[1]).all()])
    return calor.asarray(inside), calor.asarray([made.mean(), (made < options["mean"]).mean()])


def _cut_meaning(shape: Any, *, mean: float, std: float, low: float, high: float) -> Any:
    places = np.linspace(mean + std * low, mean + std * high, 20001)
    density = np.exp(-0.5 * ((places - mean) / std) ** 2)
    total = density.sum()
    below = density[places < mean].sum() / total
    return np.array([True, True]), np.array([(places * density).sum() / total, below])


def _orthogonal(package: Any, shape: Any, *gain: float) -> Any:
    import calor

    made = package.orthogonal(shape, *gain, key=calor.random.key(6))
    flat = calor.reshape(made, (shape[0], -1))
    square = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    return square, calor.zeros(made.shape)


def _orthogonal_meaning(shape: Any, gain: float = 1.0) -> Any:
    n = min(shape[0], math.prod(shape[1:]))
    return gain * gain * np.eye(n), np.zeros(shape)


def _passing(rng: Rng) -> Arguments:
    groups, part, depth = (int(n) for n in rng.integers(1, 4, 3))
    kernel = rng.integers(1, 5, int(rng.integers(1, 4))).tolist()
    return [[groups * part, depth, *kernel]], {"groups": groups} if groups > 1 else {}


def _dirac(shape: list[int], groups: int = 1) -> Any:
    made = np.zeros(shape)
    part = shape[0] // groups
    for row in range(shape[0]):
        if row % part < shape[1]:
            made[(row, row % part, *(n // 2 for n in shape[2:]))] = 1
    return made


def _factor(rng: Rng) -> Arguments:
    name = str(rng.choice((*_GAINS, "leaky_relu")))
    return [name], {"slope": 0.3} if coin(rng) else {}


def _gain(name: str, slope: float = 0.01) -> Any:
    return np.asarray(_GAINS.get(name, math.sqrt(2 / (1 + slope * slope))))


def _row(name: str, draw: Any, of: Any) -> Row:
    return Row(name, draw, _wanted(name), call=_drawn(name, of), without=_ASKS, near=_NEAR, least=3)


ROWS: Final[list[Row]] = [
    _row("uniform", _with(low=(-1.0, -0.2), high=(2.0, 0.5)), _uniform),
    _row("normal", _with(mean=(0.5, -2.0), std=(0.2, 3.0)), _normal),
    _row("xavier_uniform", _with(gain=(0.5, 2.0)), _xavier(True)),
    _row("xavier_normal", _with(gain=(0.5, 2.0)), _xavier(False)),
    *(_row(f"kaiming_{kind}", _with(slope=(0.2, 0.5), mode=("fan_in", "fan_out"), nonlinearity=(
        "relu", "tanh", "linear", "leaky_relu")), _kaiming(kind == "uniform"))
      for kind in ("uniform", "normal")),
    Row("truncated_normal", _truncated, _cut_meaning, call=_cut, without=_ASKS, near=_NEAR,
        least=2),
    Row("orthogonal", lambda rng: ([tuple(int(n) for n in rng.integers(2, 5, int(rng.integers(
        2, 4)))), *([0.5] if coin(rng) else [])], {}), _orthogonal_meaning, call=_orthogonal,
        without=_ASKS, near=1e-4),
    Row("dirac", _passing, _dirac, without=_ASKS),
    Row("zeros", lambda rng: ([(2, 3)], {}), np.zeros, without=_ASKS, least=1),
    Row("ones", lambda rng: ([(2, 3)], {}), np.ones, without=_ASKS, least=1),
    Row("constant", lambda rng: ([(2, 3), 1.5], {}), np.full, without=_ASKS, least=1),
    Row("gain", _factor, _gain, without=_ASKS,
        call=lambda p, *x, **more: p.constant((), p.gain(*x, **more))),
    Row("fans", lambda rng: ([tuple(_shape(rng))], {}), lambda shape: _fans(shape),
        without=_ASKS),
]  # fmt: skip
