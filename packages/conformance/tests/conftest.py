"""Slow tests of the suite run with ``--full`` alone."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests of this folder to full runs."""
    if config.getoption("--full", default=False):
        return
    slow = {i for i in items if i.get_closest_marker("slow") and i.path.is_relative_to(HERE)}
    config.hook.pytest_deselected(items=list(slow))
    items[:] = [i for i in items if i not in slow]
