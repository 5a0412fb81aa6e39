"""Checks of objects given twice, distinct slices, spread operands and memory lent at any address.

Each passes on the reference, and fails where one rule is broken that it is about.
"""

from __future__ import annotations

import subprocess
from importlib import import_module
from typing import Any

import pytest

import calor
from calor.functions import sets
from reference_failures import failures

NAMES = (
    "transforms/mapped-states", "functions/unique_all-along", "transfers/lent-addresses",
    "views/take_along-rank-4-spread/float32", "views/dot_general-rank-5-spread/int32",
    "crossed/take_along/float32", "crossed/scatter_along/float32",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


def test_tensors_that_keep_what_the_first_place_gave_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What was held first is put back last; otherwise a tensor of two places keeps a stand-in.
    monkeypatch.setattr(import_module("calor.transforms.vmap"), "reversed", list, raising=False)
    assert failures("transforms/mapped-states", 1)


def test_slices_whose_last_ranks_are_one_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sets._ranks

    def merged(columns: Any) -> Any:
        return calor.minimum(right(columns), max(columns.shape[0] - 2, 0))

    monkeypatch.setattr(sets, "_ranks", merged)
    assert failures("functions/unique_values-along", 2)


def test_a_process_that_ends_is_told_with_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, -11, "", "a sort at 4 bytes behind 128\n")

    monkeypatch.setattr(subprocess, "run", run)
    (found,) = failures("transfers/lent-addresses", 1)
    assert "ends with -11: a sort at 4 bytes" in str(found)
