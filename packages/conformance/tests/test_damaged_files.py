"""A reader of files that takes what is damaged is found."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

import calor
from calor.errors import FormatError
from calor.plugins.discovery import get_device
from calor_conformance.checks.base import Place
from calor_conformance.checks.damaged_files import damaged_files

LOAD = calor.load
(CHECK,) = damaged_files()


def ask() -> None:
    device = get_device("numpy")
    with calor.device("numpy"):
        CHECK.run(Place(device, device))


def without_the_end(stream: io.BytesIO) -> Any:
    whole = stream.getvalue()
    size = int.from_bytes(whole[:8], "little")
    try:
        header = json.loads(whole[8 : 8 + size])
        ends = [e["data_offsets"][1] for n, e in header.items() if n != "__metadata__"]
        return LOAD(io.BytesIO(whole[: 8 + size + max(ends)]))
    except (ValueError, KeyError, AttributeError):
        return LOAD(io.BytesIO(whole))


def with_zeros(stream: io.BytesIO) -> Any:
    try:
        return LOAD(io.BytesIO(stream.getvalue()))
    except FormatError as error:
        if "gap" not in str(error):
            raise
        return {}


def with_another_number(stream: io.BytesIO) -> Any:
    return {name: x + 1 for name, x in LOAD(stream).items()}


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (without_the_end, "bytes behind"),
        (with_zeros, "a gap"),
        (with_another_number, "first is read"),
    ],
)
def test_it_is_named(load: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask()
    monkeypatch.setattr(calor, "load", load)
    with pytest.raises(AssertionError, match=said):
        ask()
