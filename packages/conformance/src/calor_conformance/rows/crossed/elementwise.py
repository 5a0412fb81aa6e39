"""Elementwise ops at lengths around vectors, specials in any lane, broadcast, on their cuts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor.ops import movement as m
from calor.ops.base import find

from ..comparison import expected
from ..domains import special
from ..exemptions import NOT_EVERYWHERE
from ..flushing import taken
from ..judging import result_types, scale_of
from ..language import COMPLEX, Array, Case, Tolerance, limits_of, ulp
from ..tables import casts, declared
from ..tables import elementwise as rows
from .drawing import POSITIONS, places
from .language import Problem, Subject
from .orders import ORDERS
from .pairwise import Scenario

# Oracles take a microsecond an element or more, so longer operands repeat these.
_DISTINCT = 600
# Numbers of every operand beside the usual ones.
_SPECIALS = 64
_SHAPES: dict[str, tuple[int, ...]] = {
    "row": (), "matrix": (3,), "cube": (2, 3), "deep": (2, 1, 2), "deepest": (1, 2, 1, 2),
}  # fmt: skip


def _firsts() -> Iterator[tuple[Case, tuple[DType, ...]]]:
    """Yield the first row of each op in each dtype, rows with the dtypes that they are first in."""
    seen: set[tuple[str, DType]] = set()
    for c in (*rows.CASES, *declared.CASES):
        if not c.elementwise or c.op in NOT_EVERYWHERE:
            continue
        new = tuple(d for d in c.dtypes if (c.op, d) not in seen)
        seen.update((c.op, d) for d in new)
        if new:
            yield c, tuple(sorted(new, key=lambda d: d.name != "float32"))


def _build(c: Case) -> Any:
    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
        n = scenario["length"]
        shape = (*_SHAPES[scenario["shape"]], n)
        count = int(np.prod(shape))
        distinct = min(count, _DISTINCT)
        drawn = _operands(c, scenario, rng, dtype, distinct)
        picks = np.arange(count) % distinct
        extra = places(scenario["position"], n, rng)
        if extra and len(drawn[0]) > distinct:
            rows_ = picks.reshape(-1, n)
            rows_[:, extra] = distinct + rng.integers(0, len(drawn[0]) - distinct, len(extra))
        picks = picks.reshape(shape)
        if scenario["broadcast"] != "none" and len(drawn) > 1:
            return _broadcast(c, scenario, drawn, picks, dtype)

        def results(given: list[Array]) -> list[Array]:
            with np.errstate(all="ignore"):
                return [np.asarray(w)[picks] for w in expected(c, given, dtype)]

        def scale() -> list[Any]:
            found = scale_of(c, drawn, dtype)
            return [None if found is None else np.asarray(found)[picks]] * len(kinds)

        kinds = result_types(c, dtype, expected(c, drawn, dtype))
        return Problem(
            [a[picks] for a in drawn],
            lambda *ts: c.call(*ts, dtype=dtype),
            lambda: results(drawn),
            kinds,
            _tolerance(c, dtype),
            scale if c.tol.scale is not None else None,
            flushing=lambda flushes: [results(a) for a in taken(drawn, flushes)[1:]],
        )

    return build


def _tolerance(c: Case, dtype: DType) -> Tolerance:
    # The tolerances of rows are those of a dozen numbers, these are thousands.
    if c.tol.ulps <= 1:
        return c.tol
    return replace(c.tol, ulps=(2 if dtype.is_complex else 1.25) * c.tol.ulps)


def _operands(
    c: Case, scenario: Scenario, rng: np.random.Generator, dtype: DType, count: int
) -> list[Array]:
    """Return numbers of the row's domains, then special ones in every operand."""
    made = [np.asarray(d.draw(rng, d.type_for(dtype), (count,))) for d in c.inputs]
    if scenario["position"] == "none" or dtype.is_complex:
        return made
    if any(d.dtype is not None and d.name != "truth" for d in c.inputs):
        return made
    # Half of them stand in pairs of one kind, such as zeros of two signs.
    alike = rng.integers(0, 3, _SPECIALS)
    more = [_special_numbers(rng, d.type_for(dtype), alike) for d in c.inputs]
    return [np.concatenate([a, b]) for a, b in zip(made, more, strict=True)]


