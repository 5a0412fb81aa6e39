"""Garbage collection is put off, and what others froze is respected."""

import gc

import pytest

from calor.collecting import collecting_later


def test_objects_that_others_froze_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # What ran before in this process may have left collections off.
    gc.enable()
    monkeypatch.setattr(collecting_later, "_ended", 0)
    counted: list[int] = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(1) or 5)
    monkeypatch.setattr(gc, "freeze", lambda: pytest.fail("it froze objects beside others'"))
    for _ in range(3):
        with collecting_later():
            assert not gc.isenabled()
        assert gc.isenabled()
    assert len(counted) == 1
