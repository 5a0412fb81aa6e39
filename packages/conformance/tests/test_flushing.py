"""A device that declares to take the smallest numbers for zeros is held to all else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.protocol import partial
from calor_conformance import deep, outcomes, suite
from calor_conformance.checks.base import Place
from calor_conformance.rows.flushing import flushed, nearest, taken, zeros
from calor_conformance.selection import Selection

FLUSHED = frozenset((calor.float32, calor.bfloat16, calor.complex64))
CHECKS = suite.checks()
ASKED = [
    name
    for name, check in CHECKS.items()
    if (check.kind == "special" and check.op and check.dtype in FLUSHED)
    or name.startswith(("values/cast-extremes-to", "values/softmax-large", "graphs/each_op"))
]


# Crossings that draw denormals: of one operand, of two and of three, broadcast too; into other
# dtypes, and in chains of ops.
CROSSED = [
    f"crossed/{name}"
    for name in (
        *("sqrt/bfloat16", "log/float32", "lgamma/float32", "power/float32", "fmod/bfloat16"),
        *("less_equal/float32", "nextafter/float32", "atan2/bfloat16", "xlogy/float32"),
        *("lerp/bfloat16", "cast/bfloat16", "cast/complex64", "cast/float32"),
        *("floor_divide-large/float32", "chain-with-constants/float32"),
    )
]
WHOLE = ["special/add/int8", "special/abs/int64", "special/bit_not/uint64", "shapes/power-5/int8"]


class Flushing(NumpyBackend):
    """Numbers of float32 below ``least`` are zeros, as operands and as results."""

    name = "flushing"

    def __init__(self, declared: bool = True, least: float = 1.0) -> None:
        super().__init__()
        self.least = least
        if declared:
            states = {d: partial("small numbers are zeros") for d in FLUSHED}
            dtypes = {**self._info.dtypes, **states}
            self._info = replace(self._info, dtypes=dtypes, flushes=FLUSHED)

    def _flushed(self, x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        if self.least == 1.0 or x.dtype != np.float32:
            return flushed(x, FLUSHED)
        return np.where(np.abs(x) < self.least, np.copysign(np.float32(0), x), x)

    def table(self, index: int) -> Any:
        def changed(function: Any) -> Any:
            def made(*x: Any, **attributes: Any) -> Any:
                y = function(*map(self._flushed, x), **attributes)
                return tuple(map(self._flushed, y)) if isinstance(y, tuple) else self._flushed(y)

            return made

        return {name: changed(function) for name, function in super().table(index).items()}


def failed(backend: NumpyBackend, names: list[str]) -> list[str]:
    device = device_of(backend, 0)
    results = [outcomes.run(CHECKS[n], Place(device, device)) for n in names]
    return [f"{r.name}: {r.detail}" for r in results if r.outcome == "failed"]


def test_what_is_declared_is_let_pass() -> None:
    assert failed(Flushing(), ["features/description", *WHOLE, *ASKED[::3]]) == []


@pytest.mark.slow
def test_all_of_what_is_declared_is_let_pass() -> None:
    assert failed(Flushing(), ASKED) == []
    named = ("crossed", "crossed-gradient")
    names = [name for name, c in CHECKS.items() if c.kind in named and c.dtype in FLUSHED]
    assert failed(Flushing(), names) == []


def test_crossings_let_pass_what_is_declared_and_no_more() -> None:
    assert failed(Flushing(), CROSSED) == []
    assert len(failed(Flushing(declared=False), CROSSED)) == len(CROSSED)
    larger = ["crossed/sqrt/float32", "crossed/div/float32"]
    assert len(failed(Flushing(least=1e-3), larger)) == len(larger)


@pytest.mark.parametrize("declared", [True, False])
def test_the_deep_search_lets_pass_what_is_declared(declared: bool) -> None:
    chosen = Selection(patterns=("crossed/chain-with-constants/float32",))
    found = deep.search(device_of(Flushing(declared), 0), 0.3, 2, chosen=chosen)
    assert {r.outcome for r in found} == {"passed" if declared else "failed"}


def test_what_is_not_declared_fails() -> None:
    names = ["special/add/float32", "special/equal/bfloat16", "values/softmax-large/float32"]
    assert len(failed(Flushing(declared=False), names)) == len(names)


@pytest.mark.parametrize("name", ["special/mul/float32", "special/add/float32"])
def test_larger_numbers_are_no_zeros(name: str) -> None:
    assert failed(Flushing(least=1e-34), [name])


def test_a_dtype_that_flushes_is_declared_partial() -> None:
    backend = Flushing()
    backend._info = replace(backend._info, dtypes=NumpyBackend()._info.dtypes)
    (told,) = failed(backend, ["features/description"])
    assert "flushes, and is full, not partial" in told


def test_of_several_results_the_nearest_is_taken() -> None:
    got = np.array([np.nan, -0.0, 3.0, np.inf], np.float32)
    made = nearest(got, [np.array([1.0, 0.0, 2.0, 1.0]), np.array([np.nan, -0.0, 9.0, np.inf])])
    assert np.signbit(made[1])
    np.testing.assert_array_equal(made, [np.nan, -0.0, 2.0, np.inf])
    x = flushed(np.array([1e-40 - 1j, -1e-39j], np.complex64), FLUSHED)
    np.testing.assert_array_equal(x, np.array([-1j, complex(0, -0.0)], np.complex64))


def test_a_device_may_take_one_of_two_operands_for_zero() -> None:
    small, zero, one = (np.array([n], np.float32) for n in (1e-45, 0.0, 1.0))
    made = taken([small, one, -small], FLUSHED)
    assert [[float(x[0]) for x in given] for given in made] == [
        [float(small[0]), 1.0, -float(small[0])],
        [0.0, 1.0, 0.0],
        [0.0, 1.0, -float(small[0])],
        [float(small[0]), 1.0, 0.0],
    ]
    assert len(taken([small, one], FLUSHED)) == 2
    assert len(taken([zero, one], FLUSHED)) == len(taken([small, one], ())) == 1


def test_zeros_of_complex_parts_have_any_sign() -> None:
    made = zeros(np.array([complex(-0.0, -1e-40)]), calor.complex64, FLUSHED)
    signs = {(bool(np.signbit(a[0].real)), bool(np.signbit(a[0].imag))) for a in made}
    assert signs == {(True, True), (True, False)}
    for imag in (0.0, -0.0):
        got = np.array([complex(1, imag)], np.complex64)
        zero = np.array([complex(1, 0.0)], np.complex64)
        (found,) = nearest(got, [zero, zero.conj()])
        assert np.signbit(found.imag) == np.signbit(imag)
