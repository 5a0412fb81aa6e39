"""Checks of objects that keep state, driven beside a model.

Each passes on the reference, and fails where an object forgets or keeps what it should not.
"""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor_conformance.checks.base import Check
from calor_conformance.checks.driven_averages import driven_averages
from calor_conformance.checks.driven_callbacks import driven_callbacks
from calor_conformance.checks.driven_hooks import driven_hooks
from calor_conformance.checks.driven_layers import driven_layers
from calor_conformance.checks.driven_learner import driven_learner
from calor_conformance.checks.driven_metrics import driven_metrics
from calor_conformance.checks.driven_training import driven_training
from calor_nn.cache import KVCache
from calor_nn.hooks import HookHandle
from calor_nn.running_norm import _RunningNorm
from calor_train import averaged_model, averaging
from calor_train.callbacks import EarlyStopping
from calor_train.data.loader import DataLoader
from calor_train.metrics import Metric
from calor_train.scaling import GradScaler
from calor_train.scheduler import Scheduler
from reference_failures import failures

ALL: dict[str, Check] = {
    c.name.partition("driven-")[2]: c
    for make in (
        driven_averages,
        driven_callbacks,
        driven_hooks,
        driven_layers,
        driven_learner,
        driven_metrics,
        driven_training,
    )
    for c in make()
}


@pytest.mark.parametrize("name", ALL)
def test_the_reference_passes(name: str) -> None:
    assert failures(ALL[name].name, 2) == []


def _narrow(dtype: Any) -> Any:
    return dtype


def _same_share(self: Any) -> Any:
    return 0.1 if self.momentum is None else self.momentum


def _kept_place(self: Any) -> None:
    self.place[...] = calor.minimum(self.place, 1)


def _kept_sums(self: Any) -> None:
    """Forget no sums."""


def _kept_before(self: Any, learner: Any) -> None:
    """Forget nothing of the run before."""


def _all_of_a_function(self: Any) -> None:
    self.module._hooks = tuple(
        h for h in self.module._hooks if h.function is not self.hook.function
    )


def _no_new_values(self: Any, state: Any) -> None:
    self.bases, self.count = dict(state["bases"]), int(state["count"])


def _same_passes(self: Any, state: Any) -> None:
    self.seed, self.epoch, self.position = state["seed"], state["epoch"], state["position"]
    self._continues = True


@pytest.mark.parametrize(
    ("name", "owner", "attribute", "fault"),
    [
        ("mean", averaged_model, "working_dtype", _narrow),
        ("moving-average", averaging, "working_dtype", _narrow),
        ("norms", _RunningNorm, "_momentum", _same_share),
        ("caches", KVCache, "reset", _kept_place),
        ("metrics", Metric, "reset", _kept_sums),
        ("hooks", HookHandle, "remove", _all_of_a_function),
        ("schedules", Scheduler, "load_state_dict", _no_new_values),
        ("callbacks", EarlyStopping, "on_fit_begin", _kept_before),
        ("learner", GradScaler, "forget", _kept_sums),
        ("passes", DataLoader, "load_state_dict", _same_passes),
    ],
)
def test_what_is_planted_is_found(
    name: str, owner: Any, attribute: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, attribute, fault)
    assert failures(ALL[name].name, 4)
