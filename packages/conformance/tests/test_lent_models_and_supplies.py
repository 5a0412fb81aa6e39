"""Checks of models that are used for a while, and of histories of loaders and scalers.

Each passes on the reference, and fails where something of a model is not given back, or where a
loader or a scaler is not where its history has led it.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

import calor
from calor_conformance.checks.drawn_supplies import drawn_supplies
from calor_conformance.checks.lent_models import lent_models
from calor_train import averaged_model, averaging, passes
from calor_train.data.loader import BatchIterator, DataLoader
from calor_train.scaling import GradScaler
from reference_failures import failures

KEPT = {c.name.rpartition("-")[2]: c.name for c in lent_models()}
SUPPLIES = {c.name.rpartition("-")[2]: c.name for c in drawn_supplies()}


@pytest.mark.parametrize("name", [*KEPT.values(), *SUPPLIES.values()])
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


@pytest.mark.parametrize(
    ("name", "module"),
    [("evaluate", passes), ("predict", passes), ("update_bn", averaged_model)],
)
def test_modes_that_are_not_given_back_are_found(
    name: str, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "kept_modes", nullcontext)
    assert "the mode of" in failures(KEPT[name], 4)[0]


def test_values_that_are_not_given_back_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assign = averaging.assign

    def weights(held: Any, value: Any) -> None:
        if held.requires_grad or held.ndim:
            assign(held, value)

    monkeypatch.setattr(averaging, "assign", weights)
    assert "num_batches_tracked" in failures(KEPT["swapped"], 4)[0]


def test_ends_of_epochs_that_are_not_stored_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    state = DataLoader.state_dict

    def open_end(self: Any) -> Any:
        return state(self) if self.position < len(self) else {
            "seed": self.seed, "epoch": self.epoch, "position": self.position}  # fmt: skip

    monkeypatch.setattr(DataLoader, "state_dict", open_end)
    assert "is at" in failures(SUPPLIES["DataLoader"], 4)[0]


def test_passes_that_were_left_and_count_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    following = BatchIterator.__next__

    def counts(self: Any) -> Any:
        made = following(self)
        self.loader.position = self.next_number
        return made

    monkeypatch.setattr(BatchIterator, "__next__", counts)
    assert failures(SUPPLIES["DataLoader"], 6)


def test_scales_that_overflow_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    update = GradScaler.update

    def overflows(self: Any, new_scale: Any = None) -> None:
        least = self.finite_steps.item() + 1 >= self.growth_interval
        last = float(self.factor.item()) * self.growth_factor
        update(self, new_scale)
        if new_scale is None and least and last > 3.5e38:
            self.factor[...] = calor.inf

    monkeypatch.setattr(GradScaler, "update", overflows)
    assert failures(SUPPLIES["GradScaler"], 8)
