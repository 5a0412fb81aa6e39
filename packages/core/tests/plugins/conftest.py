"""Distributions on the path for the time of a test, and a registry that sees them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calor.plugins.entries import scan
from calor.plugins.registry import Registry

from .distributions import write_distribution

Distribution = Callable[..., Path]


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Distribution]:
    """Write a distribution and put it on the path; its modules are forgotten afterwards."""
    before = set(sys.modules)

    def write(name: str, *args: Any, **kwargs: Any) -> Path:
        folder = write_distribution(tmp_path, name, *args, **kwargs)
        monkeypatch.syspath_prepend(str(folder))
        return folder

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("fake_"):
            del sys.modules[name]


@pytest.fixture
def registry() -> Registry:
    """A registry of its own, which reads the metadata when it is first asked.

    It sees the distributions of the test, whatever else is installed where the test runs.
    """
    others = {(entry.name, entry.source) for entry in scan()}
    return Registry(lambda: (e for e in scan() if (e.name, e.source) not in others))
