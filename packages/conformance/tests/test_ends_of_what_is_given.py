"""Checks of lines of infinities, certain outcomes, resizes and restarts.

Each passes on the reference, and fails where one rule is broken that it is about.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import calor
from reference_failures import failures

NAMES = (
    "functions/counts-left-nanmax", "accuracy/many-updates-segment_mean",
    "functions/calor_distributions.certain-Binomial",
    "functions/calor_nn.drawn-resizes-linear-of-1", "devices/restarted-servers",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


def test_lines_of_infinities_that_count_as_empty_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numerics = import_module("calor_numerics.nan_reductions")

    def empty(x: Any, **options: Any) -> Any:
        return calor.logical_not(calor.any(calor.isfinite(x), **options))

    monkeypatch.setattr(numerics, "all_of", lambda x, **options: x)
    monkeypatch.setattr(numerics, "isnan", empty)
    assert failures("functions/counts-left-nanmax", 2)


def test_a_mode_beyond_the_number_of_trials_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def mode(self: Any) -> Any:
        return calor.floor((self.total_count + 1) * self.probs)

    monkeypatch.setattr(calor.distributions.Binomial, "mode", property(mode))
    assert failures("functions/calor_distributions.certain-Binomial", 1)


def test_a_filter_that_forgets_the_factor_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    resize = import_module("calor_nn.functional.resize")
    right = resize._filtered

    def forgetful(old: int, size: int, factor: Any, *more: Any) -> Any:
        return right(old, size, None, *more)

    monkeypatch.setattr(resize, "_filtered", forgetful)
    assert failures("functions/calor_nn.drawn-resizes-linear-of-1", 2)


def test_copies_of_uploads_that_were_written_to_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = import_module("calor_http.client.buffer").RemoteBuffer
    slot = buffer.kept

    def put(self: Any, contents: Any) -> None:
        if contents is not None or not hasattr(self, "_dropped"):
            slot.__set__(self, contents)

    monkeypatch.setattr(buffer, "kept", property(lambda self: slot.__get__(self), put))
    assert failures("devices/restarted-servers", 2)
