"""Options and fixtures of core's tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--full``: every row with every dtype and shape, instead of a covering sample."""
    parser.addoption("--full", action="store_true", help="run every row with every dtype and shape")
