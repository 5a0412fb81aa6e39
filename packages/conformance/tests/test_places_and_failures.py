"""Checks of states after failures: each passes on the reference, and fails where a rule is broken.

The faults are those of a device that writes before it knows that an index is in range, of one that
takes the nearest place instead, and of one that does not recover.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calor.errors import DeviceError
from calor.reference import indexing
from calor.tensor.values import Handle
from calor.transforms.program import Program
from reference_failures import failures

MODULES = ("state/states-after-failures",)
FINISH, CHECKED = Program.finish, indexing._checked


@pytest.mark.parametrize("name", MODULES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


def after_a_failure(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let a call that fails change the tensors of its state."""

    def finish(self: Any, tensors: Any, binding: Any, buffers: Any) -> Any:
        try:
            return FINISH(self, tensors, binding, buffers)
        except DeviceError:
            for i, _ in self.traced.state_writes:
                change(binding.handles[i])
            raise

    monkeypatch.setattr(Program, "finish", finish)


def test_states_that_a_failed_call_wrote_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(handle: Handle) -> None:
        if handle.dtype.name == "float32":
            handle._value.buffer.array[0] += 1

    after_a_failure(monkeypatch, written)
    assert "state" in failures("state/states-after-failures")[0]


def test_counts_of_failed_calls_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(handle: Handle) -> None:
        if handle.dtype.name == "int32":
            handle._value.buffer.array[...] += 1

    after_a_failure(monkeypatch, counted)
    assert "the count is" in failures("state/states-after-failures")[0]


def test_indices_that_are_moved_into_range_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nearest(indices: Any, size: int, axis: int | None = None) -> Any:
        return CHECKED(np.clip(indices, -size, size - 1), size, axis)

    monkeypatch.setattr(indexing, "_checked", nearest)
    assert "None" in failures("state/states-after-failures")[0]
