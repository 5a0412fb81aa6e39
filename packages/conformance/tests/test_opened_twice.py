"""The check of routers that are opened with several options passes, and finds mixed options."""

from __future__ import annotations

import re
from typing import Any

import pytest

from calor.plugins.registry import Registry
from reference_failures import failures

NAME = "state/opened-twice"
FIND = Registry.device


def test_the_reference_passes() -> None:
    assert failures(NAME, 4) == []


def test_routers_that_are_found_without_their_limits_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first: dict[str, Any] = {}

    def find(self: Registry, text: str) -> Any:
        return first.setdefault(re.sub(r"\[.*?\]", "", text), FIND(self, text))

    monkeypatch.setattr(Registry, "device", find)
    assert "is one of" in failures(NAME, 4)[0]
