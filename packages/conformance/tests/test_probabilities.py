"""Every distribution is asked, integrals are those of closed forms, and wrong ones are found."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks import joint_probabilities, probabilities
from calor_conformance.checks.base import Place
from calor_conformance.rows.probability import DENSITIES
from calor_conformance.rows.probability.quadrature import integral

PACKAGE = "calor_distributions"
# What is no distribution by itself, or is the way to another.
WITHOUT = {"Distribution", "Transform", "ComposeTransform", "kl_divergence", "register_kl"}


def test_every_distribution_has_a_check() -> None:
    every = {name for name in import_module(PACKAGE).__all__ if not name.endswith("Transform")}
    joint = {c.subject.partition(".")[2] for c in joint_probabilities.joint_probabilities()}
    assert every - {row.name for row in DENSITIES} - joint <= WITHOUT


def test_integrals_are_those_of_closed_forms() -> None:
    made = integral(lambda x: np.exp(-x * x), [-np.inf, 0.0, -1.0], [np.inf, np.inf, 1.0], 2.0)
    want = [math.sqrt(math.pi), math.sqrt(math.pi) / 2, math.sqrt(math.pi) * math.erf(1.0)]
    np.testing.assert_allclose(made, want, rtol=1e-9)
    # An end where the function is infinite, and one that is far away.
    np.testing.assert_allclose(integral(lambda x: x**-0.5, 0.0, 4.0, 1.0), 4.0, rtol=1e-6)
    np.testing.assert_allclose(integral(lambda x: x**-2.0, 2.0, np.inf, 1.0), 0.5, rtol=1e-6)


WRONG = [
    ("Normal", "Normal", "log_prob"), ("Gamma", "Gamma", "entropy"),
    ("Weibull", "Weibull", "variance"), ("Beta", "Beta", "mode"), ("Pareto", "Pareto", "icdf"),
    ("Laplace", "Laplace", "_draw"), ("Poisson", "Poisson", "cdf"),
    ("StudentT", "StudentT", "mean"), ("Dirichlet", "Dirichlet", "_draw"),
    ("Multinomial", "Multinomial", "log_prob"), ("MixtureSameFamily", "MixtureSameFamily", "cdf"),
    ("MultivariateNormal", "MultivariateNormal", "_draw"),
]  # fmt: skip


@pytest.mark.parametrize(("subject", "name", "part"), WRONG)
def test_a_wrong_number_is_found(
    subject: str, name: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, device = getattr(import_module(PACKAGE), name), get_device("numpy")
    (check,) = [c for n, c in suite.checks().items() if n == f"functions/{PACKAGE}.{subject}"]
    of: Any = getattr(kind, part)

    def wrong(self: Any, *given: Any, **more: Any) -> Any:
        return (of.fget(self) if isinstance(of, property) else of(self, *given, **more)) * 1.1

    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(kind, part, property(wrong) if isinstance(of, property) else wrong)
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


def test_without_the_package_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (probabilities, joint_probabilities):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert not [*probabilities.probabilities(), *joint_probabilities.joint_probabilities()]
