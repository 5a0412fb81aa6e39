"""A sample of ONNX's own tests; ``nox -s onnx_backend`` runs them all.

When ONNX loads its tests it computes what they expect, with loops in Python that take ten seconds.
So a test here is known by its number, and the first one that runs loads them.
"""

from collections.abc import Callable

import pytest

from calor_onnx.backend import backend_for
from onnx_tests import cases_of

Tests = dict[str, Callable[[], None]]
COUNT = 2033
SAMPLE = range(4, COUNT - 7, 9)


def impossible(name: str) -> bool:
    """Return whether no answer of ours can be right.

    Random numbers want the generator of ONNX's reference; one test compares the lengths of arrays
    without axes, which have none.
    """
    return "bernoulli" in name or name == "test_loop16_seq_none"


@pytest.fixture(scope="module")
def tests() -> Tests:
    return cases_of(backend_for("numpy"))


def test_all_of_them_are_there(tests: Tests) -> None:
    assert len(tests) == COUNT
    assert sum(map(impossible, tests)) == 7


@pytest.mark.parametrize("number", SAMPLE)
def test_gives_what_onnx_says(tests: Tests, number: int) -> None:
    name = sorted(name for name in tests if not impossible(name))[number]
    try:
        tests[name]()
    except Exception as error:
        error.add_note(f"in ONNX's {name}")
        raise
