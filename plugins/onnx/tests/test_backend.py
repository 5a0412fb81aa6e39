"""A sample of ONNX's own tests; ``nox -s onnx_backend`` runs them all."""

import pytest

from calor_onnx.backend import backend_for
from onnx_tests import cases_of

TESTS = cases_of(backend_for("numpy"))
# Those of random numbers want the generator of ONNX's reference; one compares the lengths of arrays
# without axes, which have none.
IMPOSSIBLE = [name for name in TESTS if "bernoulli" in name] + ["test_loop16_seq_none"]
SAMPLE = sorted(TESTS.keys() - IMPOSSIBLE)[4::9]


def test_all_of_them_are_there() -> None:
    assert len(TESTS) == 2033
    assert len(IMPOSSIBLE) == 7


@pytest.mark.parametrize("name", SAMPLE)
def test_gives_what_onnx_says(name: str) -> None:
    TESTS[name]()
