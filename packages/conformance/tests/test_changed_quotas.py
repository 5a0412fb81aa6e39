"""The check of changed quotas passes on the reference, and finds what a change does not reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from calor_http.server.quotas import Account, Quota
from reference_failures import failures

NAME = "devices/changed-quotas"


def test_the_reference_passes() -> None:
    assert failures(NAME, 3) == []


@pytest.mark.parametrize("bound", ["requests_burst", "device_period", "pending"])
def test_a_bound_that_stays_the_old_one_is_found(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    give = Account.give

    def kept(self: Any, quota: Quota) -> None:
        old = getattr(self, "quota", None)
        give(self, quota if old is None else replace(quota, **{bound: getattr(old, bound)}))

    monkeypatch.setattr(Account, "give", kept)
    assert "after Quota" in failures(NAME, 2)[0]
