"""Checks of sessions of ONNX that run again with other elements.

Each passes on the reference, and fails where a session keeps what its first inputs decided.
"""

from __future__ import annotations

from typing import Any

import pytest

from calor_conformance.checks import sessions_again
from calor_onnx.plans import Plans
from reference_failures import failures

SESSIONS = [c.name for c in sessions_again.sessions_again()]
RUN = Plans.run


@pytest.mark.parametrize("name", SESSIONS)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_that_keep_what_their_first_inputs_decided_are_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[Any, dict[str, Any]] = {}

    def run(self: Plans, values: dict[str, Any]) -> list[Any]:
        sizes = tuple((n, tuple(v.shape)) for n, v in values.items())
        first = kept.setdefault((id(self), sizes), values)
        return RUN(self, {n: v if n == "x" else first[n] for n, v in values.items()})

    monkeypatch.setattr(Plans, "run", run)
    assert "run with" in failures(name, 3)[0]
