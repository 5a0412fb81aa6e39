"""How far the mathematical functions are from the exact results: ``python ulp.py [NAME …]``.

Requirements: samples have every exponent, both signs and the special numbers, and more where people
compute; what is compared with is computed in a wider type. Run as a program, with calor-cpu
installed, it prints the table of all functions; ``--step 1`` takes every float32.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from math import erf as exact_erf
from typing import Any

import numpy as np

from calor.dtypes import DType, float32, float64, int64
from calor.ops.base import find
from calor.reference import special
from calor_interpreter.launch import run_on_lanes
from calor_kernel.language import Buffer, Scalar, cube_position, kernel
from calor_kernel.library import math
from calor_kernel.library.elementwise import ROWS
from calor_kernel.library.math.base import exactly

Array = np.ndarray[Any, Any]
WIDTH = 64

# What each function is in a wider type; float64's own where there is none.
ORACLES: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "hypot": np.hypot, "logaddexp": np.logaddexp, "power": np.power,
    "erf": np.vectorize(exact_erf, [np.float64]), "erfinv": special.erfinv,
    "lgamma": special.lgamma, "digamma": special.digamma, "remainder": np.remainder,
    "floor_divide": np.floor_divide, "fmod": np.fmod,
}  # fmt: skip
# Functions whose oracle is no better than float64, and by how much it may be off there.
ROUGH = {"erf": 1.0, "erfinv": 4.0, "lgamma": 4.0, "digamma": 4.0}
ROUGH |= dict.fromkeys(("erfc", "erfcx", "ndtr", "log_ndtr"), 4.0)
TWO = {"atan2", "hypot", "logaddexp", "power", "remainder", "floor_divide", "fmod"}
# What only a row computes says its bound there and is compared with the reference of the op.
ROWS_ALONE = {name: row for name, row in ROWS.items() if row.bound is not None}
BOUNDS = {**math.BOUNDS, **{name: row.bound for name, row in ROWS_ALONE.items()}}
ORACLES |= {name: find(name).reference for name in ROWS_ALONE if name not in ORACLES}
TWO |= {n for n in ROWS_ALONE if len(find(n).checks[0].domains) == 2}
# These are exact in their own type, where they are compared.
NARROW = {"remainder", "floor_divide", "fmod", "heaviside"}


@kernel
def apply_function(*arguments: Any, name: str) -> None:
    """Apply a function to a vector a cube."""
    *sources, target, _ = arguments
    i = cube_position() * WIDTH
    function = ROWS[name].function if name in ROWS_ALONE else getattr(math, name)
    target.store(i, exactly(function)(*(s.load(i, WIDTH) for s in sources)))


def evaluate(name: str, arrays: list[Array], machine: str = "lanes") -> Array:
    """Return a function's results, computed on lanes or on the CPU."""
    dtype = float32 if arrays[0].dtype == np.float32 else float64
    count = -(-arrays[0].size // WIDTH)
    given = [np.resize(a, count * WIDTH) for a in arrays]
    made = np.empty_like(given[0])
    signature = [Buffer(dtype)] * (len(given) + 1) + [Scalar(int64)]
    built = apply_function.build(signature, name=name)
    arguments = [*given, made, count]
    if machine == "lanes":
        run_on_lanes(built, (count, 1, 1), arguments, checks=False)
    else:
        from calor_cpu.testing import run

        run(built, count, arguments)
    return made[: arrays[0].size]


@np.errstate(all="ignore")
def samples(dtype: DType, arity: int, count: int, seed: int = 0) -> list[Array]:
    """Return operands: special numbers in all combinations, every exponent, and usual numbers."""
    rng = np.random.default_rng(seed)
    host = dtype.numpy
    limits = np.finfo(host)
    sizes = [0.0, limits.smallest_subnormal, limits.tiny, 0.5, 1.0, 1.5, 2.0, 3.0, 1e10,
             limits.max, np.inf]  # fmt: skip
    special_ = np.array([*sizes, *(-s for s in sizes), np.nan], host)
    grids = np.meshgrid(*[special_] * arity)
    bits = np.dtype(f"u{dtype.itemsize}")
    top = np.iinfo(bits).max
    made = []
    for grid in grids:
        every = rng.integers(0, top, count, bits, endpoint=True).view(host)
        near = rng.normal(size=count) * 2.0 ** rng.integers(-12, 6, count)
        unit = 1.0 + rng.normal(size=count) * 2.0 ** rng.integers(-30, -1, count)
        made.append(np.concatenate([grid.reshape(-1), every, near, unit]).astype(host))
    return made


def spacing(size: Array, dtype: DType) -> Array:
    """Return the distance between neighbours of a dtype at sizes."""
    limits = np.finfo(dtype.numpy)
    inside = np.clip(size, limits.tiny, limits.max)
    exponent = np.frexp(inside)[1] - 1 - limits.nmant
    return np.asarray(np.ldexp(inside.dtype.type(1.0), exponent))


def _scale(name: str, operands: list[Array]) -> Array | float:
    """Return what errors are relative to beside the result, as the bounds have it."""
    if name in ("logaddexp", "logaddexp2"):
        return np.maximum(np.abs(operands[0]), np.abs(operands[1]))
    x = operands[0]
    below = np.where(np.isfinite(x) & (x < 0), x, -0.5).astype(np.float64)
    if name == "lgamma":
        size = np.abs(special.lgamma(1.0 - below))
        return np.where(x < 0, np.maximum(1.0, np.where(np.isfinite(size), size, 1.0)), 0.0)
    if name == "digamma":
        turn = below - np.rint(below)
        terms = np.abs(np.pi / np.tan(np.pi * np.where(turn == 0, 0.5, turn)))
        return np.where(x < 0, np.maximum(1.0, terms + np.abs(special.digamma(1.0 - below))), 0.0)
    return 0.0


@np.errstate(all="ignore")
def errors(name: str, operands: list[Array], made: Array) -> Array:
    """Return the error of each result in units in the last place, infinite where it is none.

    It is none where one is NaN, infinite or has another sign of zero, and the other not.
    """
    dtype = float32 if made.dtype == np.float32 else float64
    wide = made.dtype if name in NARROW else np.float64 if dtype is float32 else np.longdouble
    if name in ROUGH and dtype is float64:
        wide = np.float64
    given = [a.astype(wide) for a in operands]
    wanted = np.asarray(ORACLES[name](*given))
    scale = np.maximum(np.abs(wanted), _scale(name, given))
    finite = np.where(np.isfinite(scale), scale, 1.0)
    off = np.abs(made.astype(wanted.dtype) - wanted) / spacing(finite, dtype)
    rounded = wanted.astype(made.dtype)
    same = (made == rounded) | np.isnan(made)
    fine = np.where(np.isfinite(rounded), np.isfinite(made), same)
    fine &= np.isnan(made) == np.isnan(rounded)
    fine &= (wanted != 0) | ((made == 0) & (np.signbit(made) == np.signbit(rounded)))
    return np.where(fine, np.where(np.isfinite(rounded), off, 0.0), np.inf).astype(np.float64)


def sweep(name: str, step: int) -> Iterator[tuple[float, float]]:
    """Yield the largest error of each part of all float32 numbers, every ``step``-th, and where."""
    part = 1 << 22
    for start in range(0, 1 << 32, part * step):
        numbers = np.arange(start, min(start + part * step, 1 << 32), step, np.uint64)
        x = numbers.astype(np.uint32).view(np.float32)
        found = errors(name, [x], evaluate(name, [x], "cpu"))
        worst = int(np.argmax(found))
        yield float(found[worst]), float(x[worst])


def main() -> None:
    """Print the largest errors that are found beside the bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--step", type=int, default=4099)
    chosen = parser.parse_args()
    print(f"{'function':14}{'float32':>10}{'bound':>8}{'float64':>10}{'bound':>8}")
    for name in chosen.names or BOUNDS:
        bound, row = BOUNDS[name], f"{name:14}"
        for dtype, most in ((float32, bound.float32), (float64, bound.float64)):
            operands = samples(dtype, 1 + (name in TWO), 100_000)
            worst = float(np.max(errors(name, operands, evaluate(name, operands, "cpu"))))
            if dtype is float32 and name not in TWO:
                worst = max(worst, *(e for e, _ in sweep(name, chosen.step)))
            row += f"{worst:10.3f}{most:8.2f}"
        print(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
