"""Checks of what operators give servers, and of commands of models: they pass, and find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calor_conformance.checks import commands_of_onnx, operated_servers
from calor_http.server import handing, tokens
from calor_onnx import feeding
from calor_onnx.session.values import OrtValue
from reference_failures import failures

NAMES = [
    check.name
    for found in (operated_servers.operated_servers(), commands_of_onnx.commands_of_onnx())
    for check in found
]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 4) == []


def test_tokens_that_never_end_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_end", lambda where, value: None)
    assert "refused" in failures("devices/files-of-tokens", 4)[0]


def test_offers_that_are_taken_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    redeem = handing.Handing.redeem

    def kept(self: Any, secret: str) -> Any:
        offer = self._offered.get(handing._key(secret))
        made = redeem(self, secret)
        self._offered[handing._key(secret)] = offer
        return made

    monkeypatch.setattr(handing.Handing, "redeem", kept)
    assert "nothing is refused" in failures("devices/offered-values", 1)[0]


def test_seeds_that_are_left_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = feeding.drawn
    monkeypatch.setattr(
        feeding, "drawn", lambda info, shape, _: drawn(info, shape, np.random.default_rng(0))
    )
    assert "another seed" in failures("models/commands-of-models", 1)[0]


def test_values_that_keep_their_first_numbers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrtValue, "update_inplace", lambda self, array: None)
    assert "run" in failures("models/values-bound-to-sessions", 1)[0]
