"""Checks of narrow indices, of many updates of a place, and of states after failures.

Each passes on the reference, and fails where a rule is broken. The faults are those of a device
that counts places in the type of an index, that adds up in a half type, that writes before it knows
that an index is in range, and that takes the nearest place instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import DeviceError
from calor.reference import indexing
from calor.tensor.values import Handle
from calor.transforms.batching import indexing as batching
from calor.transforms.program import Program
from calor_conformance.checks import many_updates
from calor_conformance.checks.indexed_functions import FUNCTIONS
from reference_failures import failures

STATES = ("state/states-after-failures", "state/states-after-failures-in-transforms")
MODULES = (
    *STATES,
    *(f"functions/narrow-indices-{name}" for name in FUNCTIONS),
    *(f"accuracy/many-updates-{name}" for name in many_updates._FUNCTIONS),
)
FINISH, UPDATED = Program.finish, indexing._updated
CHECKED, FLAT = indexing._checked, indexing._flat


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
    assert all("state" in failures(name)[0] for name in STATES)


def test_counts_of_failed_calls_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(handle: Handle) -> None:
        if handle.dtype.name == "int32":
            handle._value.buffer.array[...] += 1

    after_a_failure(monkeypatch, counted)
    assert all("the count is" in failures(name)[0] for name in STATES)


def test_indices_that_are_moved_into_range_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nearest(indices: Any, size: int, axis: int | None = None) -> Any:
        return CHECKED(np.clip(indices, -size, size - 1), size, axis)

    monkeypatch.setattr(indexing, "_checked", nearest)
    assert all("None" in failures(name)[0] for name in STATES)


def test_gradients_that_a_failed_call_took_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(self: Any, tensors: Any, binding: Any, buffers: Any) -> Any:
        try:
            return FINISH(self, tensors, binding, buffers)
        except DeviceError:
            for i, _ in self.traced.grad_writes:
                binding.owners[i]._grad = None
            raise

    monkeypatch.setattr(Program, "finish", finish)
    assert all("the gradient is" in failures(name, 3)[0] for name in STATES)


def numbered_as_they_are(indices: Any) -> Any:
    """Number the rows of a batch in the type of the indices, whose numbers wrap."""
    numbers = np.arange(indices.shape[0]).astype(indices.dtype.numpy)
    shape = (-1, *[1] * (indices.ndim - 1))
    whole = calor.broadcast_to(calor.asarray(numbers.reshape(shape)), (*indices.shape[:-1], 1))
    return calor.concat([whole, indices], axis=-1)


def narrowed(numbers: Any, indices: Any) -> Any:
    """Return numbers as they are where they are counted in the type of the indices."""
    return np.asarray(numbers).astype(np.asarray(indices).dtype).astype(np.intp)


def test_indices_from_the_end_that_are_counted_in_their_own_type_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def checked(indices: Any, size: int, axis: int) -> Any:
        whole = CHECKED(indices, size, axis)
        return np.where(np.asarray(indices) < 0, narrowed(whole, indices) % size, whole)

    monkeypatch.setattr(indexing, "_checked", checked)
    for name in ("take", "item", "take_along_axis", "index_update-max"):
        assert "int" in failures(f"functions/narrow-indices-{name}", 12)[0]


def test_places_of_several_indices_that_are_counted_in_their_own_type_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        indexing, "_flat",
        lambda indices, sizes: np.abs(narrowed(FLAT(indices, sizes), indices)),
    )  # fmt: skip
    for name in ("gather_nd", "scatter_nd-add"):
        assert "int" in failures(f"functions/narrow-indices-{name}", 12)[0]


def test_rows_of_a_batch_that_are_counted_in_the_type_of_indices_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "_numbered", numbered_as_they_are)
    for name in ("gather_nd", "scatter_nd-add"):
        assert "mapped" in failures(f"functions/narrow-indices-{name}", 24)[0]


@pytest.mark.parametrize(
    "name",
    ["index_update-add", "scatter_nd-mul", "put-add", "bincount",
     "histogram", "take-gradient", "embedding-gradient"],
)  # fmt: skip
def test_updates_that_add_up_in_the_half_type_are_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "widened", lambda x: x)
    assert "within" in failures(f"accuracy/many-updates-{name}", 6)[0]


def test_updates_of_which_the_last_are_left_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def updated(x: Any, places: Any, updates: Any, update: str) -> Any:
        count = len(places) * 15 // 16
        return UPDATED(x, places[:count], updates.reshape(-1)[:count], update)

    monkeypatch.setattr(indexing, "_updated", updated)
    for name in ("scatter_along_axis-add", "scatter_nd-mean", "item-gradient", "segment_sum"):
        assert "within" in failures(f"accuracy/many-updates-{name}", 6)[0]
