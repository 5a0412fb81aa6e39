"""A sample of ONNX's own tests; ``nox -s onnx_backend`` runs them all."""

import pytest

from calor_onnx.backend import backend_for
from onnx_tests import cases_of

TESTS = cases_of(backend_for("numpy"))


def test_all_of_them_are_there() -> None:
    assert len(TESTS) == 2033


@pytest.mark.parametrize("name", ["test_add", "test_elu", "test_reshape_zero_dim", "test_shape"])
def test_gives_what_onnx_says(name: str) -> None:
    TESTS[name]()
