"""What trains is asked, and wrong steps, rates, scales, shares and batches are found."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance.checks import training, training_forms
from calor_conformance.checks.base import Place

PACKAGE = "calor_train"
CHECKS = {
    c.subject.partition(".")[2]: c for c in (*training.training(), *training_forms.training_forms())
}


def ask(name: str) -> None:
    device = get_device("numpy")
    with calor.device("numpy"):
        CHECKS[name].run(Place(device, device))


@pytest.mark.parametrize("name", CHECKS)
def test_the_package_passes(name: str) -> None:
    ask(name)


def _lasting(made: Any) -> Any:
    return made * 1.01


WRONG = [
    ("SGD", "optimizers.sgd", "SGDGroup", "_undamped"),
    ("Adam", "optimizers.adam", "AdamGroup", "change"),
    ("AdamW", "optimizers.adam", "AdamGroup", "change"),
    ("RMSprop", "optimizers.rmsprop", "RMSpropGroup", "change"),
    ("Adagrad", "optimizers.adagrad", "AdagradGroup", "change"),
    ("Adadelta", "optimizers.adagrad", "AdadeltaGroup", "change"),
    ("Adamax", "optimizers.adamax", "AdamaxGroup", "change"),
    ("NAdam", "optimizers.nadam", "NAdamGroup", "momenta"),
    ("RAdam", "optimizers.radam", "RAdamGroup", "lengths"),
    ("Rprop", "optimizers.rprop", "RpropGroup", "change"),
    ("schedules", "schedules", "Cosine", "value"),
    ("schedules", "schedules", "CosineRestarts", "value"),
    ("metrics", "metrics", "Loss", "compute"),
    ("metrics", "metrics", "ConfusionMatrix", "compute"),
    ("GradScaler", "scaling", "GradScaler", "scale"),
    ("complex-parameters", "optimizers.adam", "AdamGroup", "change"),
    ("half-parameters", "optimizers.sgd", "SGDGroup", "change"),
]


@pytest.mark.parametrize(("name", "module", "kind", "part"), WRONG)
def test_a_wrong_number_is_found(
    name: str, module: str, kind: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = getattr(import_module(f"{PACKAGE}.{module}"), kind)
    of = getattr(owner, part)
    monkeypatch.setattr(owner, part, lambda *given, **more: _lasting(of(*given, **more)))
    with pytest.raises(AssertionError):
        ask(name)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_a_state_that_is_not_loaded_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    group = import_module(f"{PACKAGE}.optimizers.group").ParameterGroup
    monkeypatch.setattr(group, "assignments", lambda self, entries: [])
    with pytest.raises(AssertionError, match="after step 3"):
        ask(name)


def test_without_the_package_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (training, training_forms):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert not [*training.training(), *training_forms.training_forms()]


def test_a_correction_that_begins_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    group = import_module(f"{PACKAGE}.optimizers.radam").RAdamGroup
    right = group.factors

    def factors(self: Any, t: Any) -> Any:
        rate, root, counts = right(self, t)
        return rate, root, calor.logical_and(counts, t > 8.5)

    monkeypatch.setattr(group, "factors", factors)
    with pytest.raises(AssertionError):
        ask("RAdam")
