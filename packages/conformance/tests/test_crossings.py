"""Crossings: covering arrays, operands in any order, failures that say what they take."""

from __future__ import annotations

import time
from functools import partial
from itertools import combinations, islice, product
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device, device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.ops.base import find
from calor_conformance import deep, outcomes, suite
from calor_conformance.checks.base import Place
from calor_conformance.rows.crossed import SUBJECTS
from calor_conformance.rows.crossed.language import Subject
from calor_conformance.rows.crossed.orders import ORDERS, placed
from calor_conformance.rows.crossed.pairwise import pairwise
from calor_conformance.rows.crossed.sources import philox
from calor_conformance.selection import selection

RNG = partial(np.random.default_rng, 0)
CUBES = [s for s in SUBJECTS if "cube" in s.factors and s.op not in ("concat", "expand")]
FACTORS: list[dict[str, Any]] = [
    {"a": (0, 1, 2, 3), "b": ("x", "y"), "c": (True, False), "d": range(5)},
    {"only": (1, 2, 3)},
    {"one": (1,), "other": (1, 2)},
]


@pytest.mark.parametrize("factors", FACTORS, ids=len)
def test_every_two_values_meet(factors: dict[str, Any]) -> None:
    made = list(pairwise(factors, np.random.default_rng(0)))
    for one, other in combinations(factors, 2):
        met = {(row[one], row[other]) for row in made}
        assert met == {(a, b) for a in factors[one] for b in factors[other]}
    assert {row[name] for row in made for name in factors} == {
        v for f in factors.values() for v in f
    }
    again = list(pairwise(factors, np.random.default_rng(0)))
    assert made == again
    assert len(made) <= 2 * max(map(len, factors.values())) ** 2


def test_every_three_values_meet_of_factors_together() -> None:
    factors, chosen = {**FACTORS[0], **FACTORS[2]}, ("a", "c", "d")
    made = list(pairwise(factors, np.random.default_rng(0), together=chosen))
    met = {tuple(row[name] for name in chosen) for row in made}
    assert met == set(product(*(factors[name] for name in chosen)))
    for one, other in combinations(factors, 2):
        assert len({(row[one], row[other]) for row in made}) == len(factors[one]) * len(
            factors[other]
        )
    assert len(made) <= 1.5 * len(met)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 0, 3), (3, 3, 3), (2, 1, 4, 3, 2)])
def test_an_operand_in_any_order_is_the_operand(order: str, shape: tuple[int, ...]) -> None:
    for seed in range(5):
        x = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
        if not x.size and order != "plain":
            continue
        array, step = placed(x, order, np.random.default_rng(seed))
        with calor.device("numpy"):
            got = step(calor.asarray(array)).numpy()
        assert got.shape == shape
        assert (got == x).all()


@pytest.mark.parametrize(
    "subject", [s for s in SUBJECTS if "cube" in s.factors], ids=lambda s: s.label
)
def test_axes_of_a_cube_are_equal(subject: Subject) -> None:
    seen = set()
    for scenario in islice(pairwise({"mode": ("jit",), **subject.factors}, RNG()), 6):
        problem = subject.build(scenario, RNG(), subject.main)
        assert problem is not None
        array = np.asarray(problem.arrays[0])
        seen.add(array.ndim)
        assert subject.op == "expand" or len(set(array.shape)) <= (
            2 if subject.op == "concat" else 1
        )
    assert max(seen) > 2


def test_philox_gives_the_known_answers() -> None:
    # Random123's kat_vectors for philox4x32-10.
    zeros = philox(np.zeros((1, 4), np.uint64), np.zeros(2, np.uint64))
    assert [hex(v) for v in zeros[0]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    ones = np.uint64(0xFFFFFFFF)
    got = philox(np.full((1, 4), ones), np.full(2, ones))
    assert [hex(v) for v in got[0]] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]


def test_labels_are_unique() -> None:
    labels = [s.label for s in SUBJECTS]
    assert len(set(labels)) == len(labels)


class Odd(NumpyBackend):
    """The reference, whose maximum loses NaN in the last element of long rows."""

    name = "odd-crossings"

    def table(self, index: int) -> Any:
        made = dict(super().table(index))
        right = find("max").reference
        assert right is not None

        def lossy(x: Any, *, axes: tuple[int, ...]) -> Any:
            got = right(x, axes=axes)
            if x.dtype != np.float32 or axes != (x.ndim - 1,) or x.shape[-1] < 1000:
                return got
            rest = right(x[..., :-1], axes=axes)
            last = x[..., -1]
            return np.where(last != last, rest, got).astype(x.dtype)

        made["max"] = lossy
        return made


@pytest.fixture(scope="module")
def odd() -> Device:
    return device_of(Odd(), 0)


def test_a_failure_names_the_values_that_it_takes(odd: Device) -> None:
    result = outcomes.run(suite.checks()["crossed/max/float32"], Place(odd, odd))
    assert result.outcome == "failed"
    assert "It takes: " in result.detail
    assert "length=1500" in result.detail
    # What does not matter is as plain as it can be.
    assert "sign=" not in result.detail


def chosen(*ops: str, patterns: tuple[str, ...] = ()) -> Any:
    return selection(
        ops=ops, dtypes=("float32",), patterns=patterns, known_ops=ops, known_kinds=("crossed",)
    )


def test_the_deep_search_finds_it_and_ends(odd: Device) -> None:
    said: list[str] = []
    one = chosen("max", patterns=("crossed/max/*",))
    # It ends where no row is left that has not failed.
    found = deep.search(odd, 60.0, 3, chosen=one, tell=lambda r: said.append(r.name))
    assert [(r.name, r.outcome) for r in found] == [("crossed/max/float32", "failed")]
    assert said == ["crossed/max/float32"]


def test_the_deep_search_of_the_reference_counts_scenarios_and_ends_in_time() -> None:
    device = calor.device("numpy")
    start = time.monotonic()
    found = deep.search(device, 0.3, 1, chosen=chosen("flip", "concat"))
    assert 0.3 <= time.monotonic() - start < 20
    assert {r.outcome for r in found} == {"passed"}
    assert "seed 1" in deep.told(found, 0.3, 1)
