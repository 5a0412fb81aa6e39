"""Tests that want what is not installed are skipped, and others fail as ever."""

from __future__ import annotations

import pytest

SOURCE = """
import pytest
from calor.errors import DeviceError

def test_of_a_device():
    raise DeviceError('no device "cpu"; installed: numpy')

def test_of_another_device():
    raise DeviceError('no device "hip"; installed: numpy')

@pytest.fixture
def served():
    import calor_never

def test_of_a_fixture(served):
    pass

def test_of_nothing():
    pass
"""


def test_what_is_left_out_is_skipped(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALOR_LEFT_OUT", "calor-never calor-cpu")
    pytester.makepyfile(test_of_some=SOURCE, test_of_none="import calor_never\n")
    pytester.runpytest("-p", "left_out").assert_outcomes(passed=1, failed=1, skipped=3)