def _special_numbers(rng: np.random.Generator, dtype: DType, alike: Array) -> Array:
    """Return special numbers, and integers of every magnitude; ``alike``: which are zeros."""
    values = special(dtype)
    picked = values[rng.integers(0, values.size, alike.size)]
    if dtype.kind == "float":
        zeros = np.array([0.0, -0.0], dtype.numpy)[rng.integers(0, 2, alike.size)]
        return np.where(alike == 0, zeros, picked).astype(dtype.numpy)
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        size = np.exp2(rng.uniform(0, np.log2(float(limits.max)), alike.size))
        sign = np.where(rng.random(alike.size) < 0.5, -1, 1) if limits.min else 1
        return np.where(alike == 0, picked, (size * sign * 0.99).astype(dtype.numpy))
    return picked


def _broadcast(
    c: Case, scenario: Scenario, drawn: list[Array], picks: Array, dtype: DType
) -> Problem:
    """Give one operand one element along an axis, expanded on the device."""
    shape = picks.shape
    which = 0 if scenario["broadcast"] == "first" else len(drawn) - 1
    axis = 0 if scenario["broadcast"] == "outer" else len(shape) - 1
    # Few elements, since each meets others.
    picks = picks[..., :_DISTINCT]
    arrays = [a[picks] for a in drawn]
    arrays[which] = np.take(arrays[which], [0], axis)
    whole = [np.ascontiguousarray(np.broadcast_to(a, picks.shape)) for a in arrays]

    def run(*tensors: Any) -> Any:
        given = list(tensors)
        given[which] = m.expand(given[which], shape=picks.shape)
        return c.call(*given, dtype=dtype)

    def results(given: list[Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(w) for w in expected(c, given, dtype)]

    def scale() -> list[Any]:
        return [scale_of(c, whole, dtype)]

    kinds = result_types(c, dtype, expected(c, [w.reshape(-1)[:1] for w in whole], dtype))
    return Problem(
        arrays, run, lambda: results(whole), kinds, _tolerance(c, dtype),
        scale if c.tol.scale is not None else None,
        flushing=lambda flushes: [results(a) for a in taken(whole, flushes)[1:]],
    )  # fmt: skip


_FACTORS: dict[str, Any] = {
    "length": (7, 1, 33, 257, 1500),
    "shape": tuple(_SHAPES),
    "position": POSITIONS,
    "order": ORDERS,
    "broadcast": ("none", "last", "first", "outer"),
}
# A device may switch to another kernel, or to other threads, where there is much to do.
_LARGE: dict[str, Any] = {
    "length": (20_000, (1 << 18) + 3),
    "shape": ("row",),
    "position": ("tail", "last", "none"),
    "order": ("plain",),
    "broadcast": ("none",),
}
_DEEP: dict[str, Any] = {"length": (65_537, (1 << 20) + 3), "shape": ("row", "matrix")}


# Casts from each dtype to each, by pairs.
_CASTS = {c.attributes["dtype"]: c for c in casts.CASES if "dtype" in c.attributes}


def _cast(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    to = scenario["to"]
    n = scenario["length"]
    ends = _around_the_ends(to, dtype, rng)
    count = min(n, 300)
    values = rng.permutation(np.concatenate([special(dtype), ends, ends]))[:count]
    x = values[np.arange(n) % len(values)]
    at = places(scenario["position"], n, rng)
    if at:
        x[at] = rng.choice(np.concatenate([special(dtype), ends]), len(at))
    distinct, picks = _distinct(x)

    def results(given: Array) -> list[Array]:
        from ..oracle_casts import cast

        with np.errstate(all="ignore"):
            return [cast(given, dtype=to)[picks]]

    return Problem(
        [x], lambda t: find("cast")(t, dtype=to), lambda: results(distinct), [to],
        flushing=lambda flushes: [results(a) for (a,) in taken([distinct], flushes)[1:]],
    )  # fmt: skip


def _distinct(x: Array) -> tuple[Array, Array]:
    """Return the different bit patterns of an array, and which each element is."""
    raw = np.ascontiguousarray(x).view(f"V{x.dtype.itemsize}")
    found, at, picks = np.unique(
        np.frombuffer(raw.tobytes(), np.uint8).reshape(-1, x.dtype.itemsize), axis=0,
        return_index=True, return_inverse=True,
    )  # fmt: skip
    assert len(found) == len(at)
    return x[at], picks.reshape(x.shape)


def _around_the_ends(to: DType, source: DType, rng: np.random.Generator) -> Array:
    """Return numbers of a dtype around the ends of another, and around its last exact ones."""
    if to.is_integer:
        limits = np.iinfo(to.numpy)
        ends = [float(limits.min), float(limits.max)]
    elif to.kind == "bool":
        ends = [0.0, 1.0]
    else:
        part = to.numpy if not to.is_complex else np.dtype(np.float32)
        limits_ = limits_of(part)
        # Where numbers become too large, half a unit beyond the largest.
        most, unit = float(limits_.max), float(limits_.eps)
        last = most + 2.0 ** np.floor(np.log2(most)) * unit / 2 if most < 1e300 else most
        ends = [float(limits_.tiny), 1 / unit, 1.0, most, last]
    # Ties of the target, numbers beside them, and beyond the ends.
    made = [e * f for e in ends for f in (1, -1, 1 + 2**-9, 1 + 2**-24, 1 - 2**-9, 2, 0.5)]
    made += [e + d for e in ends for d in (-1.5, -1, -0.5, 0.5, 1, 1.5, 3)]
    if source.is_integer:
        bounds = np.iinfo(source.numpy)
        inside = [int(v) for v in made if bounds.min <= v <= bounds.max]
        # Beyond 2 ** 53, bits that a float64 does not hold.
        inside += [
            int(v) for v in rng.integers(bounds.min, bounds.max, 40, source.numpy, endpoint=True)
        ]
        if source.itemsize == 8:
            inside += [(1 << p) + (1 << q) + 1 for p in (54, 60, 62) for q in (29, 30, p - 24)]
            inside += [v + (1 << (p - 25)) for p in (54, 58, 61) for v in (1 << p, (1 << p) + 1)]
        fitting = [min(max(v, int(bounds.min)), int(bounds.max)) for v in inside]
        return np.array(fitting or [0], source.numpy)
    with np.errstate(all="ignore"):
        return np.asarray(made).astype(source.numpy)


_CAST_SOURCES = tuple(
    sorted({d for c in casts.CASES for d in c.dtypes}, key=lambda d: (d.name != "float32", d.index))
)
_CAST_TARGETS = tuple(sorted(_CASTS, key=lambda d: (d.name != "int32", d.index)))


# Complex functions where their branches meet: the sign of a zero says on which side.
_PARTS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 1e-3, -1e-3, 30.0, -30.0)
_CUT = ("sqrt", "log", "log2", "log10", "asin", "acos", "atan", "asinh", "acosh", "atanh")
_LARGE_PARTS = {"exp": 80.0, "sinh": 80.0, "cosh": 80.0, "tanh": 900.0, "tan": 900.0}


def _cut(c: Case, parts: tuple[float, ...]) -> Any:
    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
        every = np.array(
            [complex(a, b) for a in parts for b in parts if a == 0 or b == 0 or rng.random() < 0.4]
        )
        with np.errstate(all="ignore"):
            centre = np.abs(np.asarray(c.oracle(every)))
        # Poles and zeros have no last place.
        every = every[np.isfinite(centre) & (centre > 0)]
        x = rng.permutation(every)[np.arange(scenario["length"]) % every.size]
        x = np.asarray(x).astype(dtype.numpy)

        def want() -> list[Array]:
            with np.errstate(all="ignore"):
                return [np.asarray(w) for w in expected(c, [x], dtype)]

        return Problem([x], lambda t: c.call(t, dtype=dtype), want, [dtype], ulp(16))

    return build


def _cuts() -> Iterator[Subject]:
    seen: set[str] = set()
    for c in (*rows.CASES, *declared.CASES):
        complex_ = tuple(d for d in c.dtypes if d in COMPLEX)
        if not complex_ or c.op in seen or not c.elementwise or len(c.inputs) != 1:
            continue
        parts: tuple[float, ...] = _PARTS if c.op in _CUT else ()
        if c.op in _LARGE_PARTS:
            far = _LARGE_PARTS[c.op]
            parts = (0.0, -0.0, 1.0, -1.0, far, -far)
        if parts:
            seen.add(c.op)
            yield Subject(c.op, _cut(c, parts), complex_,
                          {"length": (33, 7, 257), "order": ("plain", "flipped", "stepped")},
                          name="cuts" if c.op in _CUT else "far")  # fmt: skip


SUBJECTS: list[Subject] = [
    *(
        subject
        for c, dtypes in _firsts()
        for subject in (
            Subject(c.op, _build(c), dtypes, _FACTORS, _DEEP, name=c.name),
            Subject(c.op, _build(c), dtypes[:1], _LARGE, name=f"{c.name}-large".lstrip("-")),
        )
    ),
    Subject("cast", _cast, _CAST_SOURCES,
            {"to": _CAST_TARGETS, "length": (257, 300, 1500), "position": POSITIONS,
             "order": ("plain", "flipped", "stepped", "permuted")}, each="to"),
    *_cuts(),
]  # fmt: skip
