"""Figures that routers keep: of which device they are, and in how much room they were measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from calor.made_once import MadeOnce
from calor_router import figures, speeds

from .toys import toy


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(figures, "_known", MadeOnce())


def test_figures_are_of_a_device_with_its_limits() -> None:
    name = speeds.name_of(toy("one"))
    assert name == speeds.name_of(toy("one"))
    less = toy("one")
    less.backend._info = replace(less.info, limits={"max_buffer_bytes": 1 << 20})  # type: ignore[attr-defined]
    less._info = None
    assert speeds.name_of(less) != name


def test_figures_of_less_room_give_way_to_those_of_more(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def measured(device: object, length: int) -> tuple[float, ...]:
        lengths.append(length)
        return 1e-6, 1e-6, 1e-9, float(len(lengths))

    monkeypatch.setattr(speeds, "_speeds", measured)
    monkeypatch.setattr(speeds, "_transfer", lambda *_: (1e-6, 1e-9))
    monkeypatch.setattr(speeds, "_early", lambda *_: False)
    one, two = toy("one"), toy("two")
    speeds.measure([one], [1 << 12])
    assert not lengths, "a router of one member has nothing to choose"
    speeds.measure([one, two], [1 << 12, None])
    assert lengths == [128, 1 << 20]
    assert speeds.speeds_of(one).flop == 1.0
    # In the room of before nothing is measured, in more it is, and what is known now holds.
    speeds.measure([one, two], [1 << 12, None])
    speeds.measure([one, two], [1 << 14, None])
    assert lengths == [128, 1 << 20, 512]
    speeds.measure([one, two], [1 << 12, 1 << 12])
    assert lengths == [128, 1 << 20, 512]
    # Another process finds the same in its files.
    monkeypatch.setattr(figures, "_known", MadeOnce())
    assert speeds.speeds_of(one).flop == 3.0
    speeds.measure([one, two], [None, None])
    assert lengths == [128, 1 << 20, 512, 1 << 20]
    assert speeds.speeds_of(one).flop == 4.0
