"""What tests of convolutions share."""

import pytest


@pytest.fixture(autouse=True)
def small_problems_in_tf32(monkeypatch):
    """Let matrix instructions for TF32 take problems that are small enough for tests."""
    monkeypatch.setattr("calor_kernel.library.conv.lowering._FEW", dict.fromkeys((False, True), 0))
